"""Slash commands: lines controlling the chat, not sent to the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from handrail.cli._base.columns import columns
from handrail.cli._base.settings import closest_name
from handrail.cli._chat import run_commands, setting_commands
from handrail.cli._chat.conversation import Conversation, Rows
from handrail.cli._project.own_commands import OwnCommand, find_own_commands
from handrail.cli._screen.rows import Span, fold
from handrail.cli._screen.rows import safe_line as safe

_COMMAND = re.compile(r"/([a-z][a-z0-9_-]*+)(?:\s++(.*))?", re.DOTALL)


class SlashCommand(NamedTuple):
    """A chat command."""

    words: str
    """The arguments, as in the help."""
    help: str
    run: Callable[[Conversation, str], Rows]


class Listed(NamedTuple):
    """A command as a list or a completer shows it."""

    name: str
    words: str
    help: str


def run_command(chat: Conversation, line: str) -> bool:
    """Run a line if it is a command, and return whether it is one."""
    match = _COMMAND.fullmatch(line.strip())
    if match is None:
        return False
    for row in _rows(chat, match[1], match[2] or ""):
        width = chat.screen.width
        chat.screen.show(*(fold((Span(row),), width) if isinstance(row, str) else [row]))
    return True


def _rows(chat: Conversation, name: str, rest: str) -> Rows:
    if (command := COMMANDS.get(name)) is not None:
        return command.run(chat, rest)
    own = find_own_commands(chat.session.kit.app.workspace)
    return _run_own(chat, own[name], rest) if name in own else _unknown(name, own)


def name_commands(
    workspace: Path, servers: Mapping[str, Sequence[tuple[str, str]]] = MappingProxyType({})
) -> list[tuple[str, str]]:
    """Return what can be typed, each with its help: commands, and prompts of MCP servers."""
    prompts = [(usage.split()[0], about) for one in servers.values() for usage, about in one]
    return [*((f"/{one.name}", one.help) for one in list_commands(workspace)), *prompts]


def list_commands(workspace: Path) -> Sequence[Listed]:
    """Return all commands."""
    own = find_own_commands(workspace).values()
    return [
        *(Listed(name, one.words, one.help) for name, one in COMMANDS.items()),
        *(Listed(one.name, "", _describe(one)) for one in own if one.name not in COMMANDS),
    ]


def _describe(command: OwnCommand) -> str:
    if not command.is_trusted:
        return f"not trusted: `handrail trust {safe(command.path)}`"
    return safe(command.description) or safe(command.path)


def _run_own(chat: Conversation, command: OwnCommand, rest: str) -> Rows:
    if not command.is_trusted:
        path = safe(command.path)
        yield f"/{command.name} is not trusted, or changed since you trusted it"
        yield f"  review it with `handrail trust {path}`"
        return
    chat.prompt = command.fill_in(rest)
    if not chat.prompt.strip():
        yield f"/{command.name} has no text: write some in {safe(command.path)}"


def _unknown(name: str, own: Iterable[str]) -> Rows:
    near = closest_name(name, [*COMMANDS, *own])
    hint = f"did you mean /{near}?" if near else "type /help for a list"
    yield f"unknown command /{safe(name)}; {hint}"


def _help(chat: Conversation, _rest: str) -> Rows:
    workspace = chat.session.kit.app.workspace
    rows = [(f"/{one.name} {one.words}".rstrip(), one.help) for one in list_commands(workspace)]
    prompts = [row for one in chat.server_prompts.values() for row in one]
    yield from columns([*rows, *prompts, *_KEYS], width=chat.screen.width)


def _quit(chat: Conversation, _rest: str) -> Rows:
    chat.over = True
    yield from ()


COMMANDS: Mapping[str, SlashCommand] = MappingProxyType(
    {
        "help": SlashCommand("", "show this list", _help),
        "model": SlashCommand(
            "[NAME]", "show the model, or switch to another one", setting_commands.model
        ),
        "mode": SlashCommand(
            "[MODE]",
            "show or set the default decision for calls that no rule matches",
            setting_commands.mode,
        ),
        "clear": SlashCommand(
            "", "start a new conversation; you can resume this one", run_commands.clear
        ),
        "compact": SlashCommand(
            "", "let the model summarize the conversation, to free context", run_commands.compact
        ),
        "resume": SlashCommand(
            "[RUN]", "list the other runs of this folder, or resume one", run_commands.resume
        ),
        "rewind": SlashCommand(
            "[N]",
            "go back to one of your messages: undo changes since, and edit it",
            run_commands.rewind,
        ),
        "undo": SlashCommand(
            "",
            "undo the last change of a tool or command; repeat to undo earlier ones",
            run_commands.undo,
        ),
        "diff": SlashCommand("", "show what this conversation changed", run_commands.diff),
        "jobs": SlashCommand("", "list commands that run in the background", run_commands.jobs),
        "save": SlashCommand("[FILE]", "write the transcript as Markdown", run_commands.save),
        "trust": SlashCommand(
            "[yes]",
            "show files of this folder that need your trust; yes trusts what was shown",
            setting_commands.trust,
        ),
        "tools": SlashCommand("", "list the tools", setting_commands.tools),
        "cost": SlashCommand(
            "", "show tokens, cost, turns, calls and time so far", setting_commands.cost
        ),
        "quit": SlashCommand("", "end the chat; you can resume it later", _quit),
    }
)
"""Every chat's commands, by name."""
_KEYS = [
    ("@FILE", "attach a file; also an image, or a path that you paste"),
    ("!COMMAND", "run a command in the sandbox; the model reads its output later"),
    ("# TEXT", "add a line to AGENTS.md"),
    ("Shift-Tab", "next mode: plan, ask, edits"),
    ("Ctrl-R", "search in earlier messages"),
    ("Ctrl-O", "show the last result in full"),
    ("Ctrl-V", "attach the image in the clipboard"),
    ("Ctrl-B", "let a running command continue in the background"),
    ("Ctrl-G", "write the message in your editor"),
    ("Esc", "stop the current step"),
    ("Ctrl-C", "stop the current step; at an empty line, or twice, end the chat"),
    ("Ctrl-D", "end the chat"),
    ("Enter", "at an empty line, continue what was stopped"),
]
