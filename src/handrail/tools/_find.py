"""Where an edit belongs in a text: the places, and what is to stand there.

The steps go from strict to tolerant, and the first that finds anything decides. None of them
overlooks a letter, a digit or a sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Literal, TypeAlias

from handrail.tools._alike import BLANKS, alike, column, kept
from handrail.tools._copied import unnumbered, unspelled
from handrail.tools._indent import SAME, Rule, indent_of, rule
from handrail.tools._lines import Lines, Region, merged, parts

How: TypeAlias = Literal[
    "line ends", "trailing blanks", "indentation", "line numbers", "look-alikes", "spelling"
]
"""What was overlooked to find a text."""
Lens: TypeAlias = Callable[[str], str]
"""Gives all texts that are to count as equal one spelling."""

MOST_PLACES = 100_000
"""Places that can be changed at once. One more is looked for, to know that there are more."""
_MOST_TOLD = 100
"""Places that are told of where only one would do."""
_LONGEST = 100_000
"""Characters of a line in which look-alikes are looked for."""
LARGE = 4_000_000
"""Characters of a text that is not looked at as a whole where that takes long."""
_PIECE = re.compile(r"[\w()\[\]{}<>,;:=+*/&|!?@#$%]+(?: [\w()\[\]{}<>,;:=+*/&|!?@#$%]+)*", re.ASCII)
"""What neither look-alikes nor blanks nor a reading can change."""
_NEAR = 400
"""Lines before and after a place that say how a file is indented."""
_LEAST = 3
"""Letters and digits without which a text is too common to be found by anything but itself."""
_DEEPEST = 80
"""Blanks of the deepest indentation that a first line may have left out."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace a text by another: at the one place where it is, or everywhere."""

    old: str
    new: str
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text, and what is to stand there.

    Attributes:
        start: Where it starts.
        end: Where it ends.
        line: The number of its first line, from 0.
        count: How many lines it has.
        text: What is to stand there; None where that cannot be told.
        how: What was overlooked to find it.
    """

    start: int
    end: int
    line: int
    count: int
    text: str | None
    how: frozenset[How] = frozenset()


class _Unclear(Exception):
    """It cannot be told what a new line should look like."""


def places(lines: Lines, edit: Edit) -> list[Span]:
    """All places that the strictest step finds which finds any."""
    some = [lines] if len(lines.text) <= LARGE or edit.everywhere else _likely(lines, edit.old)
    for step in (_as_it_is, _by_lines, _without_numbers, _spelled_out, _look_alike):
        found = [span for part in some for span in step(part, edit)]
        if found:
            return found
    return []


def _likely(lines: Lines, old: str) -> list[Lines]:
    """The parts of a large text that hold the longest piece of the old one that all steps need."""
    piece = max(_PIECE.findall(old), key=len, default="")
    hits = [*islice(starts(lines.text, piece), _MOST_TOLD)]
    common = len(piece) < _LEAST or len(hits) == _MOST_TOLD
    return [lines] if common else parts(lines, hits, old.count("\n") + _NEAR)


def _as_it_is(lines: Lines, edit: Edit) -> list[Span]:
    if any("\r" in one for one in (lines.text, edit.old, edit.new)):
        return _within(lines, edit, str)
    count, size = _height(edit.old), len(edit.old)
    return [
        Span(at + lines.offset, at + lines.offset + size, line + lines.line, count, edit.new)
        for line, _, at in islice(_hits(lines.text, edit.old), MOST_PLACES + 1)
    ]


def _height(text: str) -> int:
    return text.removesuffix("\n").count("\n") + 1


def _hits(text: str, part: str) -> Iterator[tuple[int, int, int]]:
    """Where a part is: the line, where that line starts, and where the part starts."""
    line = left = seen = 0
    for start in starts(text, part):
        line += text.count("\n", seen, start)
        left = text.rfind("\n", seen, start) + 1 or left
        seen = start
        yield line, left, start


def starts(text: str, part: str) -> Iterator[int]:
    """Where a part starts in a text; the parts may overlap."""
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _by_lines(lines: Lines, edit: Edit) -> list[Span]:
    return _whole(lines, edit, str)


def _without_numbers(lines: Lines, edit: Edit) -> list[Span]:
    bare = unnumbered(lines.normal(edit.old), lines.normal(edit.new))
    if bare is None:
        return []
    plain = Edit(bare.old, bare.new or "", edit.everywhere)
    found = _whole(lines, plain, str) or _whole(lines, plain, alike)
    if not bare.sure:
        found = [one for one in found if one.line + 1 == bare.first]
    return [
        replace(one, how=one.how | {"line numbers"}, text=None if bare.new is None else one.text)
        for one in found
    ]


def _spelled_out(lines: Lines, edit: Edit) -> list[Span]:
    real = unspelled(edit.old, edit.new, lines.text)
    if real is None:
        return []
    plain = Edit(*real, edit.everywhere)
    found = _as_it_is(lines, plain) or _whole(lines, plain, str)
    return [replace(one, how=one.how | {"spelling"}) for one in found]


def _look_alike(lines: Lines, edit: Edit) -> list[Span]:
    if lines.text.isascii() and edit.old.isascii():
        return []
    return _within(lines, edit, alike) or _whole(lines, edit, alike)


def _within(lines: Lines, edit: Edit, lens: Lens) -> list[Span]:
    """The places of a text anywhere within lines, whatever the line ends."""
    old, new = lines.normal(edit.old), lines.normal(edit.new)
    needle = lens(old)
    if lens is alike and not telling(needle):
        return []
    most = MOST_PLACES + 1 if lens is not alike else _MOST_TOLD
    write = _Merge(old.split("\n"), new.split("\n"), lens)
    spans = list[Span]()
    for line, left, start in islice(_hits(lens(lines.plain), needle), most):
        last, right = line + needle.count("\n"), start + len(needle) - left
        if "\n" in needle:
            right = len(needle) - needle.rfind("\n") - 1
        there = _seen_region(lines, lens, (line, start - left), (last, right))
        if there is not None:
            spans.append(write.span(there, lines.line))
    return spans


class _Merge:
    """What is to stand at each place of a text within lines; the same is worked out once."""

    def __init__(self, old: Sequence[str], new: Sequence[str], lens: Lens) -> None:
        self._old, self._new, self._lens = old, new, lens
        self._known = dict[tuple[str, ...], str]()

    def span(self, there: Region, line: int) -> Span:
        key = (*there.ends, there.newline, *there.contents)
        if key not in self._known:
            self._known[key] = merged(there, self._old, self._new, self._written)
        how = set[How]()
        if any(end != "\n" for end in there.ends):
            how.add("line ends")
        if there.contents != self._old:
            how.add("look-alikes")
        first, count = there.line + line, _height("\n".join(self._old))
        return Span(there.start, there.end, first, count, self._known[key], frozenset(how))

    def _written(self, new: str, old: str | None, theirs: str) -> str:
        return new if old is None or self._lens is not alike else kept(new, old, theirs)


def _seen_region(
    lines: Lines, lens: Lens, first: tuple[int, int], last: tuple[int, int]
) -> Region | None:
    """A region by its places as they are seen through a lens; None if it has no clean ends."""
    if lens is not alike:
        return lines.region(first, last)
    top, bottom = lines.contents[first[0]], lines.contents[last[0]]
    if max(len(top), len(bottom)) > _LONGEST:
        return None
    left, right = column(top, first[1], after=True), column(bottom, last[1], after=False)
    if left is None or right is None:
        return None
    return lines.region((first[0], left), (last[0], right))


def telling(text: str) -> bool:
    """Whether a text has enough letters and digits to be hardly anything else."""
    return sum(map(str.isalnum, text)) >= _LEAST


def _whole(lines: Lines, edit: Edit, lens: Lens) -> list[Span]:
    """The places of whole lines, whatever blanks are at their ends."""
    old, new = lines.normal(edit.old), lines.normal(edit.new)
    if not old.strip():
        return []
    if old.endswith("\n") and new and not new.endswith("\n"):
        # nobody means to join the next line: the line end was left out of the one, not the other
        found = _whole(lines, replace(edit, old=old[:-1]), lens)
        return [replace(one, how=one.how | {"line ends"}) for one in found]
    wanted = old.removesuffix("\n").split("\n")
    needle = _stripped([lens(line) for line in wanted])
    hay = _stripped(lens(lines.plain).split("\n"))
    closed = old.endswith("\n")
    found = [
        _settled(lines, _block(lines, line, len(wanted), closed=closed), edit, lens)
        for line, _, _ in islice(_hits(hay, needle), _MOST_TOLD)
    ]
    return found if telling(old) else [one for one in found if not one.how - {"line ends"}]


def _stripped(lines: Sequence[str]) -> str:
    return "\n".join(["", *(line.strip(" \t") for line in lines), ""])


def _block(lines: Lines, line: int, count: int, *, closed: bool) -> Region:
    """So many whole lines; if closed, with the end of the last, even where the file has none."""
    last = line + count - 1
    if closed and last + 1 < len(lines.contents):
        return lines.region((line, 0), (last + 1, 0))
    there = lines.region((line, 0), (last, len(lines.contents[last])))
    if closed:
        return replace(there, contents=[*there.contents, ""], ends=[*there.ends, ""])
    return there


def _settled(lines: Lines, there: Region, edit: Edit, lens: Lens) -> Span:
    old, new = (lines.normal(one).split("\n") for one in (edit.old, edit.new))
    theirs = [lens(line) for line in there.contents]
    near = lines.contents[max(there.line - _NEAR, 0) : there.line + len(old) + _NEAR]
    how = _overlooked(there, old, theirs, lens)
    count = _height(lines.normal(edit.old))
    span = Span(there.start, there.end, there.line + lines.line, count, None, how)
    found = rule(theirs, old, new, near)
    if found is None:
        found = _but_first(theirs, old, new, near)
    if found is None:
        return span
    try:
        return replace(span, text=merged(there, old, new, partial(_moved, (lens, found))))
    except _Unclear:
        return span


def _but_first(
    theirs: list[str], old: list[str], new: list[str], near: Sequence[str]
) -> Rule | None:
    """The rule where the first line was copied without its indentation; mends that line."""
    lacks = indent_of(theirs[0]) and not indent_of(old[0]) and not indent_of(new[0])
    found = rule(theirs[1:], old[1:], new[1:], near) if lacks and any(old[1:]) else None
    if found is None:
        return None
    indents = [
        indent_of(theirs[0]),
        *("\t" * n for n in range(_DEEPEST)),
        *(" " * n for n in range(_DEEPEST)),
    ]
    pad = next((one for one in indents if found.follow(one) == indents[0]), None)
    if pad is None:
        return None
    old[0], new[0] = pad + old[0], pad + new[0]
    return found


def _moved(by: tuple[Lens, Rule], new: str, old: str | None, theirs: str) -> str:
    """A new line with the indentation that it has in the file."""
    lens, found = by
    if not new.strip():
        return new if found is SAME else ""
    indent = found.follow(indent_of(new))
    if indent is None:
        raise _Unclear
    body = new[len(indent_of(new)) :]
    if lens is alike and old is not None:
        body = kept(body, old.strip(BLANKS), theirs.strip(BLANKS))
    return indent + body


def _overlooked(there: Region, old: list[str], theirs: list[str], lens: Lens) -> frozenset[How]:
    how = set[How]()
    if any(end != "\n" for end in there.ends):
        how.add("line ends")
    for mine, line, real in zip(old, theirs, there.contents, strict=True):
        if mine[len(mine.rstrip(" \t")) :] != line[len(line.rstrip(" \t")) :]:
            how.add("trailing blanks")
        if mine.strip() and indent_of(mine) != indent_of(line):
            how.add("indentation")
        if lens is alike and mine.strip(BLANKS) != real.strip(BLANKS):
            how.add("look-alikes")
    return frozenset(how)
