"""Words of the pages: times, durations and counts. Units stay with their numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from handrail.console.shown import Clear

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_SPACE = "\u00a0"
_MINUTE = 60
_SMALL_SECONDS = 10
STATUSES: Mapping[str, tuple[str, str]] = {
    "running": ("accent", "▸ running"),
    "pending": ("ask", "? waiting"),
    "waiting": ("ask", "? waiting"),
    "answer": ("ok", "✓ done"),
    "done": ("ok", "✓ done"),
    "ok": ("ok", "✓ ok"),
    "denied": ("bad", "⊘ denied"),
    "failed": ("bad", "✗ failed"),
    "limit": ("warn", "! limit"),
    "interrupted": ("warn", "! interrupted"),
    "cancelled": ("warn", "! cancelled"),
    "stopped": ("warn", "! stopped"),
    "unknown": ("warn", "! unknown"),
}
"""How a status looks, and its words. Others are shown as they are recorded."""


def duration(seconds: float) -> Clear:
    """Return a duration in one unit, or in minutes and seconds."""
    size = abs(seconds)
    for unit, name in _UNITS[:2]:
        if size >= unit:
            return Clear(f"{int(size // unit)}{_SPACE}{name}")
    if size >= _MINUTE:
        return Clear(f"{int(size // _MINUTE)}{_SPACE}min")
    return Clear(f"{size:.1f}{_SPACE}s" if size < _SMALL_SECONDS else f"{size:.0f}{_SPACE}s")


def spaced(text: Clear) -> str:
    """Return a text without its fixed spaces, for a sentence with text from outside."""
    return text.replace(_SPACE, " ")


def left(seconds: float) -> Clear:
    """Return how much time is left."""
    if seconds == math.inf:
        return Clear("no limit")
    return Clear(f"{duration(seconds)} left" if seconds > 0 else "expired")


def ago(seconds: float) -> Clear:
    """Return how long ago something was."""
    return Clear(f"{duration(max(0.0, seconds))} ago")


def moment(at: float) -> Clear:
    """Return a time with its zone."""
    if not 0 < at < 1e11:  # noqa: PLR2004  the journal holds nothing else
        return Clear("unknown time")
    return Clear(f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC")


def short_moment(at: float) -> Clear:
    """Return a time without its seconds."""
    return Clear(moment(at)[5:16])


def count(number: int, one: str, several: str = "") -> Clear:
    """Return a number with its noun."""
    return Clear(f"{number:,}{_SPACE}{one if number == 1 else several or f'{one}s'}")


def status(word: str) -> tuple[Clear, Clear]:
    """Return how a status looks, and its words."""
    look, text = STATUSES.get(word, ("bad" if word else "muted", ""))
    return Clear(look), Clear(text)
