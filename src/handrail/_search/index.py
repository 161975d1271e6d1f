"""ToolIndex: finds a catalogue's tools by words. An immutable value."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import sqrt
from types import MappingProxyType
from typing import NamedTuple

import anyio.lowlevel

from handrail._search.fields import FIELDS
from handrail._search.postings import Part, PartBuilder
from handrail._search.query import read_query
from handrail._search.ranking import Ranking
from handrail._search.vocabulary import Vocabulary
from handrail._values.spec import Spec

SLICE = 200
"""Tools indexed between two checkpoints."""
_CHUNK = 256
"""Tools compared together with those in an earlier index."""
_MAX_PARTS = 8
"""Parts above which all but the first become one."""


class Hits(NamedTuple):
    """Tools for a query, best first, and each word read as another one."""

    names: tuple[str, ...]
    scores: tuple[float, ...]
    corrected: Mapping[str, str]


class ToolIndex:
    """A catalogue's definitions, searchable by words.

    The same definitions and the same query always give the same answer.
    """

    def __init__(self, given: tuple[Spec, ...], segments: _Segments) -> None:
        self._given = given
        self._segments = segments
        self._vocabulary = Vocabulary(given, segments.parts, segments.here)

    @property
    def specs(self) -> Mapping[str, Spec]:
        """The definitions by name."""
        return MappingProxyType(self._vocabulary.specs)

    def __len__(self) -> int:
        return len(self._given)

    @classmethod
    def of(cls, specs: Iterable[Spec]) -> ToolIndex:
        """Index definitions, all at once."""
        given = _take_last(specs)
        builder = PartBuilder()
        builder.add(given)
        return cls(given, _segments_of(builder.build()))

    @classmethod
    async def build(cls, specs: Iterable[Spec], *, reuse: ToolIndex | None = None) -> ToolIndex:
        """Index definitions, letting other tasks run in between.

        Only definitions missing from `reuse` are read. The result is the same without it.
        """
        given = tuple(specs)
        same = (0, 0) if reuse is None else _same_ends(reuse._given, given)
        if reuse is None or reuse._repeats(given, same):
            given, same = _take_last(given), (0, 0)
        segments, new = (_EMPTY, given) if reuse is None else reuse._keep(given, same)
        builder = PartBuilder()
        for place in range(0, len(new), SLICE):
            builder.add(new[place : place + SLICE])
            await anyio.lowlevel.checkpoint()
        return cls(given, segments.add(builder.build()) if new else segments)

    def _repeats(self, given: tuple[Spec, ...], same: tuple[int, int]) -> bool:
        """Return whether a name comes twice in other definitions. The same ones are not read."""
        start, end = same
        left = {spec.name for spec in self._given[start : len(self._given) - end]}
        new = {spec.name for spec in given[start : len(given) - end]}
        taken = any(self._segments.find(name) is not None for name in new - left)
        return taken or len(new) < len(given) - start - end

    def _keep(
        self, given: tuple[Spec, ...], same: tuple[int, int]
    ) -> tuple[_Segments, Sequence[Spec]]:
        """Return what holds for other definitions, and those to be indexed."""
        start, end = same
        old = {spec.name: spec for spec in self._given[start : len(self._given) - end]}
        named = {spec.name: spec for spec in given[start : len(given) - end]}
        new = [
            spec
            for name, spec in named.items()
            if (known := old.get(name)) is not spec and known != spec
        ]
        changed = {spec.name for spec in new}
        segments = self._segments.without(
            name for name in old if name in changed or name not in named
        )
        if segments.is_worth_keeping():
            return segments, new
        small = segments.largest()
        return small, [spec for spec in given if small.find(spec.name) is None]

    def among(self, allowed: Container[str]) -> ToolIndex:
        """Return the index for the allowed tools, as if the others did not exist.

        Nothing is read again. Store it for as long as the same tools are allowed: it caches its
        words' scores.
        """
        given = tuple(spec for spec in self._given if spec.name in allowed)
        return ToolIndex(given, self._segments.among(allowed))

    def search(self, query: str, *, limit: int = 5) -> Hits:
        """Return the best tools for a query, best first, and equal ones by name."""
        read = read_query(query, self._vocabulary)
        best = self._ranking.best(read, limit)
        names, scores = zip(*best, strict=True) if best else ((), ())
        return Hits(names, scores, read.corrected)

    def explain(self, query: str, name: str) -> Mapping[str, float]:
        """Return what a tool scores for a query, by field."""
        slot = self._segments.place(name)
        scores: dict[str, float] = dict.fromkeys(FIELDS, 0.0)
        for stem, count in read_query(query, self._vocabulary).counts.items():
            for field, score in zip(FIELDS, self._ranking.explain(stem, slot), strict=True):
                scores[field] += sqrt(count) * score
        return scores

    @cached_property
    def _ranking(self) -> Ranking:
        return Ranking(self._vocabulary)


def _take_last(specs: Iterable[Spec]) -> tuple[Spec, ...]:
    """Return definitions without those whose name comes again."""
    return tuple({spec.name: spec for spec in specs}.values())


@dataclass(frozen=True, slots=True)
class _Segments:
    """Parts of an index. A tool's number counts through them."""

    parts: tuple[Part, ...]
    here: bytes
    """For each number, 1, or 0 if the tool has gone or is not allowed."""

    def find(self, name: str) -> int | None:
        """Return a tool's number."""
        starts = accumulate((len(part.names) for part in self.parts), initial=0)
        for start, part in zip(starts, self.parts, strict=False):
            place = part.places.get(name)
            if place is not None and self.here[start + place]:
                return start + place
        return None

    def place(self, name: str) -> int:
        """Return an existing tool's number."""
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def add(self, part: Part) -> _Segments:
        """Return this with one more part."""
        return _Segments((*self.parts, part), self.here + b"\1" * len(part.names))

    def without(self, names: Iterable[str]) -> _Segments:
        """Return this without some tools. Their words stay in the parts, and are passed over."""
        here = bytearray(self.here)
        for name in names:
            here[self.place(name)] = 0
        return _Segments(self.parts, bytes(here))

    def among(self, allowed: Container[str]) -> _Segments:
        """Return this with the tools that are allowed."""
        names = (name for part in self.parts for name in part.names)
        pairs = zip(names, self.here, strict=True)
        return _Segments(self.parts, bytes(there and name in allowed for name, there in pairs))

    def is_worth_keeping(self) -> bool:
        """Return whether there are few parts, and more tools than gone ones."""
        return len(self.parts) < _MAX_PARTS and 2 * self.here.count(0) <= len(self.here)

    def largest(self) -> _Segments:
        """Return the first part alone, or nothing if most of its tools are gone."""
        first = self.parts[0]
        here = self.here[: len(first.names)]
        return _EMPTY if 2 * here.count(0) > len(here) else _Segments((first,), here)


_EMPTY = _Segments((), b"")


def _segments_of(part: Part) -> _Segments:
    """Return one part, all of whose tools are there."""
    return _EMPTY.add(part)


def _same_ends(old: Sequence[object], new: Sequence[object]) -> tuple[int, int]:
    """Return how many items two sequences share at the start, and then at the end."""
    most = min(len(old), len(new))
    start = _count_same(old, new, most, at_end=False)
    return start, _count_same(old, new, most - start, at_end=True)


def _count_same(old: Sequence[object], new: Sequence[object], most: int, *, at_end: bool) -> int:
    """Return how many items two sequences share: whole chunks first, then one by one.

    Nothing is copied but a chunk. In a large catalogue, touching every definition costs most.
    """
    same = 0
    for size in (_CHUNK, 1):
        while same + size <= most:
            starts = [len(items) - same - size if at_end else same for items in (old, new)]
            if old[starts[0] : starts[0] + size] != new[starts[1] : starts[1] + size]:
                break
            same += size
    return same
