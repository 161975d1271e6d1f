"""Tables about permissions: every row of a page is decided, in every mode."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from handrail import DESTROY, READ, WRITE, Access, Call, Effect, Executor, Toolset, tool
from handrail.policy import Rulebook, builtin_rules
from handrail.tools import web_fetch

PAGES = Path(__file__).parents[2] / "docs" / "guides"
MODES = ("plan", "ask", "edits", "open")
COMMAND = re.compile(r"`([^`]+)`")


@tool
async def bash(command: str) -> None:
    """Run a command."""


def touching(effect: Effect, resource: str) -> Toolset:
    """A tool with one effect on one thing."""

    @tool(effect=effect, touches=lambda: Access(effect, resource))
    async def touch() -> None:
        """Touch it."""

    return Toolset(touch)


def rows(page: str, head: str) -> list[list[str]]:
    """The cells of the table that begins with this head."""
    text = (PAGES / page).read_text(encoding="utf-8")
    _, found, below = text.partition(f"\n| {head} |")
    assert found, f"no table begins with {head!r}"
    lines = below.partition("\n\n")[0].splitlines()[2:]
    return [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in lines]


def verdicts(call: Call, tools: Toolset, **options: Any) -> dict[str, str]:
    """The decision about a call in each mode."""
    return {
        mode: Executor(tools, policy=Rulebook(mode=mode, root=False, **options))
        .explain(call)
        .matched[0]
        .verdict
        for mode in MODES
    }


def of_command(command: str, **options: Any) -> dict[str, str]:
    return verdicts(Call("bash", {"command": command}), Toolset(bash), **options)


def test_the_table_of_modes_says_what_is_decided_for_each_effect() -> None:
    table = {COMMAND.findall(row[0])[0]: row[2:] for row in rows("permissions.md", "mode")}
    call = Call("touch", {})
    columns = [verdicts(call, touching(effect, "order:1")) for effect in (READ, WRITE, DESTROY)]

    assert table == {mode: [column[mode] for column in columns] for mode in MODES}
    assert verdicts(call, touching(WRITE, "net:example.org")) == columns[2]


def test_a_rule_that_allows_pages_of_a_host_does_so_in_every_mode() -> None:
    [shown] = [row[1] for row in rows("permissions.md", "to") if "pages of a host" in row[0]]
    rules = Rulebook.from_toml("\n".join(["[[rule]]", *COMMAND.findall(shown)])).rules
    tools = Toolset(web_fetch())
    url = "https://example.org/a"

    assert verdicts(Call("web_fetch", {"url": url}), tools, rules=rules) == dict.fromkeys(
        MODES, "allow"
    )
    assert verdicts(Call("web_fetch", {"url": url}), tools) == {
        "plan": "deny",
        "ask": "ask",
        "edits": "ask",
        "open": "allow",
    }


ALLOW = '[[rule]]\ndecide = "allow"\ntools = "bash"\ncommand = "frob"\n'
COMMANDS: dict[str, tuple[str, bool]] = {
    "a rule allows it, with `read_only = true`": (f"{ALLOW}read_only = true\n", False),
    "a rule allows it": (ALLOW, False),
    "no rule allows it, no sandbox": ("", False),
    "no rule allows it, `sandboxed=True`": ("", True),
}
"""Rules, and whether there is a sandbox, for each row."""


def test_the_table_of_commands_says_what_is_decided_in_each_mode() -> None:
    table = {row[0]: row[1:] for row in rows("shell-permissions.md", "command | `plan`")}
    table.pop("it has a [consequence](#consequences)")  # see the next table

    assert table == {
        name: [*of_command("frob", rules=Rulebook.from_toml(rules).rules, sandboxed=boxed).values()]
        for name, (rules, boxed) in COMMANDS.items()
    }


def examples(cell: str) -> list[str]:
    """The commands of a cell, up to the words about what the row does not cover."""
    shown = COMMAND.findall(cell.partition("; not")[0].replace(r"\|", "|"))
    return [command.replace("://…", "://example.org") for command in shown]


@pytest.mark.parametrize("sandboxed", [True, False], ids=["sandbox", "no sandbox"])
@pytest.mark.parametrize("row", rows("shell-permissions.md", "consequence"), ids=lambda row: row[0])
def test_each_example_of_a_consequence_needs_approval_in_the_modes_of_its_row(
    row: list[str], *, sandboxed: bool
) -> None:
    _, shown, modes = row
    said = {"plan": "deny", "open": "allow"} | dict.fromkeys(COMMAND.findall(modes), "ask")
    decided = {command: of_command(command, sandboxed=sandboxed) for command in examples(shown)}

    assert decided == dict.fromkeys(decided, said)
    assert decided


def test_the_first_table_says_what_the_built_in_rules_decide() -> None:
    words = {"runs": "allow", "asks": "ask", "asks, always": "ask"}
    said = {
        command: (words[decision], decision == "asks, always")
        for cell, decision, _ in rows("shell-permissions.md", "command | decision")
        if decision in words
        for command in examples(cell)
    }
    decided = {
        command: of_command(command, rules=builtin_rules("read_only"), sandboxed=True)
        for command in said
    }

    assert {
        command: (decided[command]["ask"], decided[command]["open"] == "ask") for command in said
    } == said
    assert said


def test_a_command_that_a_row_does_not_fit_is_noticed() -> None:
    """`find . -delete` once was among files that only two modes ask about."""
    cell = r"`rm src/a.py`, `base64 -d x \| sh`; not `rm -r build`"

    assert examples(cell) == ["rm src/a.py", "base64 -d x | sh"]
    assert of_command("rm src/a.py", sandboxed=True) != of_command("find . -delete", sandboxed=True)
