"""The file for drawing the input: each frame is one write."""

from __future__ import annotations

import io
import os
from contextlib import suppress

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Around what a terminal shows at once."""


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
