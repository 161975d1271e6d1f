"""The resource tree: each node holds the calls a later one may have to wait for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto

from handrail._schedule.access_index import steps
from handrail._values.access import Access
from handrail._values.effect import READ

_MIN_GROUP_ENTRIES = 8
"""Entries at one node, waited for through a group."""


class EntryState(Enum):
    WAITING = auto()
    READY = auto()
    RUNNING = auto()
    OVER = auto()


class ScheduleEntry:
    """A call, or a call group."""

    __slots__ = ("accesses", "followers", "holds", "key", "state", "tool", "waits")

    def __init__(self, key: int, tool: str = "", accesses: Sequence[Access] = ()) -> None:
        self.key = key
        self.tool = tool
        self.accesses = accesses
        self.waits = 0
        """How many entries it waits for."""
        self.holds = 0
        """How many releases it waits for."""
        self.followers: list[ScheduleEntry] = []
        self.state = EntryState.WAITING


GROUP = -1
"""The key for an entry other than a call."""


class ResourceNode:
    """One resource, with the calls a later one may have to wait for."""

    __slots__ = ("below", "readers", "writer", "writers_below")

    def __init__(self) -> None:
        self.writer: ScheduleEntry | None = None
        self.readers: list[ScheduleEntry] = []
        self.below: dict[str, ResourceNode] = {}
        self.writers_below: list[ScheduleEntry] = []


def register(root: ResourceNode, entry: ScheduleEntry, access: Access) -> Iterator[ScheduleEntry]:
    """Register a call's access in the tree. Yields its blockers."""
    reads = access.verb == READ
    node = root
    for step in steps(access.resource):
        yield from _blockers_at(node, entry, reads=reads)
        if not reads:
            node.writers_below.append(entry)
        node = node.below.setdefault(step, ResourceNode())
    yield from _blockers_at(node, entry, reads=reads)
    if reads:
        node.writers_below = _group_entries(node.writers_below, entry)
        yield from node.writers_below
        node.readers.append(entry)
    else:
        yield from _blockers_below(node, entry)
        # later calls wait for this one, and so for all it replaces
        node.writer, node.readers, node.below, node.writers_below = entry, [], {}, []


def _blockers_at(
    node: ResourceNode, entry: ScheduleEntry, *, reads: bool
) -> Iterator[ScheduleEntry]:
    """Yield what an entry at or below a node waits for: the writer and, if it writes, readers."""
    if node.writer is not None and node.writer.state is not EntryState.OVER:
        yield node.writer
    if not reads:
        node.readers = _group_entries(node.readers, entry)
        yield from node.readers


def _blockers_below(node: ResourceNode, entry: ScheduleEntry) -> Iterator[ScheduleEntry]:
    todo = list(node.below.values())
    while todo:
        lower = todo.pop()
        yield from _blockers_at(lower, entry, reads=False)
        todo += lower.below.values()


def _group_entries(entries: list[ScheduleEntry], own: ScheduleEntry) -> list[ScheduleEntry]:
    """Return the open entries, as one group if they are many. Excludes ``own``."""
    others = [other for other in entries if other.state is not EntryState.OVER and other is not own]
    if len(others) >= _MIN_GROUP_ENTRIES:
        group = ScheduleEntry(GROUP)
        group.waits = len(others)
        for other in others:
            other.followers.append(group)
        others = [group]
    # a call with two accesses at one place meets itself
    return [*others, own] if own in entries else others
