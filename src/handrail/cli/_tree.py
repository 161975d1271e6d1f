"""Command tree: names and one-line help, for listing commands without importing them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import click

# data, so that help imports no command: decision 030
TOOLS = {
    "list": ("tools:list_tools", "List tools."),
    "show": ("tools:show_tool", "Show a tool as a model sees it."),
    "search": ("tools:search_tools", "Show which tools a model would find."),
    "lint": ("tools_apis:lint_tools", "Check tools for problems that confuse models."),
    "call": ("tools_call", "Call a tool."),
    "schema": ("tools_apis:print_schema", "Print a tool in the format of a model API."),
    "explain": ("explain", "Show whether a call would be allowed, and why."),
}
RULES = {
    "list": ("rules:list_rules", "List the rules that apply, with file and line."),
    "check": ("rules:check_rules", "Check rule files for errors and rules that never decide."),
    "replay": (
        "rules_replay",
        "Check recorded calls against the rules and show what would change.",
    ),
    "explain": ("explain", "Show whether a call would be allowed, and why."),
    "import": ("rules:import_rules", "Import permission rules from Claude Code."),
    "forget": ("rules:forget_rules", "Forget a remembered approval."),
}
RUNS = {
    "list": ("runs_read:list_runs", "List saved runs, newest first."),
    "show": ("runs_read:show_run", "Show what happened in a run, as a timeline of its calls."),
    "resume": ("runs_resume", "Resume a saved run."),
    "approve": ("runs_answer:approve", "Approve pending calls."),
    "deny": ("runs_answer:deny", "Deny pending calls."),
    "stats": ("runs_report:stats", "Summarize calls, failures, durations, tokens and cost."),
    "export": ("runs_report:export", "Export a run as JSON, or as a page to read."),
    "verify": ("runs_keep:verify_runs", "Check that the journal of runs was not changed."),
    "inbox": ("runs_read:list_waiting", "List all calls that are waiting, over all runs."),
    "prune": ("runs_keep:prune_runs", "Delete old runs."),
    "erase": ("runs_keep:erase_runs", "Delete all durable runs of a person or a service."),
    "cancel": ("runs_answer:cancel", "Cancel a run, and stop its tools."),
    "migrate": ("runs_keep:migrate", "Create or change the tables of durable runs."),
    "rotate": ("runs_keep:rotate", "Seal the texts of durable runs with the current key."),
    "fork": ("runs_answer:fork", "Start a new run from a turn of another one."),
    "replay": ("runs_replay", "Run a recorded run again, without a model and without tools."),
    "watch": ("runs_read:watch_run", "Print the events of a run as they happen."),
}
MCP = {
    "add": ("mcp:add_server", "Add an MCP server to your own list."),
    "list": ("mcp:list_servers", "List MCP servers, and which are reviewed."),
    "show": ("mcp:show_server", "Show an MCP server and its approved tools."),
    "review": ("mcp:review_server", "Review the tools of an MCP server, and approve them."),
    "test": ("mcp:test_server", "Start an MCP server and list its tools."),
    "remove": ("mcp:remove_server", "Remove an MCP server, and forget its approvals."),
}
MODELS = {
    "list": ("models_list", "List names of models: of local servers, and those with known prices."),
}
CONFIG = {
    "show": ("config_show", "Show the settings that apply, and where each was set."),
}
ROOT = {
    "acp": ("acp", "Work in an editor, by the Agent Client Protocol."),
    "chat": ("chat", "Chat with a model that can use tools."),
    "completion": ("completion", "Print a shell completion script."),
    "config": (CONFIG, "Inspect settings."),
    "console": ("console", "Answer approval requests and read runs in a browser."),
    "doctor": ("doctor", "Check your installation and suggest fixes."),
    "explain": ("explain", "Show whether a call would be allowed, and why."),
    "init": ("init", "Choose a model and a mode, and try them."),
    "mcp": (MCP, "Add, review and test MCP servers."),
    "mode": ("mode", "Show or set the default decision for calls that no rule matches."),
    "models": (MODELS, "List models."),
    "rules": (RULES, "Inspect, check and import permission rules."),
    "run": ("run", "Run a task non-interactively."),
    "runs": (RUNS, "Inspect, approve and resume saved runs."),
    "schema": ("tools_apis:print_schema", "Print a tool in the format of a model API."),
    "serve": ("serve", "Serve tools, or many MCP servers, to MCP clients."),
    "tools": (TOOLS, "Inspect and call tools."),
    "trust": ("trust", "Trust this workspace's settings, tools and instructions."),
    "worker": ("worker", "Work on durable runs until the process is stopped."),
    "undo": ("undo", "Undo the latest change of a tool or command."),
}
"""By name: the command's module, and its name there if the module has several, or its subcommands;
and one line of help."""
_ALIASES = {"gateway": "serve"}
"""Other names of commands. They are not listed."""
_COMMANDS = "handrail.cli.commands"
"""The package with these modules."""

_LIKENESS = 0.7
"""How similar a name must be to be suggested, from 0 to 1."""
COMPLETES = "_HANDRAIL_COMPLETE"
"""The variable set by a shell to ask for completions."""

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class LazyGroup(click.Group):
    """A group importing each command when it is called."""

    def __init__(self, later: Mapping[str, tuple[Any, str]], **options: Any) -> None:
        super().__init__(**options, context_settings=_SETTINGS)
        self._later = MappingProxyType(later)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's shape
        """Return all names, sorted."""
        return sorted(self._later)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a command."""
        cmd_name = _ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in self._later:
            return None
        where, summary = self._later[cmd_name]
        if isinstance(where, str):
            module, _, attribute = where.partition(":")
            found = import_module(f"{_COMMANDS}.{module}")
            command: click.Command = getattr(found, attribute or "command")
            return command
        return LazyGroup(where, name=cmd_name, help=summary)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command named by a command line, or raise an error suggesting names."""
        name = args[0]
        if _ALIASES.get(name, name) in self._later or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from handrail.cli._base.exits import Halt

        see = f"see `{ctx.command_path} --help`"
        similar = " or ".join(f"`{ctx.command_path} {command}`" for command in self._similar(name))
        hint = f"did you mean {similar}? {see}" if similar else see
        raise Halt(f"unknown command {name!r}", code="usage", hint=hint)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command list without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(self._lines(ctx))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Return the names and options with a prefix, without importing the commands."""
        from click.shell_completion import CompletionItem

        lines = [line for line in self._lines(ctx) if line[0].startswith(incomplete)]
        return [
            *(CompletionItem(name, help=summary) for name, summary in lines),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def _lines(self, ctx: click.Context) -> list[tuple[str, str]]:
        return [(name, self._later[name][1]) for name in self.list_commands(ctx)]

    def _similar(self, name: str) -> list[str]:
        """Return the subcommands with exactly this name; if there are none, similar names."""
        from difflib import get_close_matches

        exact = [
            f"{group} {name}"
            for group, (subcommands, _) in sorted(self._later.items())
            if not isinstance(subcommands, str) and name in subcommands
        ]
        return exact or get_close_matches(name, self._later, cutoff=_LIKENESS)


def tree(version: str) -> click.Group:
    """Return the whole command."""
    root = LazyGroup(
        ROOT,
        name="handrail",
        help="Run an AI agent's tools with validation, permissions and approvals.",
    )
    return click.version_option(version, message="handrail %(version)s")(root)


def run(arguments: Sequence[str], version: str) -> int:
    """Run a command and return its exit code."""
    if not arguments and _is_screen():
        arguments = ["chat"]
    if arguments[:1] == ["chat"]:
        _greet(arguments, version)
    try:
        code = tree(version).main(list(arguments), "handrail", standalone_mode=False)
    except Exception as error:  # noqa: BLE001  reported as text or JSON
        if COMPLETES in os.environ:  # the user is typing: print nothing
            return 1
        from handrail.cli._base.exits import report_error

        return report_error(error, as_json=_wants_json(arguments), debug="--debug" in arguments)
    return code if isinstance(code, int) else 0


def _greet(arguments: Sequence[str], version: str) -> None:
    """Print the beginning of a chat's first row at once: a chat takes seconds to load.

    The next print takes its place: the whole row, or an error.
    """
    is_plain = {"--plain", "--help", "-h"} & {*arguments} or os.environ.get("HANDRAIL_PLAIN")
    if _is_screen() and os.environ.get("TERM") != "dumb" and not is_plain:
        sys.stderr.write(f"handrail {version} …\r")
        sys.stderr.flush()


def _is_screen() -> bool:
    """Return whether a person can chat here, and no shell asks for completions."""
    return sys.stdin.isatty() and sys.stderr.isatty() and COMPLETES not in os.environ


def _wants_json(arguments: Sequence[str]) -> bool:
    """Return whether a command line click could not parse asks for JSON."""
    return any(
        option in {"--json", "--output=json", "--output=jsonl", "-ojson", "-ojsonl"}
        or (option in {"--output", "-o"} and value in {"json", "jsonl"})
        for option, value in pairwise([*arguments, ""])
    )
