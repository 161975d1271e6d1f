"""AccessIndex: finds conflicting holders without checking any other."""

from __future__ import annotations

from collections.abc import Sequence

from handrail._values.access import EVERYTHING, Access, territory
from handrail._values.effect import READ


class _Holders:
    """Keys with their access counts, by verb."""

    __slots__ = ("readers", "writers")

    def __init__(self) -> None:
        self.readers: dict[int, int] = {}
        self.writers: dict[int, int] = {}

    def change(self, key: int, access: Access, by: int) -> None:
        counts = self.readers if access.verb == READ else self.writers
        count = counts.get(key, 0) + by
        if count:
            counts[key] = count
        else:
            del counts[key]

    def conflicting(self, access: Access) -> list[int]:
        return [*self.writers] if access.verb == READ else [*self.writers, *self.readers]


class _IndexNode:
    """One resource: who holds it, and who holds something below it."""

    __slots__ = ("at", "below", "children")

    def __init__(self) -> None:
        self.at = _Holders()
        self.below = _Holders()
        self.children: dict[str, _IndexNode] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.children or self.at.readers or self.at.writers)


class AccessIndex:
    """Access holders, by resource. A holder is a number."""

    def __init__(self) -> None:
        self._root = _IndexNode()
        self._held: dict[int, Sequence[Access]] = {}

    def __contains__(self, key: int) -> bool:
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def add(self, key: int, accesses: Sequence[Access]) -> None:
        """Add a holder and its accesses."""
        self._held[key] = accesses
        for access in accesses:
            node = self._root
            for step in steps(access.resource):
                node.below.change(key, access, 1)
                node = node.children.setdefault(step, _IndexNode())
            node.at.change(key, access, 1)

    def remove(self, key: int) -> None:
        """Remove a holder."""
        for access in self._held.pop(key):
            path, node = list[tuple[_IndexNode, str]](), self._root
            for step in steps(access.resource):
                node.below.change(key, access, -1)
                path.append((node, step))
                node = node.children[step]
            node.at.change(key, access, -1)
            # else a node would stay for each file ever touched
            while path and node.is_empty:
                node, step = path.pop()
                del node.children[step]

    def accesses_of(self, key: int) -> Sequence[Access]:
        """Return a holder's accesses."""
        return self._held[key]

    def find(self, accesses: Sequence[Access]) -> list[int]:
        """Return the holders conflicting with these accesses."""
        found: dict[int, None] = {}
        for access in accesses:
            found.update(dict.fromkeys(self._find(access)))
        return list(found)

    def _find(self, access: Access) -> list[int]:
        node = self._root
        found = node.at.conflicting(access)
        for step in steps(access.resource):
            below = node.children.get(step)
            if below is None:
                return found
            node = below
            found += node.at.conflicting(access)
        return found + node.below.conflicting(access)


def steps(resource: str) -> list[str]:
    """Return the steps from the root to a resource."""
    if resource == EVERYTHING:
        return []
    scheme, _, path = territory(resource).partition(":")
    return [scheme, *path.split("/")] if path else [scheme]
