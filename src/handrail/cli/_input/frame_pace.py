"""The time between frames showing news.

It is long enough for keys: a key is shown at once, unless another frame is being drawn.
"""

from __future__ import annotations

import time

_MIN_SECONDS = 1 / 20
"""Seconds between two frames with news."""
_MAX_SECONDS = 0.25
_PAUSES = 6
"""How many times as long as a frame the time after it is: on a busy machine, frames take longer."""


class FramePace:
    """When the next frame with news is due."""

    def __init__(self) -> None:
        self._began = self._ended = time.monotonic() - _MAX_SECONDS

    def begin(self) -> None:
        """Note a frame's start."""
        self._began = time.monotonic()

    def end(self) -> None:
        """Note a frame's end."""
        self._ended = time.monotonic()

    def count_seconds(self) -> float:
        """Return how long the next frame with news waits."""
        pause = _PAUSES * (self._ended - self._began)
        since = time.monotonic() - self._ended
        return max(min(max(pause, _MIN_SECONDS), _MAX_SECONDS) - since, 0.0)
