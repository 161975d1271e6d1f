"""Lines beginning with a sign: ``!command`` runs a command, ``# text`` notes it in AGENTS.md.

``/SERVER:PROMPT`` begins with a prompt of an MCP server, and shows it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import anyio

from handrail import Result, Text
from handrail._support.private_files import read_file
from handrail.cli._base.columns import columns
from handrail.cli._base.exits import Halt
from handrail.cli._chat.calls import output_rows
from handrail.cli._chat.conversation import Conversation, Rows, Step, halt_rows
from handrail.cli._project.server_prompts import (
    PromptLine,
    describe_usage,
    fetch_prompt,
    fetch_prompts,
    read_line,
)
from handrail.cli._project.trusted import trust_of
from handrail.cli._runs.typed_command import run_typed
from handrail.cli._screen.rows import Row, safe_line
from handrail.events import Event
from handrail.messages import Content
from handrail.policy import InvalidRule, digest

_FILES = ("AGENTS.md", "CLAUDE.md")
"""Instruction file names: the first existing one is used."""
_MAX_OUTPUT_ROWS = 30
_MAX_PROMPT_ROWS = 20
_TOLD = "I ran this command in the sandbox:\n$ {}\n{}"


def command_of(line: str) -> str:
    """Return the command in a line beginning with ``!``, or "" for any other line."""
    return line[1:].strip() if line.startswith("!") else ""


def note_of(line: str) -> str:
    """Return the text in a line beginning with ``#`` and a space, or ""."""
    is_note = line.startswith("# ") and "\n" not in line.strip()
    return line[1:].strip() if is_note else ""


async def run_line(
    chat: Conversation, command: str, on_event: Callable[[Event], None]
) -> tuple[list[Row], str]:
    """Run a command. Return rows to print and its whole output; the model gets it later, too."""
    result = await run_typed(chat.session.kit, command, on_event)
    chat.notes.append(_TOLD.format(command, result.text))
    return list(_result_rows(result, chat.screen.width)), result.text


def _result_rows(result: Result, width: int) -> Iterator[Row]:
    lines = result.text.rstrip().splitlines()
    left = len(lines) - _MAX_OUTPUT_ROWS
    note = f"… {left:,} lines above" if left > 0 else ""
    yield from output_rows(lines[-_MAX_OUTPUT_ROWS:], note, width, is_end=True)


def add_note(chat: Conversation, text: str) -> Rows:
    """Add a line to the workspace's instruction file. It stays trusted if it was."""
    folder = chat.session.kit.app.workspace
    path = next((p for name in _FILES if (p := folder / name).is_file()), None)
    path = path or folder / _FILES[0]
    try:
        is_new = _add_line(path, f"- {text}\n", folder)
    except (OSError, InvalidRule) as error:
        yield f"nothing was noted: {safe_line(str(error))}"
        return
    chat.session.read_instructions()
    yield f"{'created' if is_new else 'added a line to'} {path.name}"


def _add_line(path: Path, line: str, folder: Path) -> bool:
    """Add a line to a file. Return whether the file is new."""
    trust, is_new = trust_of(folder), not path.exists()
    before = b"" if is_new else read_file(path)
    added = (b"" if not before or before.endswith(b"\n") else b"\n") + line.encode()
    was_trusted = is_new or trust.has(path, digest(before))
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    with os.fdopen(handle, "ab") as file:
        file.write(added)
    if was_trusted:
        trust.grant(path, digest(before + added))
    return is_new


def begin_prompt(chat: Conversation, line: str) -> bool:
    """Begin to get a prompt if a line names a server, and return whether it does."""
    wanted = read_line(chat.session.kit.app, line)
    if wanted is None:
        return False
    work = partial(_get if wanted.prompt else _list, chat, wanted)
    chat.step = partial(_stoppable, chat, work)
    return True


async def _stoppable(chat: Conversation, work: Step) -> Iterable[str]:
    """Start a server, unless the person stops it."""
    rows: Iterable[str] = ["stopped"]
    with anyio.CancelScope() as scope:
        chat.scope = scope
        try:
            rows = await work()
        except Halt as halt:
            rows = [str(row) for row in halt_rows(halt)]
    chat.scope = None
    return rows


async def _list(chat: Conversation, wanted: PromptLine) -> Iterable[str]:
    found = await fetch_prompts(chat.session.kit.app, wanted.server)
    chat.server_prompts[wanted.server] = [
        (safe_line(describe_usage(wanted.server, one)), safe_line(one.description)) for one in found
    ]
    rows = list(columns(chat.server_prompts[wanted.server], width=chat.screen.width))
    return rows or [f"{wanted.server} has no prompts"]


async def _get(chat: Conversation, wanted: PromptLine) -> Iterable[str]:
    chat.parts = await fetch_prompt(chat.session.kit.app, wanted)
    return [f"sent, in the words of the MCP server {wanted.server}:", *_show(chat.parts)]


def _show(parts: Sequence[Content]) -> Iterable[str]:
    rows = [
        row
        for part in parts
        for row in (part.text.splitlines() if isinstance(part, Text) else [f"[{part.media_type}]"])
    ]
    yield from (f"  │ {row}" for row in rows[:_MAX_PROMPT_ROWS])
    if len(rows) > _MAX_PROMPT_ROWS:
        yield f"  │ … {len(rows) - _MAX_PROMPT_ROWS} more"
