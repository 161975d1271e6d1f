"""File changes as rows: numbered lines, with a diff's signs and colors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from handrail import HandrailError
from handrail.cli._base.columns import cells
from handrail.cli._chat.calls import OUTSIDE, shorten
from handrail.cli._project.kit import MAX_COMPARED_BYTES
from handrail.cli._screen.rows import Row, Span, plain, safe_line, strip_end
from handrail.tools import UndoEntry, Workspace

MAX_DIFF_ROWS = 12
"""Diff rows after a call."""
_MIN_DIFF_ROWS = 4
"""Diff rows for one among many files."""
_MAX_COMPARED_CHARS = 100_000
"""Longest text to compare: a diff's time grows with the square of its length."""
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


class _Line(NamedTuple):
    sign: str
    number: int
    text: str


def diff_rows(change: FileContents, width: int, most: int = MAX_DIFF_ROWS) -> Iterator[Row]:
    """Yield a changed file's diff, or its sizes if it is too long to compare."""
    name, *contents = change
    old, new = ((one or b"").decode(errors="replace") for one in contents)
    if len(old) + len(new) > _MAX_COMPARED_CHARS:
        sizes = f"{len(old):,} to {len(new):,} characters"
        yield (OUTSIDE, Span(f"{safe_line(name)} changed: {sizes}"))
        return
    lines = list(_compare(old, new))
    size = max((len(str(line.number)) for line in lines), default=0)
    for is_changed, block in groupby(lines[:most], lambda line: line.sign in _ROLES):
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
    texts = [
        ((one.before or b"").decode(errors="replace"), (one.after or b"").decode(errors="replace"))
        for one in changes
    ]
    if not texts or sum(len(old) + len(new) for old, new in texts) > _MAX_COMPARED_CHARS:
        return ""
    signs = [line.sign for old, new in texts for line in _compare(old, new)]
    return f"+{signs.count('+')} -{signs.count('-')}"


def word_rows(changes: Sequence[FileContents]) -> Iterator[str]:
    """Yield changed lines with words for signs, with file names if needed."""
    for change in changes:
        if len(changes) > 1:
            yield safe_line(change.path)
        yield from _word_rows(change)


def _word_rows(change: FileContents) -> Iterator[str]:
    name, *contents = change
    old, new = ((one or b"").decode(errors="replace") for one in contents)
    if len(old) + len(new) > _MAX_COMPARED_CHARS:
        yield f"{safe_line(name)} changed: {len(old):,} to {len(new):,} characters"
        return
    for line in _compare(old, new):
        if line.sign in _ROLES:
            yield f"{_ROLES[line.sign]} {line.number}: {safe_line(line.text)}"


def _row(line: _Line, size: int) -> Row:
    if not line.number:
        return (Span("⋯".rjust(size), "muted"),)
    number, text = f"{line.number:>{size}} ", f" {safe_line(line.text)}"
    if role := _ROLES.get(line.sign):
        return (Span(number, "muted"), Span(line.sign, f"{role}.sign"), Span(text, role))
    return (Span(number, "muted"), Span(f" {text}"))


def _fill(rows: list[Row]) -> Iterator[Row]:
    """Yield changed rows, each padded to the widest row's background."""
    longest = max(cells(plain(row)) for row in rows)
    for row in rows:
        blanks = " " * (longest - cells(plain(row)))
        role = row[1].role.replace("sign", "fill")
        yield (*row, Span(blanks, role)) if blanks else row


def _compare(old: str, new: str) -> Iterator[_Line]:
    before, after = _lines(old), _lines(new)
    if before == after and old != new:  # the line break at the end is the difference
        before, after = old.split("\n"), new.split("\n")
    groups = SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(1)
    for position, group in enumerate(groups):
        if position:
            yield _Line("", 0, "")
        for kind, first, last, start, end in group:
            if kind == "equal":
                yield from (_Line(" ", at + 1, after[at]) for at in range(start, end))
                continue
            yield from (_Line("-", at + 1, before[at]) for at in range(first, last))
            yield from (_Line("+", at + 1, after[at]) for at in range(start, end))


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else lines


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
