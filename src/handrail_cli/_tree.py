"""The tree of commands: names and one line each, so that a list of them loads none of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import click

TOOLS = {
    "list": ("handrail.cli.tools_list", "List the tools that there are."),
    "show": ("handrail.cli.tools_show", "Show one tool as a model sees it."),
    "lint": ("handrail.cli.tools_lint", "Say what makes tools hard to use for a model."),
    "call": ("handrail.cli.tools_call", "Call a tool with arguments of yours."),
    "schema": ("handrail.cli.schema", "Print a tool as it goes over a provider's wire."),
    "explain": ("handrail.cli.explain", "Say what would become of a call, and why; run nothing."),
}
RULES = {
    "list": ("handrail.cli.rules_list", "List the rules that count, and where each stands."),
    "check": (
        "handrail.cli.rules_check",
        "Check rule files: examples, and rules that never decide.",
    ),
    "test": ("handrail.cli.rules_test", "Judge recorded calls again, and say what would change."),
    "explain": ("handrail.cli.explain", "Say what would become of a call, and why; run nothing."),
    "import": ("handrail.cli.rules_import", "Make rules of another agent's settings."),
    "forget": ("handrail.cli.rules_forget", "Take back a rule that an answer left behind."),
}
RUNS = {
    "list": ("handrail.cli.runs_list", "List saved runs, the newest first."),
    "show": ("handrail.cli.runs_show", "Draw what happened in a run, and why calls waited."),
    "resume": ("handrail.cli.runs_resume", "Go on with a saved run."),
    "approve": ("handrail.cli.runs_approve", "Say yes to calls that wait for an answer."),
    "deny": ("handrail.cli.runs_deny", "Say no to calls that wait for an answer."),
    "stats": ("handrail.cli.runs_stats", "Count calls, failures, time and tokens."),
    "export": ("handrail.cli.runs_export", "Write a whole run down as JSON."),
}
CONFIG = {
    "show": ("handrail.cli.config_show", "Show the settings that count, and where each is from."),
}
ROOT = {
    "chat": ("handrail.cli.chat", "Talk to a model that uses tools."),
    "completion": ("handrail.cli.completion", "Print what makes a shell complete commands."),
    "config": (CONFIG, "Settings, and where they come from."),
    "doctor": ("handrail.cli.doctor", "Look for what is missing or wrong, and say how to mend it."),
    "explain": ("handrail.cli.explain", "Say what would become of a call, and why; run nothing."),
    "mode": ("handrail.cli.mode", "Show or set what happens to calls that no rule speaks of."),
    "rules": (RULES, "Rules: what calls may do."),
    "run": ("handrail.cli.run", "Let a model work on a task, and ask nobody."),
    "runs": (RUNS, "Saved runs: look at them, answer them, go on with them."),
    "schema": ("handrail.cli.schema", "Print a tool as it goes over a provider's wire."),
    "tools": (TOOLS, "Tools: look at them, and call them."),
    "trust": (
        "handrail.cli.trust",
        "Let a workspace's own settings, tools and instructions count.",
    ),
}
"""By name: the module that has the command, or the commands below it; and one line of help."""

COMPLETES = "_HANDRAIL_COMPLETE"
"""The variable by which a shell asks what a line could go on with."""

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Later(click.Group):
    """Commands that are loaded when they are called."""

    def __init__(self, later: Mapping[str, tuple[Any, str]], **options: Any) -> None:
        super().__init__(**options, context_settings=_SETTINGS)
        self._later = MappingProxyType(later)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's shape
        """All names, in order."""
        return sorted(self._later)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command behind a name."""
        if cmd_name not in self._later:
            return None
        where, told = self._later[cmd_name]
        if isinstance(where, str):
            found: click.Command = import_module(where).command
            return found
        return Later(where, name=cmd_name, help=told)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that a line names; or which names are close."""
        name = args[0]
        if name in self._later or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"there is no command {name!r}{self._near(name)}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Their list, none of them loaded."""
        with formatter.section("Commands"):
            formatter.write_dl(self._lines(ctx))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Names and options that begin like this, none of them loaded."""
        item, lines = import_module("click.shell_completion").CompletionItem, self._lines(ctx)
        return [
            *(item(name, help=line) for name, line in lines if name.startswith(incomplete)),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def _lines(self, ctx: click.Context) -> list[tuple[str, str]]:
        return [(name, self._later[name][1]) for name in self.list_commands(ctx)]

    def _near(self, name: str) -> str:
        """Which commands may be meant: names like it, and the same name one step down."""
        near = import_module("difflib").get_close_matches(name, self._later)
        groups = [one for one in sorted(self._later) if not isinstance(self._later[one][0], str)]
        near += [f"{one} {name}" for one in groups if name in self._later[one][0]]
        return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def tree(version: str) -> click.Group:
    """The whole command."""
    root = Later(
        ROOT,
        name="handrail",
        help="The tool layer for AI agents: use tools, judge calls, let a model work with them.",
    )
    return click.version_option(version, message="handrail %(version)s")(root)


def run(arguments: Sequence[str], version: str) -> int:
    """Run a command; its exit code."""
    try:
        code = tree(version).main(list(arguments), "handrail", standalone_mode=False)
    except Exception as error:  # noqa: BLE001  told in words
        if COMPLETES in os.environ:  # a shell asks, in the middle of somebody's line
            return 1
        told: int = import_module("handrail.cli._exits").tell(
            error, as_json=_wants_json(arguments), debug="--debug" in arguments
        )
        return told
    return code if isinstance(code, int) else 0


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether an output was asked for by a command line that click could not read."""
    return any(
        one in {"--json", "--output=json", "--output=jsonl", "-ojson", "-ojsonl"}
        or (one in {"--output", "-o"} and value in {"json", "jsonl"})
        for one, value in pairwise([*arguments, ""])
    )
