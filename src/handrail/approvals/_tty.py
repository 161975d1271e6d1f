"""Read answers from a terminal, line by line, ignoring what was typed in advance."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable

if sys.platform != "win32":
    import termios

_POLL_SECONDS = 0.1
"""Seconds between checks whether the request was withdrawn."""
_LOCAL_FLAGS = 3
_MAX_LINE_BYTES = 4096
"""Bytes a terminal stores for one line."""
NO_PROMPT = (
    "Not run: this needs the user's approval, and {}. Do what you can without it, and report it at "
    "the end."
)
_NO_TERMINAL = NO_PROMPT.format("the input is not a terminal")
_RAW = NO_PROMPT.format("the terminal is in raw mode")


class Withdrawn(Exception):
    """The request was withdrawn."""


class Ended(Exception):
    """The person closed the input without an answer."""


class Unanswerable(Exception):
    """No one can answer here. The message is for the model."""


def answerable(fd: int | None) -> int:
    """Return the terminal if whole lines can be read from it. Raises Unanswerable otherwise.

    In raw mode another program reads single keys, so none is an answer to this request.
    """
    if fd is None or not os.isatty(fd):
        raise Unanswerable(_NO_TERMINAL)
    if not termios.tcgetattr(fd)[_LOCAL_FLAGS] & termios.ICANON:
        raise Unanswerable(_RAW)
    return fd


class Tty:
    """Reads lines from a terminal until the request is withdrawn."""

    def __init__(self, fd: int, withdrawn: Callable[[], bool]) -> None:
        self.fd = self._fd = fd
        self._withdrawn = withdrawn

    def drain(self) -> None:
        """Discard what was typed before: it was not an answer to this request."""
        while self._is_ready(0) and os.read(self._fd, _MAX_LINE_BYTES):
            pass
        termios.tcflush(self._fd, termios.TCIFLUSH)  # and text without a line ending yet

    def line(self) -> str:
        """Return the person's next whole line, without its line ending."""
        line = b""
        while not line.endswith(b"\n"):
            while not self._is_ready(_POLL_SECONDS):
                pass
            piece = os.read(self._fd, _MAX_LINE_BYTES)
            if not piece:
                raise Ended
            line += piece
        return line.decode("utf-8", "replace").rstrip("\n")

    def _is_ready(self, seconds: float) -> bool:
        ready = self.is_typed(seconds)
        answerable(self._fd)
        return ready

    def is_typed(self, seconds: float) -> bool:
        """Return whether something was typed. Raises Withdrawn if the request was withdrawn."""
        until = time.monotonic() + seconds
        while True:
            left = max(until - time.monotonic(), 0.0)
            ready, _, _ = select.select([self._fd], [], [], min(left, _POLL_SECONDS))
            if self._withdrawn():
                raise Withdrawn
            if ready or left <= _POLL_SECONDS:
                return bool(ready)
