"""Lines beginning with a sign: ``!command`` runs a command, ``# text`` notes it in AGENTS.md."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from handrail import Result
from handrail._support.private_files import read_file
from handrail.cli._chat.calls import output_rows
from handrail.cli._chat.conversation import Conversation, Rows
from handrail.cli._project.trusted import trust_of
from handrail.cli._runs.typed_command import run_typed
from handrail.cli._screen.rows import Row, safe_line
from handrail.events import Event
from handrail.policy import InvalidRule, digest

_FILES = ("AGENTS.md", "CLAUDE.md")
"""Instruction file names: the first existing one is used."""
_MAX_OUTPUT_ROWS = 30
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
