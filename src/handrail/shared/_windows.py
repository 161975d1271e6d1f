"""The windows of a budget: days and months in UTC, or seconds."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

Window: TypeAlias = Literal["day", "month"] | float
"""A day or a month in UTC, or seconds."""


class Period(NamedTuple):
    """From when to when a window lasts, in seconds since 1970."""

    began: float
    ends: float


def find_period(window: Window, now: float) -> Period:
    """Return the window a time is in."""
    if isinstance(window, str):
        today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        if window == "day":
            return Period(today.timestamp(), (today + timedelta(days=1)).timestamp())
        first = today.replace(day=1)
        after = (first + timedelta(days=31)).replace(day=1)
        return Period(first.timestamp(), after.timestamp())
    began = math.floor(now / window) * window
    return Period(began, began + window)


def check_window(window: object) -> None:
    """Raise ValueError for anything but a window."""
    is_valid = window in ("day", "month")
    if isinstance(window, int | float) and not isinstance(window, bool):
        is_valid = 0 < window < math.inf
    if not is_valid:
        raise ValueError(f"Budget(window={window!r}): pass 'day', 'month' or seconds.")


def describe_window(window: Window) -> str:
    """Return a window as a word."""
    return window if isinstance(window, str) else f"{window:g} s"


def describe_time(at: float) -> str:
    """Return a time for a message, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
