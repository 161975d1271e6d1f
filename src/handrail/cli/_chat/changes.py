"""File changes as rows: numbered lines, with a diff's signs and colors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple, TypeAlias

from handrail import HandrailError, approvals
from handrail.cli._base.columns import cells
from handrail.cli._chat.calls import OUTSIDE, shorten
from handrail.cli._project.kit import MAX_COMPARED_BYTES
from handrail.cli._screen.rows import Row, Span, plain, safe_line, strip_end
from handrail.permissions import FileChange
from handrail.tools import UndoEntry, Workspace

MAX_DIFF_ROWS = 12
"""Diff rows after a call."""
_MIN_DIFF_ROWS = 4
"""Diff rows for one among many files."""
_MAX_COMPARED_CHARS = 100_000
"""Longest text to compare: a diff's time grows with the square of its length."""
_Line: TypeAlias = tuple[str, int, str]
"""Its sign, its number and its text."""
_ROLES = {"+": "added", "-": "removed"}


class FileContents(NamedTuple):
    """A changed file: its content before and after; None if there is none."""

    path: str
    before: bytes | None
    after: bytes | None

    @property
    def is_binary(self) -> bool:
        """Whether it is binary, before or after."""
        return any(b"\0" in (content or b"") for content in (self.before, self.after))

    @property
    def as_text(self) -> FileChange:
        """The change as text."""
        old, new = (None if one is None else one.decode(errors="replace") for one in self[1:])
        return FileChange(self.path, old, new)


def diff_rows(change: FileContents, width: int, most: int = MAX_DIFF_ROWS) -> Iterator[Row]:
    """Yield a changed file's diff, or its sizes if it is too long to compare."""
    lines, sizes = _compare(change)
    if sizes:
        yield (OUTSIDE, Span(sizes))
    size = max((len(str(number)) for _, number, _ in lines), default=0)
    for is_changed, block in groupby(lines[:most], lambda line: line[0] in _ROLES):
        rows = [strip_end(shorten(_row(line, size), width - 4)) for line in block]
        yield from ((OUTSIDE, *row) for row in (_fill(rows) if is_changed else rows))
    if len(lines) > most:
        yield (Span(f"    … {len(lines) - most:,} more rows", "muted"),)


def changes_rows(changes: Sequence[FileContents], width: int) -> Iterator[Row]:
    """Yield changed files' diffs, each below its name if there are several."""
    for change in changes:
        if len(changes) > 1:
            yield (OUTSIDE, Span(safe_line(change.path), "path"))
        yield from diff_rows(change, width, max(MAX_DIFF_ROWS // len(changes), _MIN_DIFF_ROWS))


def count_lines(changes: Sequence[FileContents]) -> str:
    """Return how many lines were added and removed, or "" if that is not known."""
    compared = [_compare(change) for change in changes]
    if not compared or any(sizes for _, sizes in compared):
        return ""
    signs = [sign for lines, _ in compared for sign, _, _ in lines]
    return f"+{signs.count('+')} -{signs.count('-')}"


def word_rows(changes: Sequence[FileContents]) -> Iterator[str]:
    """Yield changed lines with words for signs, with file names if needed."""
    for change in changes:
        if len(changes) > 1:
            yield safe_line(change.path)
        lines, sizes = _compare(change)
        if sizes:
            yield sizes
        for sign, number, text in lines:
            if sign in _ROLES:
                yield f"{_ROLES[sign]} {number}: {safe_line(text)}"


def _compare(change: FileContents) -> tuple[Sequence[_Line], str]:
    """Return a change's diff, or its sizes if it is too long to compare."""
    text = change.as_text
    old, new = len(text.before or ""), len(text.after or "")
    if old + new > _MAX_COMPARED_CHARS:
        return (), f"{safe_line(change.path)} changed: {old:,} to {new:,} characters"
    return tuple(approvals.diff_rows(text, 1)), ""


def _row(line: _Line, size: int) -> Row:
    sign, at, content = line
    if not at:
        return (Span("⋯".rjust(size), "muted"),)
    number, text = f"{at:>{size}} ", f" {safe_line(content)}"
    if role := _ROLES.get(sign):
        return (Span(number, "muted"), Span(sign, f"{role}.sign"), Span(text, role))
    return (Span(number, "muted"), Span(f" {text}"))


def _fill(rows: list[Row]) -> Iterator[Row]:
    """Yield changed rows, each padded to the widest row's background."""
    longest = max(cells(plain(row)) for row in rows)
    for row in rows:
        blanks = " " * (longest - cells(plain(row)))
        role = row[1].role.replace("sign", "fill")
        yield (*row, Span(blanks, role)) if blanks else row


def run_changes(
    workspace: Workspace, entries: Iterable[UndoEntry]
) -> tuple[list[FileContents], list[str]]:
    """Return files changed by calls, and the paths that cannot be compared."""
    first: dict[str, bytes | None] = {}
    unknown: dict[str, None] = {}
    for entry in entries:
        for path, before, _ in entry.changes:
            if path in first or path in unknown:
                continue
            old = workspace.changes.content(before.content) if before is not None else None
            if before is not None and (before.kind != "file" or old is None):
                unknown[path] = None
            else:
                first[path] = old
    found = [FileContents(path, old, read_now(workspace, path)) for path, old in first.items()]
    return [one for one in found if one.before != one.after], list(unknown)


def read_now(workspace: Workspace, path: str) -> bytes | None:
    """Return a file's content, or None if there is none, or if it cannot be read."""
    with suppress(OSError, HandrailError), workspace.file(path) as file:
        return os.pread(file.fd, MAX_COMPARED_BYTES, 0)
    return None


class CallChanges:
    """File changes by calls, each returned once."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._shown = {entry.number for entry in workspace.changes.entries()}
        """Changes not to show again. Models in earlier runs may have used the same ID."""

    def __call__(self, call_id: str) -> Sequence[FileContents]:
        """Return the files changed by a call."""
        entry = self._workspace.changes.find(call_id)
        if entry is None or entry.command or entry.number in self._shown:
            return ()
        self._shown.add(entry.number)
        found: list[FileContents] = []
        for path, before, after in entry.changes:
            old = self._workspace.changes.content(before.content) if before is not None else None
            new = read_now(self._workspace, path)
            if (new is None) == (after is None):  # else it was deleted or made again since
                found.append(FileContents(path, old, new))
        return found
