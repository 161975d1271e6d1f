"""Remembers the file contents a question showed. An approval covers changing one content."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TypeVar

from handrail import Context, ToolFailed
from handrail.tools._files.seen import digest

K = TypeVar("K")
T = TypeVar("T")

_MAX_KEPT = 1_000
"""Remembered calls and written files."""


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
