"""Remembers the content of each file that was read or written last; timestamps are unreliable."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

_MAX_FILES = 10_000
"""Files that are remembered."""
_MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""Bytes of content that are kept in full, because computing a digest takes longer."""


def digest(data: bytes) -> bytes:
    """Return the digest of a content."""
    return hashlib.sha256(data).digest()


class SeenContents:
    """The content of each file that was last read or written here, mostly as a digest."""

    def __init__(self) -> None:
        self._whole: OrderedDict[str, bytes] = OrderedDict()
        self._held = 0
        self._digests: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, real: str, data: bytes) -> None:
        """Record that this content of the file was read or written."""
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
        """Return whether any content of the file was seen."""
        return real in self._whole or real in self._digests

    def current(self, real: str, data: bytes) -> bool:
        """Return whether this content is the one that was seen last."""
        with self._lock:
            if real in self._whole:
                return self._whole[real] == data
            return self._digests.get(real) == digest(data)
