"""Indexes: one for each tool set, made on its first search, for all its views."""

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
    """One set's index, and the lock for those waiting for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.index: ToolIndex | None = None


_entries: WeakKeyDictionary[Toolset, _Entry] = WeakKeyDictionary()
_lock = threading.Lock()


def index_of(tools: Toolset, before: Toolset | None = None) -> ToolIndex:
    """Return the index for a set's deferred tools. Call it in a worker thread.

    The index for ``before`` is used for unchanged tools. Threads needing one index make it once.
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
