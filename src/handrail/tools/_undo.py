"""What is needed to undo a change, by the id of the call that made it; kept within bounds."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

_MOST_BYTES = 64 * 1024 * 1024
_OVERHEAD = 1024
"""Bytes of an entry besides its content."""


class Changed(NamedTuple):
    """One file that a call changed."""

    real: str
    before: bytes | None
    """What it held; None where it was not there."""
    after: bytes
    """A digest of what it holds since."""

    @property
    def size(self) -> int:
        """What it costs to keep, roughly."""
        return len(self.before or b"") + len(self.real) + _OVERHEAD


class Changes:
    """The changes of the latest calls; the oldest go first when there are too many bytes."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._changes: OrderedDict[str, Changed] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def put(self, call_id: str, change: Changed) -> None:
        """Keep a change, as long as there is room for it."""
        with self._lock:
            self._drop(call_id)
            self._changes[call_id] = change
            self._held += change.size
            while self._held > self._most:
                self._drop(next(iter(self._changes)))

    def get(self, call_id: str) -> Changed | None:
        """The change that a call made, if it is still kept."""
        return self._changes.get(call_id)

    def drop(self, call_id: str) -> None:
        """Forget a change: it was undone."""
        with self._lock:
            self._drop(call_id)

    def ids(self) -> tuple[str, ...]:
        """The calls that can be undone, oldest first."""
        return tuple(self._changes)

    def _drop(self, call_id: str) -> None:
        gone = self._changes.pop(call_id, None)
        if gone is not None:
            self._held -= gone.size
