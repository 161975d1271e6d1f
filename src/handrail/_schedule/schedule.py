"""The schedule: which call can start when. Pure bookkeeping, without clocks or tasks.

Calls arrive in the model's order. A call waits for exactly those earlier ones whose accesses
conflict with its own, and for a free slot. It can start as soon as the last one has ended.

Resources are a tree. Each node holds the calls a later one may have to wait for. A writer
replaces every earlier call at or below its resource: it already waits for them, so later calls wait
only for the writer. So a node holds few calls, and adding a call takes about as long as its
resources are deep. Many calls at one node form a group: one entry that ends when all have
ended. This happens if a thousand files are written, and then all are listed, again and again.

An inner call has no place in this order. While it runs, its accesses are lent: a call that
conflicts with them is not started before they are returned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from handrail._schedule.access_index import AccessIndex
from handrail._schedule.resource_tree import (
    GROUP,
    EntryState,
    ResourceNode,
    ScheduleEntry,
    register,
)
from handrail._values.access import Access
from handrail._values.effect import READ, Effect

MAX_RUNNING = 128
_MAX_STALE_ACCESSES = 10_000
"""Ended calls' accesses allowed in the tree before rebuilding it."""


class Schedule:  # not in waves, which wait for their slowest call: decision 012
    """The open calls, and each one's blockers."""

    def __init__(
        self,
        *,
        max_running: int = MAX_RUNNING,
        max_per_tool: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.max_running = max_running
        self.max_per_tool = dict(max_per_tool)
        self.open = 0
        """How many calls are open."""
        self._root = ResourceNode()
        self._registered = 0
        """Open calls' accesses in the tree."""
        self._stale = 0
        """Ended calls' accesses in the tree."""
        self._is_outdated = False
        """Whether a waiting call was dropped through which others waited for earlier ones."""
        self._entries: dict[int, ScheduleEntry] = {}
        self._running: dict[str, int] = {}
        self._count = 0
        self._ready: deque[ScheduleEntry] = deque()
        self._parked: dict[str, deque[ScheduleEntry]] = {}
        self._unregistered: dict[int, tuple[str, Sequence[Access]]] = {}
        """Running calls, started at once, outside the tree so far."""
        self._only_reads = True
        """Whether these only read."""
        self._held: AccessIndex | None = None
        """All running accesses. Only once inner calls have been made."""
        self._lent: dict[int, int] = {}
        """The running inner calls, and the outer calls they belong to."""
        self._suspended: dict[int, list[ScheduleEntry]] = {}
        """Ready calls waiting for lent accesses, by the holding inner call."""

    def start_now(self, key: int, tool: str, accesses: Sequence[Access], effect: Effect) -> bool:
        """Start a call at once if it is alone, or reads among readers. Else returns False."""
        # slots are counted for entries only
        if self._entries or self._count >= self.max_running or tool in self.max_per_tool:
            return False
        if self._unregistered and not (effect is READ and self._only_reads):
            return False
        self._only_reads = effect is READ
        self._count += 1
        self.open += 1
        self._unregistered[key] = (tool, accesses)
        return True

    def add(
        self, key: int, tool: str, accesses: Sequence[Access], *, held: int = 0
    ) -> tuple[int, ...]:
        """Add a call, and return the calls it waits for. ``held`` counts releases."""
        self._settle()
        self.open += 1
        entry = ScheduleEntry(key, tool, accesses)
        entry.holds = held
        blockers = self._enter(entry)
        self._entries[key] = entry
        self._ready_or_not(entry)
        earlier = [blocker.key for blocker in blockers if blocker.key != GROUP]
        return tuple(dict.fromkeys([*earlier, *self._lenders(entry)]))

    def _settle(self) -> None:
        """Register the immediately started calls in the tree, since others may have to wait."""
        for key, (tool, accesses) in self._unregistered.items():
            entry = ScheduleEntry(key, tool, accesses)
            entry.state = EntryState.RUNNING
            self._running[tool] = self._running.get(tool, 0) + 1
            self._enter(entry)
            self._entries[key] = entry
            if self._held is not None:
                self._held.add(key, accesses)
        self._unregistered.clear()

    def release(self, key: int) -> None:
        """Release a held call, once."""
        entry = self._entries[key]
        entry.holds -= 1
        self._ready_or_not(entry)

    def amend(self, key: int, accesses: Sequence[Access]) -> None:
        """Change a waiting call's accesses. It keeps its place, behind all running calls."""
        self._settle()
        if accesses == self._entries[key].accesses:
            return
        self._entries[key].accesses = accesses
        self._reorder()

    def advance(self, key: int) -> tuple[int, ...]:
        """Move a call before all unstarted ones. Returns the calls it waits for."""
        entry = self._entries.pop(key)
        self._entries = {key: entry, **self._entries}
        self._reorder()
        return self._blockers_of(entry)

    def extend(self, key: int, accesses: Sequence[Access]) -> None:
        """Change a running call's or an inner call's accesses. No running call conflicts."""
        index = self._index()
        index.remove(key)
        index.add(key, accesses)
        if key not in self._lent:
            self._entries[key].accesses = accesses
            self._reorder()

    def is_behind(self, key: int, accesses: Sequence[Access]) -> bool:
        """Return whether an earlier unstarted call conflicts with these accesses."""
        return any(
            entry.state is not EntryState.RUNNING
            and entry.key < key
            and any(access.conflicts(other) for access in entry.accesses for other in accesses)
            for entry in self._entries.values()
        )

    def restart(self, key: int, accesses: Sequence[Access]) -> tuple[int, ...]:
        """Let a running call wait again, with these accesses, and before all later calls.

        Returns the calls it waits for.
        """
        self._index().remove(key)
        entry = self._entries.pop(key)
        entry.state, entry.accesses = EntryState.WAITING, accesses
        self._count -= 1
        self._running[entry.tool] -= 1
        others = list(self._entries.values())
        is_later = [other.state is not EntryState.RUNNING and other.key > key for other in others]
        place = is_later.index(True) if True in is_later else len(others)
        others.insert(place, entry)
        self._entries = {other.key: other for other in others}
        self._reorder()
        return self._blockers_of(entry)

    def _blockers_of(self, entry: ScheduleEntry) -> tuple[int, ...]:
        blockers = [key for key, before in self._entries.items() if entry in before.followers]
        return tuple(dict.fromkeys([*blockers, *self._lenders(entry)]))

    def _reorder(self) -> None:
        """Put started calls before the others, and keep the order within both."""
        self._ready.clear()
        self._parked.clear()
        self._suspended.clear()
        for entry in self._entries.values():
            # another order may give it something to wait for
            if entry.state is EntryState.READY:
                entry.state = EntryState.WAITING
        in_order = sorted(
            self._entries.items(), key=lambda item: item[1].state is EntryState.WAITING
        )
        self._entries = dict(in_order)
        self._rebuild()

    def conflicting(self, accesses: Sequence[Access]) -> list[int]:
        """Return the calls one with these accesses would have to wait for."""
        self._settle()
        lenders = [self._lent.get(key) for key in self.running(accesses)] if self._lent else []
        return [
            key
            for key, entry in self._entries.items()
            if key in lenders
            or any(access.conflicts(other) for access in entry.accesses for other in accesses)
        ]

    def find_conflict(self, accesses: Sequence[Access], keys: Sequence[int]) -> str:
        """Return one call's resource conflicting with the accesses; else empty."""
        used = [other for key in keys for other in self._entries[key].accesses]
        for inner, outer in self._lent.items():
            used += self._index().accesses_of(inner) if outer in keys else ()
        return next((other.resource for other in used if any(map(other.conflicts, accesses))), "")

    # -- inner calls ------------------------------------------------------------------------------

    def running(self, accesses: Sequence[Access]) -> list[int]:
        """Return the running calls conflicting with these accesses, with inner ones."""
        return self._index().find(accesses)

    def lend(self, key: int, inner: int, tool: str, accesses: Sequence[Access]) -> None:
        """Record a started inner call. It takes a tool slot."""
        self._index().add(inner, accesses)
        self._lent[inner] = key
        self._running[tool] = self._running.get(tool, 0) + 1

    def take_back(self, inner: int, tool: str) -> None:
        """Record an ended inner call. Its waiting calls may start."""
        self._index().remove(inner)
        del self._lent[inner]
        # they were first in line
        self._ready.extendleft(reversed(self._suspended.pop(inner, [])))
        self._running[tool] -= 1
        self._unpark(tool)

    def _index(self) -> AccessIndex:
        self._settle()
        if self._held is None:
            self._held = AccessIndex()
            for key, entry in self._entries.items():
                if entry.state is EntryState.RUNNING:
                    self._held.add(key, entry.accesses)
        return self._held

    def drop_accesses(self, key: int) -> None:
        """Record a call with only inner calls still running. They keep its slots."""
        self._settle()
        entry = self._entries[key]
        # a new entry: those waiting for the old one may start
        rest = self._entries[key] = ScheduleEntry(key, entry.tool)
        rest.state = EntryState.RUNNING
        self._forget(entry)

    def _lenders(self, entry: ScheduleEntry) -> dict[int, int]:
        """Return the outer calls whose inner calls block a call, each with such an inner call."""
        if not self._lent:
            return {}
        lent = [(self._lent.get(inner, entry.key), inner) for inner in self.running(entry.accesses)]
        return {outer: inner for outer, inner in lent if outer != entry.key}

    def is_full(self, tool: str) -> bool:
        """Return whether all tool slots are taken."""
        return tool in self.max_per_tool and self._running.get(tool, 0) >= self.max_per_tool[tool]

    def startable(self) -> list[int]:
        """Return the ready calls in order, as running."""
        if self._is_outdated:
            self._rebuild()
        started: list[int] = []
        while self._ready and self._count < self.max_running:
            entry = self._ready.popleft()
            if entry.state is not EntryState.READY:
                continue  # it ended before it began
            if lenders := self._lenders(entry):
                # one is enough: when it ends, the next is found here
                self._suspended.setdefault(next(iter(lenders.values())), []).append(entry)
                continue
            running = self._running.get(entry.tool, 0)
            if running >= self.max_per_tool.get(entry.tool, self.max_running):
                self._parked.setdefault(entry.tool, deque[ScheduleEntry]()).append(entry)
                continue
            entry.state = EntryState.RUNNING
            self._running[entry.tool] = running + 1
            self._count += 1
            if self._held is not None:
                self._held.add(entry.key, entry.accesses)
            started.append(entry.key)
        return started

    def end(self, key: int) -> None:
        """Remove a call that ended or will never start."""
        self.open -= 1
        if self._unregistered.pop(key, None) is not None:
            self._count -= 1
            return
        entry = self._entries.pop(key)
        if entry.state is EntryState.RUNNING:
            self._count -= 1
            self._running[entry.tool] -= 1
        self._forget(entry)
        self._unpark(entry.tool)
        if not self._entries:
            self._clear()  # no call is left
            # few executors need it, and it costs each call
            self._held = None if not self._lent else self._held

    def _forget(self, entry: ScheduleEntry) -> None:
        """Drop an entry's accesses, so others can start."""
        self._registered -= len(entry.accesses)
        self._stale += len(entry.accesses)
        if self._held is not None and entry.key in self._held:
            self._held.remove(entry.key)
        if entry.waits:
            # others may wait for earlier calls only through this one
            entry.state, self._is_outdated = EntryState.OVER, True
        else:
            self._over(entry)

    def _clear(self) -> None:
        self._root, self._registered, self._stale, self._is_outdated = ResourceNode(), 0, 0, False

    def _unpark(self, tool: str) -> None:
        """Assign a free tool slot to the next waiting call."""
        parked = self._parked.get(tool, ())
        while parked:
            entry = parked.popleft()
            if entry.state is EntryState.READY:
                self._ready.appendleft(entry)
                break

    def _ready_or_not(self, entry: ScheduleEntry) -> None:
        if entry.state is EntryState.WAITING and not entry.waits and not entry.holds:
            entry.state = EntryState.READY
            self._ready.append(entry)

    def _over(self, entry: ScheduleEntry) -> None:
        # a loop: groups can form a chain longer than the stack
        todo = [entry]
        while todo:
            done = todo.pop()
            done.state = EntryState.OVER
            for follower in done.followers:
                follower.waits -= 1
                if follower.key != GROUP:
                    self._ready_or_not(follower)
                elif not follower.waits:
                    todo.append(follower)

    def _enter(self, entry: ScheduleEntry) -> list[ScheduleEntry]:
        """Register a call at every resource it touches. Returns what it must wait for."""
        # a rebuild costs as much as the open calls, so as many end before one
        if self._is_outdated or self._stale > max(_MAX_STALE_ACCESSES, self._registered):
            self._rebuild()
        self._registered += len(entry.accesses)
        blockers: dict[ScheduleEntry, None] = {}
        for access in entry.accesses:
            blockers.update(dict.fromkeys(register(self._root, entry, access)))
        blockers.pop(entry, None)
        entry.waits = len(blockers)
        for blocker in blockers:
            blocker.followers.append(entry)
        return list(blockers)

    def _rebuild(self) -> None:
        """Rebuild the tree from the open calls."""
        self._clear()
        for entry in self._entries.values():
            entry.followers = []
        for entry in self._entries.values():
            self._enter(entry)
            self._ready_or_not(entry)
