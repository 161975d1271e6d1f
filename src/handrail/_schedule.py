"""Which call may start when: pure bookkeeping, no clock, no task.

Calls come in the model's order. One waits for exactly those earlier ones whose accesses conflict
with its own, and for a free place; it may start the moment the last of them has ended.

Resources are a tree. At each place stand the calls that a later one might have to wait for: once a
call that is no read has come to a place, it stands there for all that came before it at or below
that place, since it waits for them itself. So a place holds few, and adding a call costs about as
much as its resources are deep. Where many stand side by side (a thousand files written, then all of
them listed, again and again), they are tied in a knot, an entry of its own that ends when they do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from types import MappingProxyType

from handrail._access import EVERYTHING, Access, territory
from handrail._effect import READ

MAX_RUNNING = 128
_KNOT_FROM = 8
"""So many that stand on one place are waited for through a knot."""
_PRUNE_AFTER = 10_000
"""So many accesses of calls that have ended may stand in the tree before it is cleared of them."""


class _State(Enum):
    WAITING = auto()
    READY = auto()
    RUNNING = auto()
    OVER = auto()


class _Entry:
    """A call, or a knot of calls."""

    __slots__ = ("accesses", "followers", "holds", "key", "state", "tool", "waits")

    def __init__(self, key: int, tool: str = "", accesses: Sequence[Access] = ()) -> None:
        self.key = key
        self.tool = tool
        self.accesses = accesses
        self.waits = 0
        """For how many others."""
        self.holds = 0
        """For how many releases."""
        self.followers: list[_Entry] = []
        self.state = _State.WAITING


_KNOT = -1
"""The key of what is no call."""


class _Place:
    """One resource, with whom a later call there may have to wait for."""

    __slots__ = ("below", "readers", "writer", "writers_below")

    def __init__(self) -> None:
        self.writer: _Entry | None = None
        self.readers: list[_Entry] = []
        self.below: dict[str, _Place] = {}
        self.writers_below: list[_Entry] = []


class Schedule:
    """The calls that have not ended, and who waits for whom."""

    def __init__(
        self, *, most: int = MAX_RUNNING, most_of: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self.most = most
        self.most_of = most_of
        self.open = 0
        """How many calls have not ended."""
        self._root = _Place()
        self._standing = 0
        """Accesses in the tree of calls that have not ended; and of those that have."""
        self._stale = 0
        self._torn = False
        """Whether a call was given up through which others waited."""
        self._entries: dict[int, _Entry] = {}
        self._running: dict[str, int] = {}
        self._count = 0
        self._ready: deque[_Entry] = deque()
        self._parked: dict[str, deque[_Entry]] = {}
        self._loose: dict[int, tuple[str, Sequence[Access]]] = {}
        """Running calls that only read, and came when nobody else did: not in the tree yet."""

    def read_now(self, key: int, tool: str, accesses: Sequence[Access]) -> bool:
        """Let a call that only reads run at once, if all that run only read too; else say no."""
        if self._entries or self._count >= self.most or tool in self.most_of:
            return False
        self._count += 1
        self.open += 1
        self._loose[key] = (tool, accesses)
        return True

    def add(
        self, key: int, tool: str, accesses: Sequence[Access], *, held: int = 0
    ) -> tuple[int, ...]:
        """Take a call in, and say which it waits for; one that is held waits for releases too."""
        for loose in list(self._loose):
            self.settle(loose)
        self.open += 1
        entry = _Entry(key, tool, accesses)
        entry.holds = held
        blockers = self._enter(entry)
        self._entries[key] = entry
        self._ready_or_not(entry)
        return tuple(one.key for one in blockers if one.key != _KNOT)

    def settle(self, key: int) -> None:
        """Give a call that was let run at once its place in the tree: somebody may have to wait."""
        if key not in self._loose:
            return
        tool, accesses = self._loose.pop(key)
        entry = _Entry(key, tool, accesses)
        entry.state = _State.RUNNING
        self._running[tool] = self._running.get(tool, 0) + 1
        self._enter(entry)
        self._entries[key] = entry

    def release(self, key: int) -> None:
        """A call that was held waits for one release less."""
        entry = self._entries[key]
        entry.holds -= 1
        self._ready_or_not(entry)

    def amend(self, key: int, accesses: Sequence[Access]) -> None:
        """A call that has not started will touch something else; it keeps its place in the order.

        Those that run have begun before it, whatever their place was.
        """
        if accesses == self._entries[key].accesses:
            return
        self._entries[key].accesses = accesses
        self._ready.clear()
        self._parked.clear()
        for entry in self._entries.values():
            if entry.state is _State.READY:
                entry.state = _State.WAITING
        in_order = sorted(self._entries.items(), key=lambda one: one[1].state is _State.WAITING)
        self._entries = dict(in_order)
        self._rebuild()

    def conflicting(self, accesses: Sequence[Access]) -> list[int]:
        """The calls under way that one with these accesses would have to wait for."""
        for loose in list(self._loose):
            self.settle(loose)
        return [
            key
            for key, entry in self._entries.items()
            if any(one.conflicts(other) for one in entry.accesses for other in accesses)
        ]

    def startable(self) -> list[int]:
        """The calls that may start now, in the order they became ready; they count as running."""
        if self._torn:
            self._rebuild()
        started: list[int] = []
        while self._ready and self._count < self.most:
            entry = self._ready.popleft()
            if entry.state is not _State.READY:
                continue  # it ended before it began
            running = self._running.get(entry.tool, 0)
            if running >= self.most_of.get(entry.tool, self.most):
                self._parked.setdefault(entry.tool, deque()).append(entry)
                continue
            entry.state = _State.RUNNING
            self._running[entry.tool] = running + 1
            self._count += 1
            started.append(entry.key)
        return started

    def end(self, key: int) -> None:
        """A call has ended, or will never start; those that waited for it wait for one less."""
        self.open -= 1
        if self._loose.pop(key, None) is not None:
            self._count -= 1
            return
        entry = self._entries.pop(key)
        self._standing -= len(entry.accesses)
        self._stale += len(entry.accesses)
        if entry.state is _State.RUNNING:
            self._count -= 1
            self._running[entry.tool] -= 1
        if entry.waits:
            # Others may have waited for those before it only through it.
            entry.state, self._torn = _State.OVER, True
        else:
            self._over(entry)
        self._unpark(entry.tool)
        if not self._entries:
            self._clear()  # nobody is left to wait for

    def _clear(self) -> None:
        self._root, self._standing, self._stale, self._torn = _Place(), 0, 0, False

    def _unpark(self, tool: str) -> None:
        """One of a tool's calls has ended: the next may have its place."""
        parked = self._parked.get(tool, ())
        while parked:
            one = parked.popleft()
            if one.state is _State.READY:
                self._ready.appendleft(one)
                break

    def _ready_or_not(self, entry: _Entry) -> None:
        if entry.state is _State.WAITING and not entry.waits and not entry.holds:
            entry.state = _State.READY
            self._ready.append(entry)

    def _over(self, entry: _Entry) -> None:
        todo = [entry]
        while todo:
            done = todo.pop()
            done.state = _State.OVER
            for follower in done.followers:
                follower.waits -= 1
                if follower.key != _KNOT:
                    self._ready_or_not(follower)
                elif not follower.waits:
                    todo.append(follower)

    def _enter(self, entry: _Entry) -> list[_Entry]:
        """Stand at every place that a call touches; returns whom it must wait for."""
        if self._torn or self._stale > max(_PRUNE_AFTER, self._standing):
            self._rebuild()
        self._standing += len(entry.accesses)
        blockers: dict[_Entry, None] = {}
        for access in entry.accesses:
            blockers.update(dict.fromkeys(self._stand(entry, access)))
        blockers.pop(entry, None)
        entry.waits = len(blockers)
        for blocker in blockers:
            blocker.followers.append(entry)
        return list(blockers)

    def _rebuild(self) -> None:
        """Work out anew who waits for whom, from those that have not ended."""
        self._clear()
        for entry in self._entries.values():
            entry.followers = []
        for entry in self._entries.values():
            self._enter(entry)
            self._ready_or_not(entry)

    def _stand(self, entry: _Entry, access: Access) -> Iterator[_Entry]:
        reads = access.verb == READ
        place = self._root
        for step in _steps(access.resource):
            yield from _standing(place, entry, reads=reads)
            if not reads:
                place.writers_below.append(entry)
            place = place.below.setdefault(step, _Place())
        yield from _standing(place, entry, reads=reads)
        if reads:
            place.writers_below = _tied(place.writers_below, entry)
            yield from place.writers_below
            place.readers.append(entry)
        else:
            yield from _everyone_below(place, entry)
            place.writer, place.readers, place.below, place.writers_below = entry, [], {}, []


def _standing(place: _Place, entry: _Entry, *, reads: bool) -> Iterator[_Entry]:
    """Whom one that comes to or past a place waits for: the writer; the readers, if it writes."""
    if place.writer is not None and place.writer.state is not _State.OVER:
        yield place.writer
    if not reads:
        place.readers = _tied(place.readers, entry)
        yield from place.readers


def _everyone_below(place: _Place, entry: _Entry) -> Iterator[_Entry]:
    todo = list(place.below.values())
    while todo:
        one = todo.pop()
        yield from _standing(one, entry, reads=False)
        todo += one.below.values()


def _tied(entries: list[_Entry], own: _Entry) -> list[_Entry]:
    """Those that are not over; tied in a knot if they are many, but not with the one who waits."""
    others = [one for one in entries if one.state is not _State.OVER and one is not own]
    if len(others) >= _KNOT_FROM:
        knot = _Entry(_KNOT)
        knot.waits = len(others)
        for one in others:
            one.followers.append(knot)
        others = [knot]
    return [*others, own] if own in entries else others


def _steps(resource: str) -> list[str]:
    """From the root of all resources down to one."""
    if resource == EVERYTHING:
        return []
    scheme, _, path = territory(resource).partition(":")
    return [scheme, *path.split("/")] if path else [scheme]
