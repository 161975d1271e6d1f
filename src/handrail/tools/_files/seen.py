"""Remembers file contents: those last read or written, and those a question showed."""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TypeVar

from handrail import Context, ToolFailed

_MAX_FILES = 10_000
"""Files remembered."""
_MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""Content bytes kept in full, because computing a digest takes longer."""
K = TypeVar("K")
T = TypeVar("T")
_MAX_KEPT = 1_000
"""Remembered calls and written files."""


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


class ShownContents:
    """Contents shown by questions, and contents tools have written since."""

    def __init__(self) -> None:
        self._shown: OrderedDict[str, tuple[int, dict[str, bytes | None]]] = OrderedDict()
        self._written: OrderedDict[str, tuple[int, bytes | None]] = OrderedDict()
        self._count = itertools.count()
        self._lock = threading.Lock()

    def note(self, key: str, contents: Mapping[str, bytes | None]) -> None:
        """Record the files the last question about a call shows. The key is the call's.

        If the question says that the call would fail, there may be none.
        """
        digests = {real: data and digest(data) for real, data in contents.items()}
        self._keep(self._shown, key, digests)

    def note_written(self, real: str, data: bytes | None) -> None:
        """Record what a tool has written; None if it has removed the file."""
        self._keep(self._written, real, data and digest(data))

    def _keep(self, kept: OrderedDict[K, tuple[int, T]], key: K, value: T) -> None:
        with self._lock:
            kept.pop(key, None)
            kept[key] = next(self._count), value
            if len(kept) > _MAX_KEPT:
                kept.popitem(last=False)

    def check(self, context: Context, real: str, data: bytes | None) -> None:
        """Raise ToolFailed if an approved call would change another content than was shown.

        Another call may have changed the file since: it was decided, too. A call approved
        in another process has no record here.
        """
        noted = self._shown.get(context.idempotency_key)
        if noted is None or not context.is_approved:
            return
        (shown_at, shown), now = noted, data and digest(data)
        written_at, written = self._written.get(real, (-1, None))
        is_shown = real in shown and shown[real] == now
        if not is_shown and not (written_at > shown_at and written == now):
            raise ToolFailed(
                f"Not changed: {real!r} changed after the user was asked. Read it, then call again."
            )
