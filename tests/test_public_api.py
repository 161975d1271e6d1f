"""The front door: what it offers, and that importing it does next to nothing."""

from __future__ import annotations

import ast
import os
import resource
import subprocess
import sys
from importlib import import_module
from math import inf
from pathlib import Path

import pytest

import handrail
from handrail import Tool, tool
from tiny_server import untraced

DOCS = Path(__file__).parents[1] / "docs"
FOUR = {"anyio", "griffe", "pydantic", "typing_extensions"}
DEFINES_TOOLS = "from handrail import Call, Registry, Result, Tool, Toolset, lint, tool"
RUNS_TOOLS = "from handrail import Executor, Toolset, tool"
THEIRS = {"annotated_types", "idna", "pydantic_core", "sniffio", "typing_inspection"}


def run(statement: str, **variables: str) -> str:
    """Run a statement in a fresh interpreter."""
    return subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", statement],
        check=True,
        capture_output=True,
        encoding="utf-8",
        env=os.environ | variables,
    ).stdout


def cpu_seconds(statement: str, compiled: Path) -> float:
    """What a statement costs where all modules were compiled before."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(statement, PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=str(compiled), **untraced())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def test_the_root_has_at_most_fifty_names_in_order() -> None:
    assert len(handrail.__all__) <= 50


def test_no_package_has_more_than_50_names() -> None:
    packages = [
        path.parent.name for path in Path(handrail.__file__).parent.glob("[a-z]*/__init__.py")
    ]
    modules = [import_module(f"handrail.{package}") for package in packages]
    sizes = {module.__name__: len(getattr(module, "__all__", ())) for module in modules}

    assert {name: size for name, size in sizes.items() if size > 50} == {}
    assert sizes["handrail.runs"] <= 25
    assert handrail.__all__ == sorted(
        handrail.__all__, key=lambda n: (not n.isupper(), n.islower() or "_" in n, n)
    )


def test_every_name_of_the_root_is_there_and_no_other() -> None:
    public = {
        name
        for name in dir(handrail)
        if not name.startswith("_")
        and getattr(getattr(handrail, name), "__name__", "") != f"handrail.{name}"
    }

    assert public - {"TYPE_CHECKING", "make_lazy"} == set(handrail.__all__)
    assert all(getattr(handrail, name) is getattr(handrail, name) for name in handrail.__all__)
    with pytest.raises(AttributeError, match="module 'handrail' has no attribute 'Nothing'"):
        _ = handrail.Nothing


def test_a_tool_has_at_most_thirteen_public_attributes() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    public = [name for name in dir(add) if not name.startswith("_")]

    assert public == [
        "accesses",
        "fn",
        "headline",
        "invoke",
        "origin",
        "parse",
        "preview",
        "proxy",
        "remote",
        "spec",
        "takes_context",
        "touches",
        "verify",
    ]
    assert len(Tool.__mro__) == 3  # itself, Generic, object


def test_importing_loads_none_of_its_parts() -> None:
    loaded = run(
        "import sys; old = set(sys.modules); import handrail; print(*set(sys.modules) - old)"
    )

    assert {
        name for name in loaded.split() if name.split(".")[0] not in sys.stdlib_module_names
    } == {
        "handrail",
        "handrail._support",
        "handrail._support.lazy",
    }
    assert "typing" not in loaded.split()


def test_what_defines_tools_loads_no_third_party_package_but_the_four_it_needs() -> None:
    loaded = run(
        f"import sys; old = set(sys.modules); {DEFINES_TOOLS}; print(*set(sys.modules) - old)"
    )
    third_party = {
        name.split(".")[0]
        for name in loaded.split()
        if name.split(".")[0] not in sys.stdlib_module_names
    }

    assert third_party - {"handrail"} <= FOUR | THEIRS
    assert "pydantic" not in third_party  # it comes with the first tool


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where modules are compiled, once."""
    return tmp_path_factory.mktemp("compiled")


@pytest.mark.parametrize(("statement", "times"), [(DEFINES_TOOLS, 1.1), (RUNS_TOOLS, 1.6)])
def test_an_import_costs_little_more_than_pydantic_and_anyio(
    statement: str, times: float, compiled: Path
) -> None:
    # What a busy machine adds is never negative: the least of many is nearest to the cost.
    ours, theirs = inf, inf
    for measured in range(60):
        ours = min(ours, cpu_seconds(statement, compiled))
        theirs = min(theirs, cpu_seconds("import pydantic, anyio", compiled))
        if measured >= 4 and ours <= times * theirs:
            break

    assert ours <= times * theirs


def test_what_runs_tools_loads_neither_pydantic_nor_more_modules_than_it_needs() -> None:
    loaded = run(
        f"import sys; old = set(sys.modules); {RUNS_TOOLS}; print(*set(sys.modules) - old)"
    ).split()

    unneeded = {"asyncio", "griffe", "handrail.messages", "logging", "pydantic", "pydantic_core"}
    unneeded |= {"urllib.parse", "uuid"}
    assert unneeded & set(loaded) == set()
    assert len(loaded) <= 130


def evaluated_switches(source: str) -> list[str]:
    """Return the values of TYPE_CHECKING that an editor evaluates, so that it skips the names."""
    return [
        ast.unparse(node)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "TYPE_CHECKING"
        and isinstance(node.value, ast.Constant)
    ]


def test_editors_see_the_names_of_every_lazy_door() -> None:
    root = Path(handrail.__file__).parent
    doors = [root / "__init__.py", *root.glob("[a-z]*/__init__.py")]

    assert [
        door.parent.name for door in doors if evaluated_switches(door.read_text(encoding="utf-8"))
    ] == []
    assert evaluated_switches("TYPE_CHECKING = False\nif TYPE_CHECKING: ...") == [
        "TYPE_CHECKING = False"
    ]


def test_importing_prints_nothing_and_reads_no_setting() -> None:
    statement = (
        "import os, sys; asked = []; real = os.environ.__class__.__getitem__\n"
        "os.environ.__class__.__getitem__ = lambda s, k: (asked.append(k), real(s, k))[1]\n"
        "import handrail; print(*asked)"
    )

    assert run(statement).strip() == ""


LAZY = ["approvals", "net", "openapi", "policy", "runs", "sandbox", "tools"]


@pytest.mark.parametrize("edge", LAZY)
def test_a_lazy_door_has_all_of_its_names_and_no_other(edge: str) -> None:
    door = import_module(f"handrail.{edge}")

    assert set(door.__all__) <= set(dir(door))
    assert [name for name in door.__all__ if getattr(door, name) is not vars(door)[name]] == []
    with pytest.raises(
        AttributeError, match=f"module 'handrail.{edge}' has no attribute 'Nothing'"
    ):
        _ = door.Nothing


@pytest.mark.parametrize("edge", LAZY)
def test_a_lazy_door_loads_nothing_but_itself(edge: str) -> None:
    loaded = run(
        f"import sys, handrail, typing; old = set(sys.modules); import handrail.{edge}; "
        "print(*set(sys.modules) - old)"
    )

    assert set(loaded.split()) == {f"handrail.{edge}"}


@pytest.mark.parametrize(
    ("door", "missing", "said"),
    [
        ("from handrail.mcp import Login", "httpx2", "handrail.mcp.Login needs httpx2, {mcp}"),
        ("import handrail.mcp.server", "mcp", "handrail.mcp.server needs mcp, {mcp}"),
        (
            "from handrail.net import serve_app",
            "uvicorn",
            "handrail.net.serve_app needs uvicorn, {mcp}",
        ),
        (
            "from handrail.openapi import guarded_client",
            "httpx2",
            "handrail.openapi.guarded_client needs httpx2, {openapi}",
        ),
        (
            "from handrail.console import Console",
            "starlette",
            "handrail.console.Console needs starlette, {console}",
        ),
        ("from handrail import tool", "inspect", "import of inspect halted; None in sys.modules"),
    ],
)
def test_a_door_without_its_extra_names_the_command_that_installs_it(
    door: str, missing: str, said: str
) -> None:
    commands = {
        extra: f"which is not installed. Run: pip install 'handrail[{extra}]'"
        for extra in ("console", "mcp", "openapi")
    }
    shown = run(
        f"import sys; sys.modules[{missing!r}] = None\n"
        f"try: {door}\n"
        "except ModuleNotFoundError as error: print(error.name, error, sep='|')"
    )

    assert shown == f"{missing}|{said.format_map(commands)}\n"


_HIDE_ALL = """
import ast, importlib, sys
from pathlib import Path
import handrail
HIDDEN = {hidden!r}
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hide())
root = Path(handrail.__file__).parent
for path in sorted(root.rglob("[a-z]*.py")) + sorted(root.rglob("__init__.py")):
    parts = path.relative_to(root).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    listed = "__all__" in path.read_text(encoding="utf-8") or parts[:1] in [("adapters",), ("net",)]
    if any(part.startswith("_") for part in parts) or not listed:
        continue
    module = ".".join(("handrail", *parts))
    try:
        for name in getattr(importlib.import_module(module), "__all__", ()):
            getattr(sys.modules[module], name)
    except ModuleNotFoundError as error:
        said = "Run: pip install 'handrail[" in str(error)
        print(module, "ok" if said else str(error).partition("Run: ")[2] or error)
"""


def test_each_public_module_without_its_packages_names_the_command_that_installs_them() -> None:
    hidden = (
        "agent_framework agents agno anthropic authlib autogen_core click crewai dbos fastmcp google "
        "html_to_markdown httpcore2 httpx2 jinja2 joserfc jwt langchain_core langgraph llama_index mcp "
        "mcp_types openai opentelemetry prompt_toolkit psycopg pydantic_ai re2 rich smolagents "
        "sqlalchemy starlette strands tree_sitter uvicorn yaml"
    ).split()
    told = dict(line.split(" ", 1) for line in run(_HIDE_ALL.format(hidden=hidden)).splitlines())

    page = DOCS.joinpath("frameworks", "crewai.md").read_text(encoding="utf-8")
    commands = told.pop("handrail.adapters.crewai").split("; ")  # there is no extra

    assert [f"$ {command}\n" in page for command in commands] == [True, True]
    assert {module for module, said in told.items() if said != "ok"} == set()
    adapters = {module for module in told if module.startswith("handrail.adapters.")}
    assert (len(adapters), told["handrail.net.sign_in"]) == (13, "ok")


def test_what_a_list_of_tools_needs_loads_neither_pydantic_nor_the_executor(
    tmp_path: Path,
) -> None:
    loaded = run(
        "import sys\n"
        "from handrail.approvals import make_printable\n"
        "from handrail.policy import RulePaths, Trust, digest\n"
        "from handrail.sandbox import Sandbox, SandboxUnavailable\n"
        "from handrail.tools import outline\n"
        f"outline(), Sandbox({str(tmp_path)!r})\n"
        "print(*sys.modules)"
    ).split()

    assert {"pydantic", "anyio", "griffe", "asyncio", "handrail._execution.executor"} & set(
        loaded
    ) == set()
