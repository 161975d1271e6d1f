"""An index's parts, made at different times, and each tool's position."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from handrail._search.postings import Part

CHUNK = 256
"""Tools compared together with those in an earlier index."""
MAX_PARTS = 8
"""Parts above which all but the first become one."""


@dataclass(frozen=True, slots=True)
class Segments:
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

    def add(self, part: Part) -> Segments:
        """Return this with one more part."""
        return Segments((*self.parts, part), self.here + b"\1" * len(part.names))

    def without(self, names: Iterable[str]) -> Segments:
        """Return this without some tools. Their words stay in the parts, and are passed over."""
        here = bytearray(self.here)
        for name in names:
            here[self.place(name)] = 0
        return Segments(self.parts, bytes(here))

    def among(self, allowed: Container[str]) -> Segments:
        """Return this with the tools that are allowed."""
        names = (name for part in self.parts for name in part.names)
        pairs = zip(names, self.here, strict=True)
        return Segments(self.parts, bytes(there and name in allowed for name, there in pairs))

    def is_worth_keeping(self) -> bool:
        """Return whether there are few parts, and more tools than gone ones."""
        return len(self.parts) < MAX_PARTS and 2 * self.here.count(0) <= len(self.here)

    def largest(self) -> Segments:
        """Return the first part alone, or nothing if most of its tools are gone."""
        first = self.parts[0]
        here = self.here[: len(first.names)]
        return EMPTY if 2 * here.count(0) > len(here) else Segments((first,), here)


EMPTY = Segments((), b"")


def segments_of(part: Part) -> Segments:
    """Return one part, all of whose tools are there."""
    return EMPTY.add(part)


def same_ends(old: Sequence[object], new: Sequence[object]) -> tuple[int, int]:
    """Return how many items two sequences share at the start, and then at the end."""
    most = min(len(old), len(new))
    start = _count_same(old, new, most, at_end=False)
    return start, _count_same(old, new, most - start, at_end=True)


def _count_same(old: Sequence[object], new: Sequence[object], most: int, *, at_end: bool) -> int:
    """Return how many items two sequences share: whole chunks first, then one by one.

    Nothing is copied but a chunk. In a large catalogue, touching every definition costs most.
    """
    same = 0
    for size in (CHUNK, 1):
        while same + size <= most:
            starts = [len(items) - same - size if at_end else same for items in (old, new)]
            if old[starts[0] : starts[0] + size] != new[starts[1] : starts[1] + size]:
                break
            same += size
    return same
