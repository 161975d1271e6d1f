"""Single keys from a terminal. Pasted text, and text typed for something else, are not keys."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Literal, TypeAlias

from handrail.approvals._tty import Ended

if sys.platform != "win32":
    import termios

Key: TypeAlias = str
"""A lower-case character, or a name from below."""
Named: TypeAlias = Literal["enter", "esc", "next", "previous"]
TEXT = "text"
"""Replaces a key if something else was typed."""
_NAMES: dict[bytes, Named] = {
    b"\r": "enter",
    b"\n": "enter",
    b"\x1b": "esc",
    b"\x1b[A": "previous",
    b"\x1b[D": "previous",
    b"\x1bOA": "previous",
    b"\x1bOD": "previous",
    b"\x1b[B": "next",
    b"\x1b[C": "next",
    b"\x1bOB": "next",
    b"\x1bOC": "next",
    b"\t": "next",
}
_MAX_BYTES = 4096
_LOCAL_FLAGS = 3
_END = b"\x04"
_NEXT_LETTER_SECONDS = 0.3
"""How soon the next letter comes if a person types a word."""


@contextmanager
def single_keys(fd: int) -> Generator[None]:
    """Make the terminal pass each key immediately, without an echo, until the block ends."""
    before = termios.tcgetattr(fd)
    now = termios.tcgetattr(fd)
    now[_LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(fd, termios.TCSANOW, now)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(fd, termios.TCSANOW, before)


class KeyReader:
    """Reads one question's keys, and tells keys from text.

    Keys are used from ``pause`` seconds after the question. A letter sooner than that after a
    different letter is text, until nothing was typed for as long. The same letter again is not:
    a person may press a key until it works.
    """

    def __init__(
        self,
        fd: int,
        is_ready: Callable[[float], bool],
        pause: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fd = fd
        self._is_ready = is_ready
        self._pause = pause
        self._clock = clock
        self._opens_at = clock() + pause
        self._last: str = ""
        self._last_at: float = -math.inf
        self._in_text: bool = False

    @property
    def is_paused(self) -> bool:
        """Whether keys are still ignored."""
        return self._clock() < self._opens_at

    def read(self) -> Key | None:
        """Return the next key, TEXT for anything else, or None when the pause is over."""
        was_paused = self.is_paused
        if not self._is_ready(self._opens_at - self._clock() if was_paused else math.inf):
            return None
        key = self._read_one()
        if was_paused or key == TEXT or key in _NAMES.values():
            return TEXT if was_paused else key
        return TEXT if self._goes_on(key) else key

    def _goes_on(self, key: Key) -> bool:
        """Wait a moment, and return whether other letters follow: then it was not a key."""
        soon = min(self._pause, _NEXT_LETTER_SECONDS)
        following = key
        while soon and following == key and self._is_ready(soon):
            following = self._read_one()
        self._in_text = following not in {key, "enter"}
        return self._in_text

    def _read_one(self) -> Key:
        typed = os.read(self._fd, _MAX_BYTES)
        if typed in (b"", _END):
            raise Ended
        if typed in _NAMES:
            return _NAMES[typed]
        letter, now = typed.decode("utf-8", "replace").lower(), self._clock()
        follows = now - self._last_at < self._pause
        self._in_text = len(letter) > 1 or (follows and (self._in_text or letter != self._last))
        self._last, self._last_at = letter, now
        return TEXT if self._in_text else letter
