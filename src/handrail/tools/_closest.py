"""The part of a text that comes closest to one that is not in it, and how the two differ.

What is looked at is bounded by counts: a few rare lines and words say where to look, and only there
lines are compared.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate, islice, pairwise
from typing import NamedTuple, TypeAlias

from handrail.tools._alike import alike
from handrail.tools._find import LARGE, starts
from handrail.tools._lines import Lines, parts

_ANCHORS = 12
"""Lines, and words, that are searched for."""
_PIECE = 4
"""Characters of a piece of a line."""
_PARTS = 12
"""Parts of a large text that are looked at."""
_HITS = 40
"""Places of each that count."""
_CANDIDATES = 12
"""Places that are looked at closely."""
_LONGEST = 120
"""Lines of the old text that are compared."""
_WIDEST = 400
"""Characters of a line that are compared."""
_AHEAD = 6
"""Lines that are looked at to find the one that stands for a line."""
_CLOSE = 0.5
"""How alike a text has to be to be called close."""
_OTHER = 0.85
"""How alike another place has to be, compared with the closest, to be mentioned."""
Pair: TypeAlias = tuple[int, int]
"""A line of the old text and a line of the file; -1 for none."""
_WORD = re.compile(r"\w{3,}")
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the old text, and the line of the file in its place.

    Attributes:
        mine: The line of the old text, from 0; -1 where there is none.
        line: The line of the file, from 0; -1 where there is none.
        theirs: What the file has there.
    """

    mine: int
    line: int
    theirs: str


@dataclass(frozen=True, slots=True)
class Close:
    """The closest part of a text.

    Attributes:
        first: Its first line, from 0.
        last: Its last line.
        score: How alike it is, from 0 to 1.
        rows: Which line stands for which.
        others: How many other places are about as close.
    """

    first: int
    last: int
    score: float
    rows: tuple[Row, ...]
    others: int = 0


def closest(lines: Lines, old: str) -> Close | None:
    """The closest part, or None where nothing is close."""
    wanted = lines.normal(old).strip("\n").split("\n")[:_LONGEST]
    some = [lines] if len(lines.text) <= LARGE else _likely(lines, wanted)
    seen = sorted(
        (one for part in some for one in _compared(part, wanted)),
        key=lambda one: (-one.score, one.first),
    )
    if not seen or seen[0].score < _CLOSE:
        return None
    apart = list[Close]()
    for one in seen:
        others = all(one.last < two.first or one.first > two.last for two in apart)
        if others and one.score >= seen[0].score * _OTHER:
            apart.append(one)
    return replace(seen[0], others=len(apart) - 1)


def _likely(lines: Lines, wanted: Sequence[str]) -> list[Lines]:
    """The parts of a large text that hold the rarest pieces."""
    hits = [[*islice(starts(lines.text, part), _PARTS)] for part, _ in _anchors(wanted)]
    rare = sorted((one for one in hits if 0 < len(one) < _PARTS), key=len)
    some = [at for one in (rare or hits) for at in one][:_PARTS]
    return parts(lines, some, len(wanted) + 8)


def _compared(lines: Lines, wanted: Sequence[str]) -> Iterator[Close]:
    keys = [_key(line) for line in wanted]
    for start in _candidates(lines, wanted):
        top = max(start - 2, 0)
        theirs = lines.contents[top : max(start, 0) + len(keys) + 2]
        pairs = [*_aligned(keys, [_key(line) for line in theirs])]
        yield _scored(wanted, theirs, pairs, top + lines.line)


def _scored(wanted: Sequence[str], theirs: Sequence[str], pairs: Sequence[Pair], top: int) -> Close:
    total = sum(len(_key(line).text) for line in wanted) or 1
    met = {mine: line for mine, line in pairs if mine >= 0 and line >= 0}
    score = sum(_weight(wanted[mine], theirs[line]) for mine, line in met.items())
    there = {_key(line).text for line in theirs}
    lost = [_key(line).text for at, line in enumerate(wanted) if at not in met]
    score += 0.9 * sum(len(text) for text in lost if text in there)  # in another order
    found = [*met.values()] or [0]
    first, last = min(found), max(found)
    rows = tuple(
        Row(mine, line + top, theirs[line]) if line >= 0 else Row(mine, -1, "")
        for mine, line in pairs
        if mine >= 0 or first <= line <= last
    )
    return Close(first + top, last + top, score / total, rows)


def _weight(mine: str, theirs: str) -> float:
    """What a pair of lines adds: the longer and the more alike, the more."""
    key = _key(mine)
    return len(key.text) * (1.0 if mine == theirs else 0.99 * _likeness(key, _key(theirs)))


class _Key(NamedTuple):
    """A line without what hardly matters, and its pairs of neighbouring characters."""

    text: str
    neighbours: Counter[str]


def _key(line: str) -> _Key:
    text = _BLANKS.sub(" ", alike(line[:_WIDEST])).strip().casefold()
    return _Key(text, Counter(map("".join, pairwise(text))))


def _candidates(lines: Lines, wanted: Sequence[str]) -> list[int]:
    """Where the old text may start, likeliest first: where its rare lines and words are."""
    begins = [0, *accumulate(len(line) + 1 for line in lines.contents)]
    votes = defaultdict[int, float](float)
    for part, at in _anchors(wanted):
        hits = list(islice(_lines_with(lines.plain, part, begins), _HITS))
        for line in hits:
            votes[line - at] += len(part) / len(hits)
    near = {
        start: sum(votes.get(other, 0.0) for other in range(start - 2, start + 3)) + vote / 2
        for start, vote in votes.items()
    }
    return sorted(near, key=lambda start: (-near[start], start))[:_CANDIDATES]


def _anchors(wanted: Sequence[str]) -> Iterator[tuple[str, int]]:
    """What to look for, and in which line it is: the longest lines, words, and pieces of lines."""
    groups = (dict[str, int](), dict[str, int](), dict[str, int]())
    for at, line in enumerate(map(str.strip, wanted)):
        groups[0].setdefault(line, at)
        for word in _WORD.findall(line):
            groups[1].setdefault(word, at)
    longest = sorted(groups[0], key=len, reverse=True)[:2]
    for line in longest:
        for start in range(0, len(line) - _PIECE + 1, max(len(line) // _ANCHORS, 1)):
            groups[2].setdefault(line[start : start + _PIECE], groups[0][line])
    for group in groups:
        long = sorted((part for part in group if len(part) > 2), key=len, reverse=True)  # noqa: PLR2004
        yield from ((part, group[part]) for part in long[:_ANCHORS])


def _lines_with(text: str, part: str, begins: Sequence[int]) -> Iterator[int]:
    """The lines that hold a part, each once."""
    at = text.find(part)
    while at >= 0:
        line = bisect_right(begins, at) - 1
        yield line
        at = text.find(part, begins[line + 1])


def _aligned(mine: Sequence[_Key], theirs: Sequence[_Key]) -> Iterator[Pair]:
    """Which line stands for which; -1 for none."""
    ours, others = [key.text for key in mine], [key.text for key in theirs]
    matcher = SequenceMatcher(None, ours, others, autojunk=False)
    for tag, top, bottom, left, right in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(range(top, bottom), range(left, right), strict=True)
        else:
            yield from _by_likeness(mine, theirs, range(top, bottom), range(left, right))


def _by_likeness(
    mine: Sequence[_Key], theirs: Sequence[_Key], some: range, others: range
) -> Iterator[Pair]:
    left = others.start
    for at in some:
        ahead = range(left, min(left + _AHEAD, others.stop))
        alike = [(_likeness(mine[at], theirs[one]), -one) for one in ahead]
        best, line = max(alike, default=(0.0, 0))
        if best < _CLOSE:
            yield at, -1
            continue
        yield from ((-1, skipped) for skipped in range(left, -line))
        yield at, -line
        left = 1 - line
    yield from ((-1, skipped) for skipped in range(left, others.stop))


def _likeness(one: _Key, other: _Key) -> float:
    """From 0 to 1: how many pairs of neighbouring characters two lines share."""
    if one.text == other.text:
        return 1.0
    mine, theirs = one.neighbours.total(), other.neighbours.total()
    shared = (one.neighbours & other.neighbours).total()
    both = 2 * shared / (mine + theirs) if mine + theirs else 0.0
    # the old text may begin and end within a line
    return max(both, 0.8 * shared / mine if mine > _PIECE else 0.0)
