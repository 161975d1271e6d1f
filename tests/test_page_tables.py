"""Tables of the pages: each lists exactly what the code has, so none is left out or made up."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Callable
from dataclasses import fields
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_overloads, get_type_hints

import pytest

from architecture import EDGES, INSIDE
from handrail import (
    READ,
    Approvals,
    Executor,
    Exposure,
    LongResults,
    Result,
    Spec,
    Tool,
    Toolset,
    lint,
    tool,
)
from handrail import hooks as ready_hooks
from handrail.agent import Agent, StopReason
from handrail.approvals import terminal
from handrail.cli._base.settings import KNOWN
from handrail.cli._chat.commands import COMMANDS as SLASH_COMMANDS
from handrail.cli._rules.mode import WITH_SANDBOX, WITHOUT_SANDBOX
from handrail.cli._tree import ROOT as COMMANDS
from handrail.cli._trust.files import Kind
from handrail.coding import coding_agent
from handrail.permissions import CheckedCall
from handrail.policy import load
from handrail.sandbox import Sandbox
from handrail.tools import Workspace, bash, edit, glob, grep, read, web_fetch, write
from page_tables import NAME, ROOT, first_cells, names, section

DOCS = ROOT / "docs"
PACKAGE = Path(str(files("handrail")))
OF_PROGRAMS = {"AskProgram", "HookAnswer", "ask_program", "hook_variables", "make_program_hook"}
"""What hooks in programs are made with."""


def options(function: Callable[..., Any], *without: str) -> set[str]:
    """The names of all parameters of a function and of its overloads."""
    plain = function.__init__ if isinstance(function, type) else function
    found: set[str] = set()
    for one in (plain, *get_overloads(plain)):
        for name, parameter in inspect.signature(one).parameters.items():
            if parameter.kind is not parameter.VAR_KEYWORD:
                found.add(name)
            elif keywords := get_args(get_type_hints(one)[name]):
                found |= keywords[0].__annotations__.keys()
    return found - {"self", *without}


def public(kind: type, *without: str) -> set[str]:
    """The public attributes of a class of values, but not those that all tuples have."""
    own = {name for name in dir(kind) if not name.startswith("_")}
    return own - {"count", "index", *without}


OPTIONS = [
    ("docs/guides/run-calls.md", "## Options", options(Executor, "tools")),
    ("docs/guides/turns.md", "## Options", options(Executor.turn)),
    ("docs/guides/agents.md", "# Build an agent", options(Agent)),
    ("docs/guides/results.md", "## Truncate large results", {f.name for f in fields(LongResults)}),
    ("docs/guides/approvals.md", "## Options", {one.name for one in fields(Approvals)}),
    ("docs/guides/approvals.md", "## At a terminal", options(terminal)),
    ("docs/guides/define-a-tool.md", "## Tool options", options(tool, "fn")),
    ("docs/reference/rules.md", "## Options of load", options(load, "paths")),
    (
        "docs/coding/agent.md",
        "# A coding agent in one call",
        options(coding_agent, "folder", "model"),
    ),
    ("docs/coding/bash.md", "## Options", options(bash, "sandbox")),
    ("docs/coding/grep.md", "## Options", options(grep, "workspace") | {"Workspace", "hides"}),
    ("docs/coding/sandbox.md", "## Options", options(Sandbox, "root")),
    ("docs/coding/web_fetch.md", "## Options", options(web_fetch)),
]


@pytest.mark.parametrize(
    ("page", "heading", "has"), OPTIONS, ids=[f"{page} {heading}" for page, heading, _ in OPTIONS]
)
def test_a_page_lists_every_option(page: str, heading: str, has: set[str]) -> None:
    text = section(page, heading)
    [head] = re.findall(r"^\| (option[^|]*) \|", text, re.MULTILINE)[:1]

    assert set(names(text, head)) == has


LITERAL = re.compile(r"`?(\"\w+\"|True|False|None|[\d,.]*\d)`?(?: \([^)]*\))?")
"""A default that a cell spells out, perhaps with words about it in brackets."""
DEFAULTS: list[tuple[str, str, Callable[..., Any]]] = [
    ("docs/guides/results.md", "## Truncate large results", LongResults),
    ("docs/guides/approvals.md", "## Options", Approvals),
    ("docs/guides/approvals.md", "## At a terminal", terminal),
    ("docs/reference/rules.md", "## Options of load", load),
    ("docs/coding/grep.md", "## Options", grep),
    ("docs/coding/sandbox.md", "## Options", Sandbox),
    ("docs/coding/web_fetch.md", "## Options", web_fetch),
]


def written_defaults(text: str) -> dict[str, object]:
    """The defaults that a table of options spells out, by option."""
    table = text[text.index("| option") :].partition("\n\n")[0].splitlines()
    cells = [re.split(r"(?<!\\) \| ", row.strip("| ")) for row in table]
    column = cells[0].index("default")
    return {
        row[0].strip("`"): ast.literal_eval(match[1].replace(",", ""))
        for row in cells[2:]
        if len(row) > column and (match := LITERAL.fullmatch(row[column]))
    }


@pytest.mark.parametrize(
    ("page", "heading", "function"), DEFAULTS, ids=[f"{one[0]} {one[1]}" for one in DEFAULTS]
)
def test_the_defaults_in_a_table_are_those_of_the_code(
    page: str, heading: str, function: Callable[..., Any]
) -> None:
    plain = function.__init__ if isinstance(function, type) else function
    real = {
        name: parameter.default
        for one in (plain, *get_overloads(plain))
        for name, parameter in inspect.signature(one).parameters.items()
    }
    written = written_defaults(section(page, heading))

    assert written == {name: real[name] for name in written}
    assert written


def test_a_default_is_read_from_a_cell() -> None:
    text = (
        "| option | is | default |\n|---|---|---|\n| `a` | x \\| y | 86,400 (one day) |\n"
        '| `b` | x | `"auto"` |\n| `c` | x | `False` |\n| `d` | x | 5 MiB |\n| `e` | x | 0.5 |\n\n'
    )

    assert written_defaults(text) == {"a": 86_400, "b": "auto", "c": False, "e": 0.5}


def test_a_missing_and_an_unknown_option_are_noticed() -> None:
    def start(self: object, one: int, **more: int) -> None:
        """Do nothing."""

    table = "| option | is |\n|---|---|\n| `one`, `two(x)` | `three` |\n\n| `four` | |"

    assert (set(names(table, "option")), options(start)) == ({"one", "two"}, {"one"})


VALUES = [
    (
        "docs/guides/results.md",
        "## Fields of a result",
        "field",
        public(Result, "fail", "from_json", "to_json"),
    ),
    (
        "docs/guides/hooks.md",
        "## Write a hook",
        "attribute",
        public(CheckedCall, "nth", "parsed", "recorded", "tool"),
    ),
    (
        "docs/guides/toolsets.md",
        "## Combine and filter",
        "method",
        public(Toolset, "api_names", "explain_search", "free_name", "has_deferred", "specs")
        - {"from_object", "has_background", "has_search_tool", "join"}
        | {"Toolset.from_object"},
    ),
    (
        "docs/guides/hooks.md",
        "## Ready-made hooks",
        "hook",
        {*ready_hooks.__all__} - {"Hook", "StopRun"} - OF_PROGRAMS,
    ),
    (
        "docs/guides/agents.md",
        "# Build an agent",
        "`stop_reason`",
        {reason for kind in get_args(StopReason) for reason in get_args(kind)},
    ),
    ("docs/cli/index.md", "## Commands", "command", {*COMMANDS}),
    ("docs/cli/index.md", "### Settings", "setting", {*KNOWN}),
]


@pytest.mark.parametrize(
    ("page", "heading", "head", "has"), VALUES, ids=[f"{one[0]} {one[2]}" for one in VALUES]
)
def test_a_page_lists_every_name(page: str, heading: str, head: str, has: set[str]) -> None:
    assert set(names(section(page, heading), head)) == has


def test_the_table_of_modes_has_the_sentences_of_the_command() -> None:
    text = section("docs/cli/rules.md", "## Choose a mode")
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", text, re.MULTILINE)
    shown = {mode: (boxed, boxed if bare == "the same" else bare) for mode, boxed, bare in rows}

    assert shown == {mode: (WITH_SANDBOX[mode], WITHOUT_SANDBOX[mode]) for mode in WITH_SANDBOX}


def test_the_page_about_trust_lists_every_kind_of_file() -> None:
    kinds = first_cells(section("docs/cli/trust.md", "## List files that need trust"), "kind")

    assert sorted(kinds) == sorted(get_args(Kind))


def test_the_page_about_lint_lists_every_rule() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(8):
        deep = {"type": "object", "properties": {"inner": deep}}
    long = "It does one thing. " * 500
    nothing: dict[str, Any] = {"type": "object"}
    bad = [
        Spec(name="run", description="", input_schema=deep, effect=READ),
        Spec(name="shop/pick_and_pay", description=long, input_schema=nothing),
        *(
            Spec(
                name=name,
                description="Find it.",
                input_schema=nothing,
                exposure=Exposure.DEFERRED,
            )
            for name in ("find_item", "findItem")
        ),
    ]
    found = {finding.rule for finding in lint(Tool.remote(spec, _nothing) for spec in bad)}

    assert set(names(section("docs/guides/lint.md", "## Findings"), "rule")) == found


async def _nothing(_: object, __: object) -> str:
    return ""


def test_the_extra_all_has_everything_but_frameworks_and_the_sign_in_of_a_console() -> None:
    """As README, install.md and extras.md say."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras: dict[str, list[str]] = declared["project"]["optional-dependencies"]

    def parts(extra: str) -> set[str]:
        own = re.findall(r"handrail\[([\w,-]+)\]", " ".join(extras[extra]))
        inner = {name for group in own for name in group.split(",")}
        return {extra}.union(*map(parts, inner))

    modules = (PACKAGE / "adapters").glob("[a-z]*.py")
    frameworks = {module.stem.replace("_", "-") for module in modules} - parts("all")
    left_out = {"console-jwt", "console-oidc", *(frameworks & extras.keys())}
    assert extras.keys() - parts("all") == left_out


def test_every_adapter_has_a_page_that_the_list_of_frameworks_links_to() -> None:
    modules = {one.stem for one in (PACKAGE / "adapters").glob("[a-z]*.py")}
    text = section("docs/frameworks/index.md", "# Frameworks")
    linked = re.findall(r"\]\(([\w-]+)\.md\)", "".join(first_cells(text, "framework")))

    assert sorted(name.replace("-", "_") for name in linked) == sorted(modules)


def test_the_pages_list_every_target_of_make() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = sorted(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    table = section("CONTRIBUTING.md", "## Commands")
    line = section("AGENTS.md", "## Commands")

    assert sorted(re.findall(r"^\| `make ([a-z-]+)` \|", table, re.MULTILINE)) == targets
    assert sorted(re.findall(r"`make ([a-z -]+)`", line)[0].split()) == targets


def edge_rows() -> dict[str, str]:
    """The rows of the edge packages in the table of layers, by package."""
    rows = section("AGENTS.md", "## Layers").splitlines()
    found = {match[1]: row for row in rows if (match := re.match(r"\| [`\[](\w+)/", row))}
    return {name: row for name, row in found.items() if name in EDGES}


def imports_of(row: str, package: str) -> set[str]:
    """The edge packages that a row says its package imports."""
    listed = r"((?:`\w+`(?:, | and )?)+)"
    if match := re.search(rf"Imports all other edge packages except {listed}", row):
        return EDGES.keys() - {package, *NAME.findall(match[1])}
    return set(NAME.findall(match[1])) if (match := re.search(f"Imports {listed}", row)) else set()


def test_the_rules_for_the_code_say_which_packages_import_each_other() -> None:
    assert {name: imports_of(row, name) for name, row in edge_rows().items()} == EDGES


def test_the_rules_for_the_code_name_the_folders_of_packages_in_order() -> None:
    rows = edge_rows()
    missing = {
        f"{package}/{name}"
        for package, layers in INSIDE.items()
        for name in set().union(*layers)
        if f"`{name}" not in rows[package]
    }
    wrong = {
        f"{package}: {low} < {high}"
        for package, row in rows.items()
        for low, high in orders(row)
        if level(package, low) >= level(package, high)
    }

    assert (missing, wrong) == (set(), set())


def orders(row: str) -> list[tuple[str, str]]:
    """Every pair of folders that a row puts in order."""
    folder = r"`\w+`"
    chains = re.findall(rf"{folder}(?:(?:, | < ){folder})*", row)
    groups = [[NAME.findall(group) for group in chain.split(" < ")] for chain in chains]
    return [
        (low, high)
        for chain in groups
        for lows, highs in pairwise(chain)
        for low in lows
        for high in highs
    ]


def level(package: str, folder: str) -> int:
    return next(n for n, layer in enumerate(INSIDE[package]) if folder in layer)


def test_a_wrong_row_of_the_layers_is_noticed() -> None:
    row = "| [cli/](x) | `_base` < `_runs`, `_screen` < `commands`. Imports `net` and `runs`; `x` |"

    assert orders(row) == [
        ("_base", "_runs"),
        ("_base", "_screen"),
        ("_runs", "commands"),
        ("_screen", "commands"),
    ]
    assert imports_of(row, "cli") == {"net", "runs"}
    assert imports_of("Imports all other edge packages except `net`, and", "cli") == (
        EDGES.keys() - {"cli", "net"}
    )


def test_the_page_of_chats_lists_every_slash_command() -> None:
    cells = first_cells(section("docs/cli/chat.md", "## Slash commands"), "command")

    assert {name for cell in cells for name in re.findall(r"`/(\w+)", cell)} == {*SLASH_COMMANDS}


@pytest.mark.parametrize("make", [edit, glob, grep, read, write], ids=lambda make: make.__name__)
def test_the_page_of_a_coding_tool_lists_its_arguments(
    make: Callable[[Workspace], Tool[..., Any]], tmp_path: Path
) -> None:
    page = section(f"docs/coding/{make.__name__}.md", "## What the model sees")

    assert {*names(page, "argument")} == {
        *make(Workspace(tmp_path)).spec.input_schema["properties"]
    }
