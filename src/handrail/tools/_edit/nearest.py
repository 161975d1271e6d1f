"""Finds a text's closest part to an absent text, and how they differ.

The work is bounded: a few rare lines and words decide where to search, and lines are compared only
there.
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

from handrail.tools._edit.lines import Lines, split_around
from handrail.tools._edit.lookalikes import unify_lookalikes
from handrail.tools._edit.places import MAX_WHOLE_CHARS, find_starts

_MAX_ANCHORS = 12
"""Lines and words searched for."""
_MIN_ANCHOR_CHARS = 3
_PIECE_CHARS = 4
"""Characters in a line piece."""
_MAX_PARTS = 12
"""Parts searched in a large text."""
_MAX_HITS = 40
"""Hits used for each line or word."""
_MAX_CANDIDATES = 12
"""Locations compared line by line."""
_MAX_LINES = 120
"""Lines compared from the old text."""
_MAX_LINE_CHARS = 400
"""Characters compared in a line."""
_MAX_LINES_AHEAD = 6
"""Lines searched for a line's counterpart."""
_MIN_CLOSE_SCORE = 0.5
"""The similarity from which a text is called close."""
_MIN_OTHER_SHARE = 0.85
"""The similarity, relative to the closest location, from which another one is mentioned."""
Pair: TypeAlias = tuple[int, int]
"""An old line and a file line; -1 for none."""
_WORD = re.compile(r"\w{3,}")
_WHITESPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class LinePair:
    """An old line, and its counterpart in the file.

    Attributes:
        mine: The old line, from 0; -1 if there is none.
        line: The file's line, from 0; -1 if there is none.
        theirs: The file line's text.
    """

    mine: int
    line: int
    theirs: str


@dataclass(frozen=True, slots=True)
class NearestPlace:
    """A text's closest part.

    Attributes:
        first: Its first line, from 0.
        last: Its last line.
        score: The similarity, from 0 to 1.
        rows: Corresponding line pairs.
        others: How many other locations are about as close.
    """

    first: int
    last: int
    score: float
    rows: tuple[LinePair, ...]
    others: int = 0


def find_nearest(lines: Lines, old: str) -> NearestPlace | None:
    """Return the closest part, or None if nothing is close."""
    wanted = lines.normal(old).strip("\n").split("\n")[:_MAX_LINES]
    some = [lines] if len(lines.text) <= MAX_WHOLE_CHARS else _likely_parts(lines, wanted)
    seen = sorted(
        (place for part in some for place in _compare(part, wanted)),
        key=lambda place: (-place.score, place.first),
    )
    if not seen or seen[0].score < _MIN_CLOSE_SCORE:
        return None
    apart = list[NearestPlace]()
    for place in seen:
        others = all(place.last < other.first or place.first > other.last for other in apart)
        if others and place.score >= seen[0].score * _MIN_OTHER_SHARE:
            apart.append(place)
    return replace(seen[0], others=len(apart) - 1)


def _likely_parts(lines: Lines, wanted: Sequence[str]) -> list[Lines]:
    """Return a large text's parts with the rarest pieces."""
    hits = [[*islice(find_starts(lines.text, part), _MAX_PARTS)] for part, _ in _anchors(wanted)]
    rare = sorted((starts for starts in hits if 0 < len(starts) < _MAX_PARTS), key=len)
    some = [at for starts in (rare or hits) for at in starts][:_MAX_PARTS]
    return split_around(lines, some, len(wanted) + 8)


def _compare(lines: Lines, wanted: Sequence[str]) -> Iterator[NearestPlace]:
    keys = [_make_key(line) for line in wanted]
    for start in _candidates(lines, wanted):
        top = max(start - 2, 0)
        theirs = lines.contents[top : max(start, 0) + len(keys) + 2]
        pairs = [*_align(keys, [_make_key(line) for line in theirs])]
        yield _score(wanted, theirs, pairs, top + lines.line)


def _score(
    wanted: Sequence[str], theirs: Sequence[str], pairs: Sequence[Pair], top: int
) -> NearestPlace:
    total = sum(len(_make_key(line).text) for line in wanted) or 1
    matched = {mine: line for mine, line in pairs if mine >= 0 and line >= 0}
    score = sum(_weight(wanted[mine], theirs[line]) for mine, line in matched.items())
    there = {_make_key(line).text for line in theirs}
    unmatched = [_make_key(line).text for at, line in enumerate(wanted) if at not in matched]
    score += 0.9 * sum(len(text) for text in unmatched if text in there)  # in another order
    lines = [*matched.values()] or [0]
    first, last = min(lines), max(lines)
    rows = tuple(
        LinePair(mine, line + top, theirs[line]) if line >= 0 else LinePair(mine, -1, "")
        for mine, line in pairs
        if mine >= 0 or first <= line <= last
    )
    return NearestPlace(first + top, last + top, score / total, rows)


def _weight(mine: str, theirs: str) -> float:
    """Return a line pair's weight, by their length and similarity."""
    key = _make_key(mine)
    return len(key.text) * (1.0 if mine == theirs else 0.99 * _likeness(key, _make_key(theirs)))


class _LineKey(NamedTuple):
    """A normalized line, and its adjacent character pairs."""

    text: str
    bigrams: Counter[str]


def _make_key(line: str) -> _LineKey:
    text = _WHITESPACE.sub(" ", unify_lookalikes(line[:_MAX_LINE_CHARS])).strip().casefold()
    return _LineKey(text, Counter(map("".join, pairwise(text))))


def _candidates(lines: Lines, wanted: Sequence[str]) -> list[int]:
    """Return where the old text may start, by its rare lines and words, most likely first."""
    begins = [0, *accumulate(len(line) + 1 for line in lines.contents)]
    votes = defaultdict[int, float](float)
    for part, at in _anchors(wanted):
        hits = list(islice(_lines_with(lines.plain, part, begins), _MAX_HITS))
        for line in hits:
            votes[line - at] += len(part) / len(hits)
    near = {
        start: sum(votes.get(other, 0.0) for other in range(start - 2, start + 3)) + vote / 2
        for start, vote in votes.items()
    }
    return sorted(near, key=lambda start: (-near[start], start))[:_MAX_CANDIDATES]


def _anchors(wanted: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield texts to search for, and their line: the longest lines, words and line pieces."""
    groups = (dict[str, int](), dict[str, int](), dict[str, int]())
    for at, line in enumerate(map(str.strip, wanted)):
        groups[0].setdefault(line, at)
        for word in _WORD.findall(line):
            groups[1].setdefault(word, at)
    longest = sorted(groups[0], key=len, reverse=True)[:2]
    for line in longest:
        for start in range(0, len(line) - _PIECE_CHARS + 1, max(len(line) // _MAX_ANCHORS, 1)):
            groups[2].setdefault(line[start : start + _PIECE_CHARS], groups[0][line])
    for group in groups:
        long = sorted(
            (part for part in group if len(part) >= _MIN_ANCHOR_CHARS), key=len, reverse=True
        )
        yield from ((part, group[part]) for part in long[:_MAX_ANCHORS])


def _lines_with(text: str, part: str, begins: Sequence[int]) -> Iterator[int]:
    """Yield the lines with a part, each once."""
    at = text.find(part)
    while at >= 0:
        line = bisect_right(begins, at) - 1
        yield line
        at = text.find(part, begins[line + 1])


def _align(mine: Sequence[_LineKey], theirs: Sequence[_LineKey]) -> Iterator[Pair]:
    """Yield corresponding line pairs; -1 for none."""
    ours, others = [key.text for key in mine], [key.text for key in theirs]
    matcher = SequenceMatcher(None, ours, others, autojunk=False)
    for tag, top, bottom, left, right in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(range(top, bottom), range(left, right), strict=True)
        else:
            yield from _by_likeness(mine, theirs, range(top, bottom), range(left, right))


def _by_likeness(
    mine: Sequence[_LineKey], theirs: Sequence[_LineKey], some: range, others: range
) -> Iterator[Pair]:
    left = others.start
    for at in some:
        ahead = range(left, min(left + _MAX_LINES_AHEAD, others.stop))
        alike = [(_likeness(mine[at], theirs[line_ahead]), -line_ahead) for line_ahead in ahead]
        best, line = max(alike, default=(0.0, 0))
        if best < _MIN_CLOSE_SCORE:
            yield at, -1
            continue
        yield from ((-1, skipped) for skipped in range(left, -line))
        yield at, -line
        left = 1 - line
    yield from ((-1, skipped) for skipped in range(left, others.stop))


def _likeness(first: _LineKey, second: _LineKey) -> float:
    """Return the share of adjacent character pairs two lines share, from 0 to 1."""
    if first.text == second.text:
        return 1.0
    mine, theirs = first.bigrams.total(), second.bigrams.total()
    shared = (first.bigrams & second.bigrams).total()
    both = 2 * shared / (mine + theirs) if mine + theirs else 0.0
    # the old text may start and end within a line
    return max(both, 0.8 * shared / mine if mine > _PIECE_CHARS else 0.0)
