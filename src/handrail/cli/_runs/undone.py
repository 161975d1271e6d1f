"""An undo's result as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from handrail.cli._base.printable import one_line
from handrail.tools import UndoReport

_MAX_NAMED = 10
"""Paths on one line."""
_MAX_COMMAND_CHARS = 200


def undo_lines(report: UndoReport) -> Iterator[str]:
    """Yield what was undone, then the restored paths and the others."""
    yield f"undid {_describe(report)}"
    named = () if report.entry.command else report.entry.paths
    yield from _row("restored", (path for path in report.restored if path not in named))
    yield from _row("deleted", (path for path in report.deleted if path not in named))
    yield from _row("not restored", (f"{path} ({why})" for path, why in report.left.items()))
    yield from _row("not kept", report.entry.not_kept)


def note_for_model(report: UndoReport) -> str:
    """Return a message for the model whose change was undone."""
    if report.entry.command:
        return f"The user undid the changes of your command {shorten(report.entry.command)!r}."
    return f"The user undid your last change to {join_names(report.entry.paths)!r}."


def _describe(report: UndoReport) -> str:
    if report.entry.command:
        return f"the command: {shorten(report.entry.command)}"
    return f"the last change to {join_names(report.entry.paths)}"


def join_names(names: Sequence[str]) -> str:
    """Return names with commas, or a count after the first ones."""
    more = [f"and {len(names) - _MAX_NAMED:,} more"] if len(names) > _MAX_NAMED else []
    return ", ".join([*map(one_line, names[:_MAX_NAMED]), *more])


def shorten(command: str) -> str:
    """Return a command on one line."""
    line = " ".join(command.split())
    return line if len(line) <= _MAX_COMMAND_CHARS else f"{line[:_MAX_COMMAND_CHARS]}…"


def _row(label: str, names: Iterable[str]) -> Iterator[str]:
    several = list(names)
    if several:
        yield f"{label}: {join_names(several)}"
