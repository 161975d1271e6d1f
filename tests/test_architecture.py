"""The layers, read from the directories: who may import whom, and who knows which package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import handrail
from architecture import (
    CORE,
    EDGES,
    ENTRY,
    INSIDE,
    MAX_PACKAGE_LINES,
    count_files,
    count_lines,
    find_cycles,
    find_packages,
    find_upward,
    folder_graph,
    imported_names,
    module_graph,
    outgrown,
    read_modules,
    statements,
)
from handrail.runs._engine import dbos_internals

ROOT = Path(__file__).parents[1]
PACKAGE = Path(handrail.__file__).parent
MODULES = read_modules(PACKAGE)
GRAPH = module_graph(MODULES)

DOORS = {
    "agent_framework": {"adapters.agent_framework"},
    "agents": {
        "adapters._calls.openai_agents",
        "adapters._sources.openai_agents",
        "adapters.openai_agents",
    },
    "agno": {"adapters.agno"},
    "anthropic": {"adapters.anthropic", "models._anthropic"},
    "asyncio": {"_support.loop", "adapters.autogen"},
    "authlib": {"net._oidc"},
    "autogen_core": {"adapters.autogen"},
    "cryptography": {"credentials._store"},
    "crewai": {"adapters.crewai"},
    "dbos": {f"runs._engine.dbos_{name}" for name in ("engine", "internals", "tables")},
    "fastmcp": {"adapters.fastmcp"},
    "google": {"adapters._sources.google_adk", "adapters.google_adk", "models._google"},
    "griffe": {"_definition.docstring"},
    "langchain_core": {
        "adapters._calls.langchain",
        "adapters._calls.langgraph",
        "adapters._sources.langchain",
        "adapters.langchain",
        "adapters.langgraph",
    },
    "langgraph": {"adapters._calls.langgraph", "adapters.langchain", "adapters.langgraph"},
    "httpx2": {
        "mcp._client.http",
        "mcp._login.flow",
        "credentials._requests",
        "credentials.logins",
        "mcp._login.discovery",
        "net._answers",
        "net._oidc",
        "openapi._http",
    },
    "llama_index": {"adapters.llama_index"},
    "smolagents": {"adapters.smolagents"},
    "jinja2": {"console._rendering"},
    "jiter": {"_schema.json_reader"},
    "joserfc": {"net._oidc"},
    "jwt": {"console._identity"},
    "strands": {"adapters.strands"},
    "yaml": {"agent._skills.yaml_reader", "mcp._config.formats", "openapi._yaml"},
    "html_to_markdown": {"tools._web.html"},
    "httpcore2": {"tools._web.http"},
    "markdown_it": {"cli._screen.inline"},
    "mcp": {
        "mcp._calls.following",
        "mcp._client.connection",
        "mcp._client.http",
        "mcp._client.session",
        "mcp._questions.questions",
        "mcp._client.stdio",
        "mcp._login.callback",
        "mcp._login.discovery",
        "mcp._login.flow",
        "mcp._login.tokens",
        "mcp._server.asking",
        "mcp._server.callers",
        "mcp._server.changes",
        "mcp._server.extras",
        "mcp._server.gate",
        "mcp._server.tasks",
        "mcp._server.updates",
        "mcp.server",
    },
    "mcp_types": {
        "adapters.fastmcp",
        "mcp._calls.content",
        "mcp._calls.following",
        "mcp._calls.shapes",
        "mcp._client.connection",
        "mcp._client.session",
        "mcp._client.stdio",
        "mcp._questions.questions",
        "mcp._server.asking",
        "mcp._server.calls",
        "mcp._server.content",
        "mcp._server.extras",
        "mcp._server.tasks",
        "mcp._server.updates",
    },
    "openai": {"models._openai"},
    "opentelemetry": {"telemetry._instruments"},
    "prompt_toolkit": {
        "cli._input.area",
        "cli._input.completion",
        "cli._input.ground",
        "cli._input.history",
        "cli._input.keys",
        "cli._input.layout",
        "cli._input.wrapping",
    },
    "pydantic": {
        "_schema.validator",
        "adapters.autogen",
        "adapters.crewai",
        "adapters.fastmcp",
    },
    "pydantic_ai": {
        "adapters._calls.pydantic_ai",
        "adapters._sources.pydantic_ai",
        "adapters.pydantic_ai",
    },
    "pydantic_core": {"_schema.validator", "adapters._turns", "testing._scripted"},
    "psycopg": {"runs._store.postgres"},
    "sqlalchemy": {"runs._engine.dbos_connections"},
}
"""The only modules that know a package."""

NOT_IN_CODE = {"032", "100", "107"}
"""Decisions about what is missing, published or in the package: no line looks odd for them."""
_CITED = re.compile(r"# .*: decision (\d{3})$|decisions?\W+\d", re.MULTILINE)
"""A comment that cites a decision; or another form, which has no number."""

MAX_FILES = 16
MAX_ROOT_FILES = 8
MAX_SUPPORT_FILES = 8
MAX_LINES = 400
MAX_PRIVATE_NAMES_OF_DBOS = 19
MAX_BODY_LINES = 40


def test_folders_go_one_way() -> None:
    assert find_upward(GRAPH) == []


def test_no_module_and_no_folder_reaches_itself() -> None:
    folders = folder_graph(GRAPH, find_packages(PACKAGE))

    assert (find_cycles(GRAPH), find_cycles(folders)) == ([], [])


def test_the_checks_above_can_fail() -> None:
    upward = {
        "__main__": {"cli._main", "cli._tree"},
        "cli._main": {"__main__"},
        "_values.call": {"_execution.check"},
        "tools._files.read": {"tools._shell.bash"},
        "tools._shell.bash": {"tools._files.read", "_execution.check", "agent"},
        "agent._run": {"approvals", "approvals._signing", "tools"},
    }

    assert find_cycles({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == ["a", "b"]
    assert find_upward(upward) == [
        "__main__ -> cli._tree",
        "_values.call -> _execution.check",
        "agent._run -> approvals._signing",
        "agent._run -> tools",
        "cli._main -> __main__",
        "tools._files.read -> tools._shell.bash",
        "tools._shell.bash -> _execution.check",
        "tools._shell.bash -> agent",
    ]


def test_every_folder_has_its_place() -> None:
    known = {*EDGES, *(name for layer in CORE for name in layer)}
    top = {name.split(".")[0] for name in MODULES} - {"", "_version", ENTRY}
    inside = {name for name in find_packages(PACKAGE) if "." in name}
    listed = {f"{edge}.{name}" for edge, layers in INSIDE.items() for name in set().union(*layers)}

    assert (top, inside) == (known, listed)


def test_every_permitted_import_between_packages_is_used() -> None:
    """AGENTS.md lists them."""
    used: dict[str, set[str]] = {name: set() for name in EDGES}
    for name, targets in GRAPH.items():
        top = name.partition(".")[0]
        if top in EDGES:
            used[top] |= {target.partition(".")[0] for target in targets} & EDGES.keys() - {top}

    assert used == EDGES


def test_a_listing_is_read_at_a_glance() -> None:
    files = count_files(PACKAGE)
    del files["cli.commands"]  # one for each command or group

    assert files.pop("handrail") + 1 <= MAX_ROOT_FILES
    assert files["_support"] <= MAX_SUPPORT_FILES
    assert {name: count for name, count in files.items() if count > MAX_FILES} == {}


def test_support_serves_two_packages_or_more_and_needs_none() -> None:
    for name in [name for name in MODULES if name.startswith("_support.")]:
        users = {user.split(".")[0] for user, targets in GRAPH.items() if name in targets}

        needs = GRAPH[name] - {"_support.systems"}  # the ground of the others
        assert (name, needs, len(users) > 1) == (name, set(), True)


@pytest.mark.parametrize("layer", ["_support", "_values"])
def test_values_need_the_standard_library_only(layer: str) -> None:
    outside = {"anyio", *DOORS} - {"asyncio"}
    used = {
        (name, package)
        for name, tree in MODULES.items()
        if name.startswith(f"{layer}.") and name != "_support.loop"
        for package in {target.split(".")[0] for target in imported_names(tree)}
    }

    assert {(name, package) for name, package in used if package in outside} == set()


@pytest.mark.parametrize("package", sorted(DOORS))
def test_each_package_has_one_door(package: str) -> None:
    knows = {
        name
        for name, tree in MODULES.items()
        if any(target.split(".")[0] == package for target in imported_names(tree))
    }

    assert knows == DOORS[package]


def private_names(tree: ast.Module) -> set[str]:
    """Private attributes of other objects, and private modules of DBOS, that a module names."""
    attributes = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    }
    return attributes | {name for name in imported_names(tree) if name.startswith("dbos._")}


def test_private_names_of_dbos_are_few_and_in_one_list() -> None:
    listed = (*dbos_internals.FUNCTIONS, *dbos_internals.VALUES, *dbos_internals.ATTRIBUTES)
    used = {name: private_names(tree) for name, tree in MODULES.items() if _knows_dbos(tree)}
    parts = {part for path in dbos_internals.ATTRIBUTES for part in path.split(".")}

    assert len(listed) <= MAX_PRIVATE_NAMES_OF_DBOS
    assert used["runs._engine.dbos_internals"] <= parts
    assert {name for name, private in used.items() if private} == {"runs._engine.dbos_internals"}


def _knows_dbos(tree: ast.Module) -> bool:
    return any(target.split(".")[0] == "dbos" for target in imported_names(tree))


def test_the_check_of_private_names_can_fail() -> None:
    source = "from dbos import _core\nimport dbos._queue\nhost._sys_db.x\nself._own\nplain.name"

    assert private_names(ast.parse(source)) == {"dbos._core", "dbos._queue", "_sys_db"}


def test_the_edges_and_the_loop_alone_know_anyio() -> None:
    knows = {
        name.split(".")[0]
        for name, tree in MODULES.items()
        if any(target.split(".")[0] == "anyio" for target in imported_names(tree))
    }

    core = {"_catalogue", "_execution", "_permissions", "_search", "_support", "_turn"}
    assert knows - EDGES.keys() == core


def count_body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function's body, those left out that a model reads: a tool's arguments and text."""
    inner = [
        one for one in ast.walk(node) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    texts = sum(len((ast.get_docstring(one, clean=False) or "").splitlines()) for one in inner)
    arguments = sum(one.body[0].lineno - one.lineno - 1 for one in inner if one is not node)
    return (node.body[-1].end_lineno or 0) - node.body[0].lineno + 1 - texts - arguments


def test_modules_and_functions_stay_within_their_budgets() -> None:
    long_modules = {
        path.name: lines
        for path in PACKAGE.rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    long_functions = {
        f"{name}.{node.name}": lines
        for name, tree in MODULES.items()
        for node in statements(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := count_body_lines(node)) > MAX_BODY_LINES
    }

    assert (long_modules, long_functions) == ({}, {})


def test_no_package_outgrows_its_number_of_lines() -> None:
    lines = count_lines(PACKAGE)

    assert outgrown(lines) == []
    assert lines.keys() == MAX_PACKAGE_LINES.keys()
    longer = {**lines, "core": MAX_PACKAGE_LINES["core"] + 1, "coding": 0}
    assert [line.partition(":")[0] for line in outgrown(longer)] == ["core", "coding"]


def find_cited(*texts: str) -> set[str]:
    return {number for text in texts for number in _CITED.findall(text)}


def test_the_code_cites_each_decision_where_it_rules() -> None:
    decisions = {page.name[:3] for page in ROOT.glob("docs/decisions/[01]*.md")}
    others = (".ci/run", "deploy/start", "docs/site.py", "tests/architecture.py")
    parts = [*PACKAGE.rglob("*.py"), *ROOT.glob("deploy/action/*.py"), *map(ROOT.joinpath, others)]

    cited = find_cited(*[part.read_text(encoding="utf-8") for part in parts])

    assert cited == decisions - NOT_IN_CODE


def test_the_check_of_cited_decisions_can_fail() -> None:
    cited = find_cited(
        "at = 1  # not zero: decision 057\n# no pickles: decision 12", "# decisions/060"
    )

    assert cited == {"057", ""}


def test_each_package_has_one_logger() -> None:
    names = dict[str, set[str]]()
    for path in PACKAGE.rglob("*.py"):
        package = path.relative_to(PACKAGE).parts[0]
        found = re.findall(r'getLogger\("(handrail[\w.]*)"\)', path.read_text(encoding="utf-8"))
        names.setdefault(package, set()).update(found)
    used = {package: found for package, found in names.items() if found}

    assert {package for package, found in used.items() if len(found) > 1} == set()
    assert (used["mcp"], used["_execution"]) == ({"handrail.mcp"}, {"handrail"})
