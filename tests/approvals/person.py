"""A person at a terminal: a pty of which the test holds the other end."""

from __future__ import annotations

import os
import re
import select
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from anyio import to_thread
from rich.console import Console

PATIENCE = 20.0
"""Seconds after which something that should have been shown never will be."""


_RAIL = re.compile("[┃║] ?")


class Person:
    def __init__(self, *, height: int = 24, width: int = 80, keys: bool = False) -> None:
        self._master, slave = os.openpty()
        self.stdin = os.fdopen(slave, encoding="utf-8")
        self._out = os.fdopen(os.dup(slave), "w", encoding="utf-8")
        self.console = Console(
            file=self._out,
            force_terminal=True,
            color_system=None,
            width=width,
            height=height,
            _environ={"TERM": "xterm" if keys else "dumb"},
        )
        self.seen = ""
        """What was shown and is not yet read, without the rails."""
        self.rails: set[str] = set()

    def types(self, text: str) -> None:
        os.write(self._master, text.encode())

    async def answers(self, *words: str, after: str = "your answer: ") -> None:
        """Type each once the question for it is on the screen."""
        for word in words:
            await self.sees(after)
            self.types(word + "\n")

    async def sees(self, words: str) -> str:
        """Everything up to these words, which are then behind us."""
        return await to_thread.run_sync(self._sees, words)

    def _sees(self, words: str) -> str:
        until = time.monotonic() + PATIENCE
        while words not in self.seen:
            ready, _, _ = select.select([self._master], [], [], max(until - time.monotonic(), 0))
            if not ready:
                pytest.fail(f"{words!r} never came; there was {self.seen!r}")
            self.seen += os.read(self._master, 65_536).decode().replace("\r\n", "\n")
            self.rails |= {rail for rail in "┃║" if rail in self.seen}
            self.seen = _RAIL.sub("", self.seen)
        before, _, self.seen = self.seen.partition(words)
        return before

    def is_raw(self) -> bool:
        return not termios.tcgetattr(self.stdin.fileno())[3] & termios.ICANON

    def hang_up(self) -> None:
        os.close(self._master)
        self._master = -1

    def leave(self) -> None:
        for file in (self.stdin, self._out):
            with suppress(OSError):  # what was written last has nowhere to go
                file.close()
        if self._master >= 0:
            self.hang_up()


@contextmanager
def person(*, height: int = 24, width: int = 80, keys: bool = False) -> Iterator[Person]:
    """A person at a terminal, which hands over single keys if it can."""
    one = Person(height=height, width=width, keys=keys)
    try:
        yield one
    finally:
        one.leave()
