"""The input rows' position after the terminal got another width."""

from __future__ import annotations

import os
import time
from typing import Any

_LATE_SECONDS = 0.5
"""How long a terminal may have another width before it says so. tmux waits up to 0.25 s."""


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
