"""Postings: which words are in which tool's field, and how often."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from handrail._search.fields import FIELDS, FieldReader
from handrail._values.spec import Spec

FIELD_BITS = 3
COUNT_BITS = 8
DOC_SHIFT = FIELD_BITS + COUNT_BITS
MAX_COUNT = (1 << COUNT_BITS) - 1
FIELD_MASK = (1 << DOC_SHIFT) - (1 << COUNT_BITS)
"""An entry's bits, all 0 if it belongs to a name."""
MAX_LENGTH = (1 << 16) - 1


class Part:
    """Tools indexed together, numbered from 0, with each field's words.

    An entry is one number: the tool, the field and the count, packed into four bytes to make a
    large catalogue small.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        lengths: tuple[array[int], ...],
        entries: Mapping[str, array[int]],
        words: frozenset[str],
    ) -> None:
        self.names = names
        self.lengths = lengths
        self.entries = entries
        self.words = words
        self.totals = [sum(held) for held in lengths]
        self.sizes = [sum(map(bool, held)) for held in lengths]
        self.longest = [max(held, default=0) for held in lengths]
        self.places: Mapping[str, int] = dict(zip(names, range(len(names)), strict=True))
        """Each tool's number. Made here to make the first change quick."""

    @cached_property
    def sorted(self) -> list[str]:
        """The stems, by name, to find those with the same beginning."""
        return sorted(filter(str.isalpha, self.entries))

    @cached_property
    def reversed(self) -> list[str]:
        """The stems from back to front, by name, to find those with the same end."""
        return sorted(word[::-1] for word in self.sorted)

    def of_tool(self, stem: str, doc: int) -> array[int]:
        """Return one tool's entries for a stem."""
        entries = self.entries.get(stem, _NONE)
        start = bisect_left(entries, doc << DOC_SHIFT)
        return entries[start : bisect_left(entries, (doc + 1) << DOC_SHIFT, start)]


_NONE: array[int] = array("I")


class PartBuilder:
    """Takes definitions in, then returns the part they make."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._lengths = tuple(array("H") for _ in FIELDS)
        self._entries: dict[str, array[int]] = defaultdict(lambda: array("I"))
        self._reader = FieldReader()

    def add(self, specs: Iterable[Spec]) -> None:
        """Add definitions."""
        entries = self._entries
        for spec in specs:
            doc = len(self._names)
            self._names.append(spec.name)
            for field, stems in enumerate(self._reader.read(spec)):
                size = len(stems)
                self._lengths[field].append(min(size, MAX_LENGTH))
                first = (doc << DOC_SHIFT | field << COUNT_BITS) + 1
                once = dict.fromkeys(stems, first)
                if len(once) < size:
                    _add_counts(once, stems, first)
                for stem, entry in once.items():
                    entries[stem].append(entry)

    def build(self) -> Part:
        """Return the part. Add nothing more."""
        return Part(tuple(self._names), self._lengths, dict(self._entries), self._reader.words())


def _add_counts(entries: dict[str, int], stems: Sequence[str], first: int) -> None:
    """Set the count in the entry of each repeated stem."""
    for stem, count in Counter(stems).items():
        if count > 1:
            entries[stem] = first + min(count, MAX_COUNT) - 1


def unpack(entries: Iterable[int], start: int = 0) -> list[tuple[int, int, int]]:
    """Return (tool, field, count) for each entry. Tools are numbered from ``start``."""
    mask = (1 << FIELD_BITS) - 1
    return [
        (start + (entry >> DOC_SHIFT), entry >> COUNT_BITS & mask, entry & MAX_COUNT)
        for entry in entries
    ]
