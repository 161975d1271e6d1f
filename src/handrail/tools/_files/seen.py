"""Remembers each file's last read or written content; timestamps are unreliable."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

_MAX_FILES = 10_000
"""Files remembered."""
_MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""Content bytes kept in full, because computing a digest takes longer."""


def digest(data: bytes) -> bytes:
    """Return a content's digest."""
    return hashlib.sha256(data).digest()


class SeenContents:
    """Each file's last content here, mostly as a digest."""

    def __init__(self) -> None:
        self._whole: OrderedDict[str, bytes] = OrderedDict()
        self._held = 0
        self._digests: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, real: str, data: bytes) -> None:
        """Record that this file content was read or written."""
        with self._lock:
            self._held += len(data) - len(self._whole.pop(real, b""))
            self._whole[real] = data
            self._digests.pop(real, None)
            while self._held > _MAX_WHOLE_BYTES or len(self._whole) > _MAX_FILES:
                oldest, content = self._whole.popitem(last=False)
                self._held -= len(content)
                self._digests[oldest] = digest(content)
            if len(self._digests) > _MAX_FILES:
                self._digests.popitem(last=False)

    def knows(self, real: str) -> bool:
        """Return whether the file was seen, in any version."""
        return real in self._whole or real in self._digests

    def current(self, real: str, data: bytes) -> bool:
        """Return whether this content is the one seen last."""
        with self._lock:
            if real in self._whole:
                return self._whole[real] == data
            return self._digests.get(real) == digest(data)
