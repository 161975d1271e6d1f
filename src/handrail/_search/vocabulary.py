"""All words in a catalogue: the parts together, without removed tools."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain, compress

from handrail._search.fields import FIELDS, written_words
from handrail._search.postings import DOC_SHIFT, FIELD_MASK, Part, unpack
from handrail._search.words import cached_stem
from handrail._values.spec import Spec

MIN_HALF = 3
"""Minimum letters in each half of a divided word."""


MIN_COMPOUND = 7
"""Minimum letters in a word to divide."""


MAX_READ = 100
"""Definitions read to check whether a word is in them."""


class Vocabulary:
    """Stems and their tools over several parts. Tool numbers continue from part to part.

    Only the present tools are included: no method shows anything about others.
    """

    def __init__(self, given: tuple[Spec, ...], parts: tuple[Part, ...], here: bytes) -> None:
        self._given = given
        self.parts = parts
        self.here = here
        self.size = here.count(1)
        self._is_whole = self.size == len(here)
        self._starts = [0, *accumulate(len(part.names) for part in parts[:-1])]
        self._counts: dict[str, int] = {}
        self._known: dict[str, bool] = {}
        self._halves: dict[str, tuple[str, ...]] = {}

    @cached_property
    def specs(self) -> Mapping[str, Spec]:
        """The definitions by name, made when one is first read."""
        return {spec.name: spec for spec in self._given}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Each tool's name. Made for the first search, not for a tool change."""
        return tuple(chain.from_iterable(part.names for part in self.parts))

    @cached_property
    def lengths(self) -> tuple[array[int], ...]:
        """Each field's length, by tool number."""
        if len(self.parts) == 1:
            return self.parts[0].lengths
        return tuple(_chain(self.parts, field) for field in range(len(FIELDS)))

    def average(self, field: int) -> float:
        """Return a field's average length, over the tools with it."""
        if self._is_whole:
            total = sum(part.totals[field] for part in self.parts)
            return total / max(1, sum(part.sizes[field] for part in self.parts))
        lengths = [*compress(self.lengths[field], self.here)]
        return sum(lengths) / max(1, len(lengths) - lengths.count(0))

    def longest(self, field: int) -> int:
        """Return a field's greatest length."""
        return max((part.longest[field] for part in self.parts), default=0)

    def entries(self, stem: str) -> list[tuple[int, int, int]]:
        """Return (tool, field, count) for each occurrence of a stem, in tool order."""
        found: list[tuple[int, int, int]] = []
        start, here = 0, self.here
        for part in self.parts:
            held = unpack(part.entries.get(stem, ()), start)
            found += held if self._is_whole else [entry for entry in held if here[entry[0]]]
            start += len(part.names)
        return found

    def of_tool(self, stem: str, doc: int) -> list[tuple[int, int]]:
        """Return the field and count for each occurrence of a stem in one tool."""
        place = bisect_right(self._starts, doc) - 1
        held = self.parts[place].of_tool(stem, doc - self._starts[place])
        return [(field, count) for _, field, count in unpack(held)]

    def tools(self, *stems: str) -> set[int]:
        """Return the tools with any of these stems."""
        found: set[int] = set()
        start, here = 0, self.here
        for part in self.parts:
            for stem in stems:
                held = part.entries.get(stem, ())
                found.update([start + (entry >> DOC_SHIFT) for entry in held])
            start += len(part.names)
        return found if self._is_whole else {doc for doc in found if here[doc]}

    def named(self, stem: str) -> list[int]:
        """Return the tools with a stem in their name."""
        found: list[int] = []
        start, here = 0, self.here
        for part in self.parts:
            held = [entry for entry in part.entries.get(stem, ()) if not entry & FIELD_MASK]
            found += [start + (entry >> DOC_SHIFT) for entry in held]
            start += len(part.names)
        return [doc for doc in found if here[doc]]

    def most(self, stems: Iterable[str]) -> int:
        """Return an upper bound for the tools with any of these stems."""
        return sum(len(part.entries.get(stem, ())) for part in self.parts for stem in stems)

    def count(self, stem: str) -> int:
        """Return how many tools have a stem."""
        known = self._counts.get(stem)
        if known is None:
            known = self._counts[stem] = len(self.tools(stem))
        return known

    def __contains__(self, stem: str) -> bool:
        if not any(stem in part.entries for part in self.parts):
            return False
        if self._is_whole:
            return True
        known = self._known.get(stem)
        if known is None:
            known = self._known[stem] = bool(self.tools(stem))
        return known

    def written(self, words: Sequence[str]) -> set[str]:
        """Return the words some tool writes in this form."""
        found = set[str]().union(*(part.words.intersection(words) for part in self.parts))
        return found if self._is_whole else set(filter(self._is_written, found))

    def _is_written(self, word: str) -> bool:
        names = sorted({self.names[doc] for doc in self.tools(cached_stem(word))})
        return any(word in written_words(self.specs[name]) for name in names[:MAX_READ])

    def compounds(self, stem: str) -> tuple[str, ...]:
        """Return the long words with this stem as one half."""
        if len(stem) < MIN_HALF:
            return ()
        first = {
            word
            for part in self.parts
            for word in _starting(part.sorted, stem)
            if any(
                cached_stem(word[:place]) == stem
                for place in range(len(stem), min(len(stem) + 3, len(word) - MIN_HALF) + 1)
                if self._ending(word[place:])
            )
        }
        second = {
            word[::-1]
            for ending in {stem, stem.removesuffix("e")}
            for part in self.parts
            for word in _starting(part.reversed, ending[::-1])
            if cached_stem(word[: len(ending) - 1 : -1]) in self
        }
        return tuple(word for word in sorted(first | second) if stem in self.halves(word))

    def halves(self, word: str) -> tuple[str, ...]:
        """Return the two stems in a long word, if the catalogue uses both more often than it."""
        if len(word) < MIN_COMPOUND:
            return ()
        known = self._halves.get(word)
        if known is None:
            most = self.count(word)
            known = ()
            for place in range(MIN_HALF, len(word) - MIN_HALF + 1):
                second = self._ending(word[place:])
                if second and (first := cached_stem(word[:place])) in self:
                    least = min(self.count(first), self.count(second))
                    if least > most:
                        most, known = least, (first, second)
            self._halves[word] = known
        return known

    def _ending(self, tail: str) -> str:
        """Return the own stem of a longer stem's end, or an empty string."""
        return next((stem for stem in (tail, f"{tail}e") if stem in self), "")


def _chain(parts: tuple[Part, ...], field: int) -> array[int]:
    whole = array("H")
    for part in parts:
        whole += part.lengths[field]
    return whole


def _starting(words: list[str], start: str) -> list[str]:
    """Return a sorted list's words with this beginning, and room for another half."""
    place = bisect_left(words, start)
    found: list[str] = []
    while place < len(words) and words[place].startswith(start):
        if len(words[place]) >= len(start) + MIN_HALF:
            found.append(words[place])
        place += 1
    return found
