"""Keeps the earlier content of changed files, by call id and within a limit, for undo."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

_MAX_BYTES = 64 * 1024 * 1024
_OVERHEAD_BYTES = 1024
"""Bytes of an entry in addition to its content."""


class UndoEntry(NamedTuple):
    """One file that a call changed."""

    real: str
    before: bytes | None
    """The earlier content; None if the file did not exist."""
    after: bytes
    """The digest of the new content; empty if the file was deleted."""
    others: tuple[UndoEntry, ...] = ()
    """The other files that the same call changed."""

    @property
    def size(self) -> int:
        """The approximate number of bytes that the entry takes."""
        mine = len(self.before or b"") + len(self.real) + _OVERHEAD_BYTES
        return mine + sum(other.size for other in self.others)


class UndoLog:
    """The changes of the latest calls. Above the limit, the oldest are dropped."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._changes: OrderedDict[str, UndoEntry] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def put(self, call_id: str, change: UndoEntry) -> None:
        """Keep a change until newer ones need its space."""
        with self._lock:
            self._drop(call_id)
            self._changes[call_id] = change
            self._held += change.size
            while self._held > self._max_bytes:
                self._drop(next(iter(self._changes)))

    def get(self, call_id: str) -> UndoEntry | None:
        """Return the change that a call made, or None if it is no longer kept."""
        return self._changes.get(call_id)

    def drop(self, call_id: str) -> None:
        """Forget a change that was undone."""
        with self._lock:
            self._drop(call_id)

    def ids(self) -> tuple[str, ...]:
        """Return the calls that can be undone, oldest first."""
        return tuple(self._changes)

    def _drop(self, call_id: str) -> None:
        dropped = self._changes.pop(call_id, None)
        if dropped is not None:
            self._held -= dropped.size
