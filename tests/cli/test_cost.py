"""What a command costs before it does anything: CPU time, beside that of what it cannot do without."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from cli_harness import Handrail
from tiny_server import untraced

SCRIPT = Path(sys.executable).with_name("handrail")
COMMAND = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "handrail.cli"]

TOOLS = "from handrail import Registry, Tool, tool"
SANDBOX = "from handrail.sandbox import Sandbox; Sandbox('.')"
"""Without one there is no tool that runs commands, and the list says so."""


def cpu_seconds(command: list[str], env: dict[str, str], folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=env, cwd=folder)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def unmeasured(handrail: Handrail) -> dict[str, str]:
    """The environment of a command that nobody counts the lines of."""
    return handrail.environment({"PATH": os.environ["PATH"], **untraced()})


@pytest.mark.parametrize(
    ("arguments", "beside", "times"),
    [
        (["--version"], "import click", 1.5),
        (["--help"], "import click", 1.5),
        (["tools", "list"], f"{TOOLS}; {SANDBOX}; import anyio, click", 1.6),
    ],
    ids=["version", "help", "tools list"],
)
def test_a_command_costs_little_more_than_its_imports(
    handrail: Handrail, arguments: list[str], beside: str, times: float
) -> None:
    env = unmeasured(handrail)
    statement = [sys.executable, "-c", beside]
    ratios: list[float] = []  # a machine that slows down does so for both of a pair
    while len(ratios) < 3 or (len(ratios) < 40 and median(ratios) > times):
        ours = cpu_seconds([*COMMAND, *arguments], env, handrail.workspace)
        ratios.append(ours / cpu_seconds(statement, env, handrail.workspace))

    assert median(ratios) <= times


def loaded(arguments: list[str], handrail: Handrail) -> set[str]:
    """What a command has loaded when it ends."""
    source = (
        "import runpy, sys\n"
        "try:\n    runpy.run_module('handrail.cli', run_name='__main__')\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", source, *arguments],
        capture_output=True,
        encoding="utf-8",
        env=unmeasured(handrail),
        cwd=handrail.workspace,
        check=True,
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["tools", "--help"]])
def test_help_and_version_load_click_and_the_tree_of_commands_alone(
    handrail: Handrail, arguments: list[str]
) -> None:
    found = loaded(arguments, handrail)

    assert {one.partition(".")[0] for one in found if not _known(one)} == {"click", "handrail"}
    assert {one for one in found if one.startswith("handrail")} == {
        "handrail",
        "handrail._support",
        "handrail._support.lazy",
        "handrail._version",
        "handrail.cli",
        "handrail.cli._main",
        "handrail.cli._tree",
    }
    assert "importlib.metadata" not in found


def test_a_list_of_tools_loads_neither_rich_nor_pydantic(handrail: Handrail) -> None:
    assert loaded(["tools", "list"], handrail) & {"rich", "pydantic"} == set()
    assert "handrail.tools" in loaded(["tools", "list"], handrail)


def _known(module: str) -> bool:
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or top.startswith("_") or top == "sitecustomize"
