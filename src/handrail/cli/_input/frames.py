"""Frames at a terminal: the time between them, their width, and one write for each."""

from __future__ import annotations

import io
import os
import time
from contextlib import suppress
from typing import Any

_MIN_SECONDS = 1 / 20
"""Seconds between two frames with news."""
_MAX_SECONDS = 0.25
_PAUSES = 6
"""How many times as long as a frame the time after it is: on a busy machine, frames take longer."""
_LATE_SECONDS = 0.5
"""How long a terminal may have another width before it says so. tmux waits up to 0.25 s."""
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Around what a terminal shows at once."""


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


class FrameWidth:
    """The width for which the last frame was drawn."""

    def __init__(self) -> None:
        self._columns = 0
        self._drawn_at = -_LATE_SECONDS
        """When a frame was drawn for another reason than a key or a new width."""
        self._breaks_rows = _breaks_rows()

    def note_frame(self, *, is_news: bool) -> None:
        """Note a drawn frame, and whether it shows a turn's news."""
        self._drawn_at = time.monotonic() if is_news else -_LATE_SECONDS

    def count_moved(self, app: Any, columns: int) -> int | None:
        """Return by how many rows a narrower terminal broke the frame above the cursor.

        None if it has the frame's width. Too high a count would erase rows above the frame. So it
        is 0 if the terminal may have been narrower already when the frame was drawn, and has cut
        off its rows.
        """
        before, self._columns = self._columns, columns
        screen = app.renderer.last_rendered_screen
        if screen is None or columns == before:
            return None
        if time.monotonic() - self._drawn_at < _LATE_SECONDS or not self._breaks_rows:
            return 0
        cursor = screen.get_cursor_position(app.layout.current_window)
        used = [
            max((x + cell.width for x, cell in screen.data_buffer[y].items()), default=0)
            for y in range(cursor.y)
        ]
        moved: int = cursor.x // columns + sum(max(cells - 1, 0) // columns for cells in used)
        return moved


def _breaks_rows() -> bool:
    """Return whether the terminal breaks rows that do not fit any more. Some cut them off."""
    if "TMUX" in os.environ:
        return True
    kind = os.environ.get("TERM", "")
    return "XTERM_VERSION" not in os.environ and not kind.startswith(("linux", "screen"))


class DrawnFile(io.TextIOBase):
    """A terminal written to in whole frames."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._parts: list[str] = []
        self._whole = False

    def fileno(self) -> int:
        """Return the terminal's file descriptor."""
        return self._fd

    def write(self, text: str) -> int:
        """Add text to what the next flush writes."""
        self._parts.append(text)
        return len(text)

    def begin(self) -> None:
        """Begin a frame: nothing is written until its end."""
        self._whole = True

    def end(self) -> None:
        """Write the frame."""
        self._whole = False
        self._parts = [_BEGIN, *self._parts, _END]
        self.flush()

    def flush(self) -> None:
        """Write what there is, unless a frame has begun."""
        if self._whole:
            return
        text, self._parts = "".join(self._parts), []
        self.write_now(text)

    def write_now(self, text: str) -> None:
        """Write to the terminal, if it is still there."""
        left = text.encode("utf-8", "replace")
        with suppress(OSError):
            while left:
                left = left[os.write(self._fd, left) :]
