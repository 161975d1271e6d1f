"""A terminal as a place where a person answers: line by line, and nothing typed in advance."""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Callable

_POLL = 0.1
"""Seconds between looks at whether the question still stands."""
_LOCAL_FLAGS = 3
_MOST = 4096
"""Bytes of a line that a terminal keeps."""
_NO_TERMINAL = (
    "Nobody could be asked, since the input is not a terminal, and so nothing was run. Go on "
    "without this call, or tell the user what you wanted to do."
)
_RAW = (
    "Nobody could be asked, since the terminal is in raw mode, and so nothing was run. Go on "
    "without this call, or tell the user what you wanted to do."
)


class Withdrawn(Exception):
    """The question no longer stands."""


class Ended(Exception):
    """The person has closed the input: there will be no answer."""


class Unanswerable(Exception):
    """Nobody can answer here; the message is for the model."""


def answerable(fd: int | None) -> int:
    """The terminal, if whole lines can be read from it; Unanswerable if not.

    In raw mode single keys go to whichever program reads first, and none is an answer to us.
    """
    if fd is None or not os.isatty(fd):
        raise Unanswerable(_NO_TERMINAL)
    if not termios.tcgetattr(fd)[_LOCAL_FLAGS] & termios.ICANON:
        raise Unanswerable(_RAW)
    return fd


class Tty:
    """Reads lines from a terminal for as long as a question stands."""

    def __init__(self, fd: int, withdrawn: Callable[[], bool]) -> None:
        self._fd = fd
        self._withdrawn = withdrawn

    def drain(self) -> None:
        """Throw away what was typed before: it was no answer to what is asked now."""
        while self._is_ready(0) and os.read(self._fd, _MOST):
            pass
        termios.tcflush(self._fd, termios.TCIFLUSH)  # and what has no end of line yet

    def line(self) -> str:
        """The next whole line that a person types, without its end."""
        got = b""
        while not got.endswith(b"\n"):
            while not self._is_ready(_POLL):
                pass
            piece = os.read(self._fd, _MOST)
            if not piece:
                raise Ended
            got += piece
        return got.decode("utf-8", "replace").rstrip("\n")

    def _is_ready(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if self._withdrawn():
            raise Withdrawn
        answerable(self._fd)
        return bool(ready)
