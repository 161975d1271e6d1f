"""Indexes: one for each set of tools, made when it is first searched, for all views of it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from weakref import WeakKeyDictionary

import anyio

from handrail._collection.toolset import Toolset
from handrail._search.index import ToolIndex
from handrail._values.effect import Exposure
from handrail._values.spec import Spec


class _Entry:
    """The index of one set, and the lock of those who wait for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.index: ToolIndex | None = None


_entries: WeakKeyDictionary[Toolset, _Entry] = WeakKeyDictionary()
_lock = threading.Lock()


def index_of(tools: Toolset, before: Toolset | None = None) -> ToolIndex:
    """Return the index of the deferred tools of a set. Call it in a worker thread.

    The index of ``before`` is used for tools that have not changed. Threads that need one index
    make it once.
    """
    with _lock:
        entry = _entries.setdefault(tools, _Entry())
        old = None if before is None else _entries.get(before)
    with entry.lock:
        if entry.index is None:
            specs = [spec for spec in tools.specs if spec.exposure is Exposure.DEFERRED]
            entry.index = _make_index(specs, old.index if old is not None else None)
        return entry.index


def _make_index(specs: Sequence[Spec], old: ToolIndex | None) -> ToolIndex:
    if old is None:
        return ToolIndex.of(specs)
    return anyio.run(partial(ToolIndex.build, specs, reuse=old))
