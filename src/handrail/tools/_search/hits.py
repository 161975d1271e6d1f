"""Collects the matches of grep within limits: the first files by path, in any order of arrival."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

from handrail.tools._search.query import SearchLine

_MAX_LINE_CHARS: Final = 500
"""Characters kept from a line."""
FLOOD: Final = 100_000
"""Matching lines above which they are no longer counted."""
_BYTES_BEFORE: Final = 150
"""Bytes of a long line kept before its match."""
_MAX_LINE_BYTES: Final = _MAX_LINE_CHARS * 4
_INNER: Final = bytes(range(0x80, 0xC0))
"""Bytes that continue a character of UTF-8."""


class HitLine(NamedTuple):
    """One line of a file; of a long line, the part around its match."""

    number: int
    matched: bool
    text: str | None
    """None if the match is too far into a very long line."""
    apart: bool
    """Whether lines are omitted before it."""
    cut_before: bool = False
    cut_after: bool = False

    @property
    def clipped(self) -> bool:
        """Whether the text is not the whole line."""
        return self.text is None or self.cut_before or self.cut_after


@dataclass(slots=True)
class FileHits:
    """The matches in one file."""

    path: str
    order: str
    """The sort key."""
    lines: list[HitLine] = field(default_factory=list[HitLine])
    matches: int = 0
    binary: bool = False
    """Whether it is binary, at least from some point on."""
    total: int = 0
    """The lines of the whole file; 0 if they were not counted."""

    def add(self, line: SearchLine, *, apart: bool) -> int:
        """Add a line, and return how many matches that adds."""
        if line.binary:
            new = not self.matches
            self.binary = True
        else:
            new = line.column > 0
            self.lines.append(_bound_line(line, apart=apart))
        self.matches += new
        return new


class Hits:
    """Receives lines as they are found, keeps those that may be shown, and counts the rest.

    ``path`` returns a file's path in the workspace, or None if the file must not be shown.
    """

    def __init__(
        self,
        path: Callable[[str], str | None],
        *,
        max_matches: int,
        max_file_matches: int,
        ordered: bool,
    ) -> None:
        self.files: list[FileHits] = []
        """The first files by path, with as many matches as are needed."""
        self.count = 0
        """Files that match."""
        self.lines = 0
        """Matching lines."""
        self.capped = False
        """Whether a file has more matches than were returned."""
        self.sum = 0
        """The sum of the matching lines in the mode "count"."""
        self._path = path
        self._max_matches = max_matches
        self._max_file_matches = max_file_matches
        self._enough = max_matches if ordered else FLOOD
        self._here = 0
        self._name = ""
        self._file: FileHits | None = None
        self._keeps_file = False
        self._held = 0
        self._apart = False

    def take(self, line: SearchLine) -> bool:
        """Add the next line; return False once there are enough."""
        if not line.name:
            self._apart = True
            return True
        if line.name != self._name:
            self._begin(line.name)
        if self._file is not None:
            self._add(self._file, line)
        return self.lines <= self._enough

    def _begin(self, name: str) -> None:
        self._name, self._apart, self._here = name, False, 0
        path = self._path(name)
        self._file = None if path is None else FileHits(path, name_order(path))
        if self._file is None:
            return
        self.count += 1
        while self.files and self._held - self.files[-1].matches >= self._max_matches:
            self._held -= self.files.pop().matches
        full = self._held >= self._max_matches
        self._keeps_file = not full or self._file.order < self.files[-1].order
        if self._keeps_file:
            insort(self.files, self._file, key=attrgetter("order"))

    def _add(self, file: FileHits, line: SearchLine) -> None:
        if self._keeps_file:
            new = file.add(line, apart=self._apart)
            self._held += new
        else:
            new = line.column > 0
        self._apart = False
        self.lines += new
        self._here += new
        self.capped |= self._here >= self._max_file_matches
        self.sum += line.number


def name_order(path: str) -> str:
    """Return a sort key that compares paths component by component."""
    return path.replace("/", "\0")


def _bound_line(line: SearchLine, *, apart: bool) -> HitLine:
    """Return a line, or the part around the match of a long line."""
    raw, matched = line.text.removesuffix(b"\r"), line.column > 0
    if len(raw) <= _MAX_LINE_BYTES and len(text := _decode(raw)) <= _MAX_LINE_CHARS:
        return HitLine(line.number, matched, text, apart)
    start = max(line.column - 1 - _BYTES_BEFORE, 0)
    if start >= len(raw):
        return HitLine(line.number, matched, None, apart)
    part = raw[start : start + _MAX_LINE_BYTES + 4]
    text = _decode(part.lstrip(_INNER) if start else part)
    more = len(text) > _MAX_LINE_CHARS or start + len(part) < len(raw) or not line.whole
    return HitLine(line.number, matched, text[:_MAX_LINE_CHARS], apart, start > 0, more)


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
