"""Splits a text into lines, and keeps their endings and positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate

_MAX_COMPARED_PAIRS = 4_000_000
"""Pairs of lines compared to find the lines an edit does not change."""


class Lines:
    """A text, split into lines. A carriage return ends a line only if there are no line feeds.

    A text part knows how many characters and lines precede it.
    """

    def __init__(self, text: str, mark: str = "", *, offset: int = 0, line: int = 0) -> None:
        self.text = text
        self.mark = mark or ("\n" if "\n" in text or "\r" not in text else "\r")
        self.offset = offset
        self.line = line

    @cached_property
    def plain(self) -> str:
        """The text with line feeds as line endings."""
        return self.normal(self.text)

    @cached_property
    def contents(self) -> list[str]:
        """The lines without their endings; the last one follows the last line ending."""
        return self.plain.split("\n")

    @cached_property
    def _raw(self) -> list[str]:
        return self.text.split(self.mark)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self._raw)]

    def normal(self, text: str) -> str:
        """Return another text with line feeds as line endings, by this text's conventions."""
        text = text.replace("\r\n", "\n") if "\r" in text else text
        return text if self.mark == "\n" else text.replace("\r", "\n")

    def end(self, line: int) -> str:
        """Return a line's ending; empty for the last line."""
        if line >= len(self._raw) - 1:
            return ""
        return "\r\n" if self.mark == "\n" and self._raw[line].endswith("\r") else self.mark

    def region(self, first: tuple[int, int], last: tuple[int, int]) -> Region:
        """Return the text between two positions, each a line and a column."""
        (top, left), (bottom, right) = first, last
        contents = self.contents[top : bottom + 1]
        contents[-1] = contents[-1][:right]
        contents[0] = contents[0][left:]
        start, end = self._starts[top] + left, self._starts[bottom] + right
        ends = [self.end(line) for line in range(top, bottom)]
        newline = self._newline(top)
        return Region(start + self.offset, end + self.offset, top, contents, ends, newline)

    def _newline(self, line: int) -> str:
        near = (line, line - 1, 0)
        return next((end for number in near if number >= 0 and (end := self.end(number))), "\n")


def split_around(lines: Lines, anchors: Iterable[int], margin: int) -> list[Lines]:
    """Return only the lines around some positions, so the rest need not be searched."""
    ranges = list[tuple[int, int]]()
    for at in sorted(anchors):
        start, end = _around(lines, at, margin)
        if ranges and start <= ranges[-1][1]:
            start, _ = ranges.pop()
        ranges.append((start, end))
    some = list[Lines]()
    line = seen = 0
    for start, end in ranges:
        line += lines.text.count(lines.mark, seen, start)
        seen = start
        some.append(Lines(lines.text[start:end], lines.mark, offset=start, line=line))
    return some


def _around(lines: Lines, at: int, margin: int) -> tuple[int, int]:
    start = end = at
    for _ in range(margin + 1):
        start = max(lines.text.rfind(lines.mark, 0, start), 0)
        end = lines.text.find(lines.mark, end) + 1 or len(lines.text)
    return start + 1 if start else 0, end


@dataclass(frozen=True, slots=True)
class Region:
    """A text part, split into lines; the first and the last may be incomplete.

    Attributes:
        start: Where it starts in the whole text.
        end: Where it ends.
        line: Its first line's number, counted from where its `Lines` start.
        contents: Its lines, without endings.
        ends: The line endings between them.
        newline: The line ending for a new line here.
    """

    start: int
    end: int
    line: int
    contents: Sequence[str]
    ends: Sequence[str]
    newline: str


def merge_lines(
    there: Region,
    old: Sequence[str],
    new: Sequence[str],
    write: Callable[[str, str | None, str], str],
) -> str:
    """Return the new lines, to replace old lines the file has in a different form.

    A line the edit does not change is copied from the file, with its ending. For every other
    line, ``write`` returns the text. It gets the new line and, if the edit changes one line into
    one, the old line and the file's line.
    """
    pieces = list[str]()
    last = len(new) - 1
    for at, (line, before) in enumerate(zip(new, _origins(old, new), strict=True)):
        if before is None:
            pieces.append(write(line, None, ""))
        elif old[before] == line:
            pieces.append(there.contents[before])
        else:
            pieces.append(write(line, old[before], there.contents[before]))
        if at < last:
            pieces.append(_end(there, before, final=at == last - 1 and not new[last]))
    return "".join(pieces)


def _end(there: Region, before: int | None, *, final: bool) -> str:
    if final and "" in there.ends[-1:]:
        return ""  # the file ends here, without a line ending
    if before is None or before >= len(there.ends):
        return there.newline
    return there.ends[before] or there.newline


def _origins(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """Return for each new line the old line it equals or replaces."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    middle = _align(old[head : len(old) - tail], new[head : len(new) - tail])
    return [
        *range(head),
        *(None if origin is None else origin + head for origin in middle),
        *range(len(old) - tail, len(old)),
    ]


def _align(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    origins = list[int | None]([None]) * len(new)
    if len(old) * len(new) > _MAX_COMPARED_PAIRS:
        return origins
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for _, top, bottom, left, right in matcher.get_opcodes():
        if bottom - top == right - left:
            origins[left:right] = range(top, bottom)
    return origins
