"""What a search found, kept within bounds: the first files by path, whatever order they come in."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

from handrail.tools._scope import Line

WIDEST: Final = 500
"""Characters of a line that are shown."""
FLOOD: Final = 100_000
"""Matching lines after which nobody needs to know how many more there are."""
_BEFORE: Final = 150
"""Bytes of a long line that are shown before its match."""
_INNER: Final = bytes(range(0x80, 0xC0))
"""Bytes that stand within a character."""


class Row(NamedTuple):
    """One line of a file."""

    number: int
    matched: bool
    text: str
    clipped: bool
    apart: bool
    """Whether lines are left out before it."""


@dataclass(slots=True)
class File:
    """What was found in one file."""

    path: str
    order: str
    """What it is sorted by."""
    rows: list[Row] = field(default_factory=list[Row])
    matches: int = 0
    binary: bool = False
    """Whether it is no text, at least from some place on."""

    def add(self, line: Line, *, apart: bool) -> int:
        """Take a line; how many matches that adds."""
        if line.binary:
            new = not self.matches
            self.binary = True
        else:
            new = line.column > 0
            text, clipped = _clipped(line)
            self.rows.append(Row(line.number, new, text, clipped, apart))
        self.matches += new
        return new


class Hits:
    """Takes lines as they are found, keeps those that may be shown, and counts the rest.

    ``path`` gives a file's path in the workspace, or None where it is not to be told of.
    """

    def __init__(
        self, need: int, path: Callable[[str], str | None], *, most: int, ordered: bool
    ) -> None:
        self.files: list[File] = []
        """The first ones by path: with as many matches as are needed, or all there are."""
        self.count = 0
        """Files that match."""
        self.lines = 0
        """Matching lines."""
        self.capped = False
        """Whether a file has more matches than were told of."""
        self.sum = 0
        """Matching lines, where files come with how many they have."""
        self._need = need
        self._path = path
        self._enough = need if ordered else FLOOD
        self._most = most
        self._here = 0
        self._name = ""
        self._file: File | None = None
        self._kept = False
        self._held = 0
        self._apart = False

    def take(self, line: Line) -> bool:
        """Take the next line; false once there are enough."""
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
        self._file = None if path is None else File(path, by_name(path))
        if self._file is None:
            return
        self.count += 1
        while self.files and self._held - self.files[-1].matches >= self._need:
            self._held -= self.files.pop().matches
        full = self._held >= self._need
        self._kept = not full or self._file.order < self.files[-1].order
        if self._kept:
            insort(self.files, self._file, key=attrgetter("order"))

    def _add(self, file: File, line: Line) -> None:
        if self._kept:
            new = file.add(line, apart=self._apart)
            self._held += new
        else:
            new = line.column > 0
        self._apart = False
        self.lines += new
        self._here += new
        self.capped |= self._here >= self._most
        self.sum += line.number


def by_name(path: str) -> str:
    """What to sort paths by, so that they are sorted name by name."""
    return path.replace("/", "\0")


def _clipped(line: Line) -> tuple[str, bool]:
    """The text of a line, or what is around the match in a long one."""
    text = line.text.removesuffix(b"\r")
    if len(text) <= WIDEST * 4 and len(whole := _decoded(text)) <= WIDEST:
        return whole, False
    start = max(line.column - 1 - _BEFORE, 0)
    if start >= len(text):
        return "[... the match is too far into a very long line to be shown ...]", True
    piece = text[start : start + WIDEST * 4 + 4]
    shown = _decoded(piece.lstrip(_INNER) if start else piece)
    more = len(shown) > WIDEST or start + len(piece) < len(text) or not line.whole
    return f"{'[...]' * bool(start)}{shown[:WIDEST]}{'[...]' * more}", True


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
