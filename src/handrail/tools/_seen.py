"""Which content of a file was seen last: by content, since clocks and dates mislead."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

_MOST = 10_000
"""Files that are remembered."""
_WHOLE = 16 * 1024 * 1024
"""Bytes of content that are kept as they are: to make a digest takes longer than to read them."""


def digest(data: bytes) -> bytes:
    """What stands for a content."""
    return hashlib.sha256(data).digest()


class Seen:
    """The content of each file that was last read or written here, most of them as a digest."""

    def __init__(self) -> None:
        self._whole: OrderedDict[str, bytes] = OrderedDict()
        self._held = 0
        self._digests: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, real: str, data: bytes) -> None:
        """This is what the file holds, and somebody has seen it."""
        with self._lock:
            self._held += len(data) - len(self._whole.pop(real, b""))
            self._whole[real] = data
            self._digests.pop(real, None)
            while self._held > _WHOLE or len(self._whole) > _MOST:
                oldest, content = self._whole.popitem(last=False)
                self._held -= len(content)
                self._digests[oldest] = digest(content)
            if len(self._digests) > _MOST:
                self._digests.popitem(last=False)

    def knows(self, real: str) -> bool:
        """Whether any content of the file was seen."""
        return real in self._whole or real in self._digests

    def current(self, real: str, data: bytes) -> bool:
        """Whether this content is the one that was seen last."""
        with self._lock:
            if real in self._whole:
                return self._whole[real] == data
            return self._digests.get(real) == digest(data)
