"""A text by its lines: what each holds, how it ends, and where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate

_MOST_COMPARED = 4_000_000
"""Pairs of lines that are compared to see which of them an edit leaves alone."""


class Lines:
    """A text by its lines. A carriage return ends a line if nothing else in the text does.

    A part of a text knows how many characters and lines are before it.
    """

    def __init__(self, text: str, mark: str = "", *, offset: int = 0, line: int = 0) -> None:
        self.text = text
        self.mark = mark or ("\n" if "\n" in text or "\r" not in text else "\r")
        self.offset = offset
        self.line = line

    @cached_property
    def plain(self) -> str:
        """The text with a line feed at each line end."""
        return self.normal(self.text)

    @cached_property
    def contents(self) -> list[str]:
        """The lines without their ends; the last is what follows the last line end."""
        return self.plain.split("\n")

    @cached_property
    def _raw(self) -> list[str]:
        return self.text.split(self.mark)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(one) + 1 for one in self._raw)]

    def normal(self, text: str) -> str:
        """Another text with a line feed at each line end, as this text understands line ends."""
        text = text.replace("\r\n", "\n") if "\r" in text else text
        return text if self.mark == "\n" else text.replace("\r", "\n")

    def end(self, line: int) -> str:
        """How a line ends; nothing for the last."""
        if line >= len(self._raw) - 1:
            return ""
        return "\r\n" if self.mark == "\n" and self._raw[line].endswith("\r") else self.mark

    def region(self, first: tuple[int, int], last: tuple[int, int]) -> Region:
        """What stands between two places of this part, each a line and a column."""
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
        return next((end for one in near if one >= 0 and (end := self.end(one))), "\n")


def parts(lines: Lines, anchors: Iterable[int], margin: int) -> list[Lines]:
    """Only the lines around some places of a text, so that the rest need not be looked at."""
    found = list[tuple[int, int]]()
    for at in sorted(anchors):
        start, end = _around(lines, at, margin)
        if found and start <= found[-1][1]:
            start, _ = found.pop()
        found.append((start, end))
    some = list[Lines]()
    line = seen = 0
    for start, end in found:
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
    """A part of a text, by its lines; the first and the last may be parts of lines.

    Attributes:
        start: Where it starts in the whole text.
        end: Where it ends.
        line: The number of its first line within the part of the text that it is of.
        contents: Its lines, without ends.
        ends: What stands between them: one less.
        newline: What a line that is new here should end with.
    """

    start: int
    end: int
    line: int
    contents: Sequence[str]
    ends: Sequence[str]
    newline: str


def merged(
    there: Region,
    old: Sequence[str],
    new: Sequence[str],
    write: Callable[[str, str | None, str], str],
) -> str:
    """The new lines in place of the old ones, which stand in the file somewhat differently.

    A line that the edit leaves alone stays as the file has it, with its end. For every other,
    ``write`` says what to write: it gets the new line and, where the edit changes one line into
    one, the old line and what the file has in its place.
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
        return ""  # the file ends here, without a line end
    if before is None or before >= len(there.ends):
        return there.newline
    return there.ends[before] or there.newline


def _origins(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """For each new line, the old line that it is or that it replaces."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    middle = _aligned(old[head : len(old) - tail], new[head : len(new) - tail])
    return [
        *range(head),
        *(None if one is None else one + head for one in middle),
        *range(len(old) - tail, len(old)),
    ]


def _aligned(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    found = list[int | None]([None]) * len(new)
    if len(old) * len(new) > _MOST_COMPARED:
        return found
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for _, top, bottom, left, right in matcher.get_opcodes():
        if bottom - top == right - left:
            found[left:right] = range(top, bottom)
    return found
