"""Read single keys from a terminal. Pasted text, and what was typed before, is never a key."""

from __future__ import annotations

import math
import os
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Literal, TypeAlias

from handrail.approvals._tty import Ended

Key: TypeAlias = str
"""A character in lower case, or one of the names below."""
Named: TypeAlias = Literal["enter", "esc", "next", "previous", "other"]
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


@contextmanager
def single_keys(fd: int) -> Generator[None]:
    """Let the terminal hand over each key at once, without an echo, until the end of the block."""
    before = termios.tcgetattr(fd)
    now = termios.tcgetattr(fd)
    now[_LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(fd, termios.TCSANOW, now)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(fd, termios.TCSANOW, before)


def wait_for_silence(fd: int, is_ready: Callable[[float], bool], seconds: float) -> None:
    """Discard what is typed until nothing was typed for this many seconds."""
    while is_ready(seconds):
        if not os.read(fd, _MAX_BYTES):
            raise Ended


def read_key(fd: int, is_ready: Callable[[float], bool]) -> Key:
    """Return the next key. Several characters at once are pasted, and never a key."""
    is_ready(math.inf)
    typed = os.read(fd, _MAX_BYTES)
    if typed in (b"", _END):
        raise Ended
    if typed in _NAMES:
        return _NAMES[typed]
    text = typed.decode("utf-8", "replace").lower()
    return text if len(text) == 1 else "other"
