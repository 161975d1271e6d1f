"""Results that were too long to show: kept, within bounds, to be read by range."""

from __future__ import annotations

from collections import OrderedDict

MAX_STORED = 8 * 1024 * 1024
"""Characters that are kept in all; the oldest results go first."""


class Store:
    """Long texts by the id of the call that gave them."""

    def __init__(self, most: int = MAX_STORED) -> None:
        self._most = most
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._held = 0

    def __len__(self) -> int:
        return len(self._texts)

    def put(self, call_id: str, text: str) -> int:
        """Keep a text, as far as there is room for it; returns how many characters were kept."""
        self._drop(call_id)
        kept = text[: self._most]
        while self._texts and self._held + len(kept) > self._most:
            self._drop(next(iter(self._texts)))
        self._texts[call_id] = kept
        self._held += len(kept)
        return len(kept)

    def get(self, call_id: str) -> str | None:
        """The text of a call, if it is still kept."""
        return self._texts.get(call_id)

    def ids(self) -> tuple[str, ...]:
        """The calls whose texts are kept, oldest first."""
        return tuple(self._texts)

    def _drop(self, call_id: str) -> None:
        self._held -= len(self._texts.pop(call_id, ""))
