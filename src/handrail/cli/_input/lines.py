"""Messages on their way from the user to the chat, and other wishes by the user or a signal.

The terminal's thread writes, the chat's thread reads, and a signal handler may do both at any line.
So there is no lock: each step is one operation that Python does not divide.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeAlias

from handrail.cli._base.exits import Exit

NEXT_MODE = "\x00next mode"
"""A key's replacement for a message: no message has this character."""
_POLL_SECONDS = 0.05
"""Seconds between signal checks, since another thread may receive the signal."""


class Choice(NamedTuple):
    """One choice for a chat command."""

    value: str
    """What is put after the command."""
    label: str
    about: str = ""


Choices: TypeAlias = Callable[[str], Sequence[Choice]]
"""Takes a command's name, and returns its choices; nothing for most commands."""


Commands: TypeAlias = Callable[[], Iterable[tuple[str, str]]]
"""Returns the chat's commands, each with a summary: ``("/help", "show this list")``."""
Files: TypeAlias = Callable[[str], Iterable[tuple[str, bool]]]
"""Takes a folder, and returns its visible names, and which are folders."""
Tree: TypeAlias = Callable[[], Sequence[str]]
"""Returns all visible files, except those ignored by git."""


class Lines:
    """The user's sent messages, in order. During a turn they are queued."""

    def __init__(self) -> None:
        self._sent: deque[str] = deque()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self.reading = False
        """Whether the chat waits for a message; false during a turn."""
        self.on_reading: Callable[[], None] = lambda: None
        """Called when the chat begins to wait: what the input shows depends on it."""
        self.on_background: Callable[[], None] = lambda: None
        """Called when a running command is to continue in the background."""
        self.on_idle: Callable[[], None] = lambda: None
        """Called again and again while the chat waits for a message."""
        self.images: dict[str, bytes] = {}
        """Pasted images, by their names in messages."""
        self.next_text = ""
        """What the next message begins with."""
        self.interrupts = 0
        """Requests to stop the current turn; the chat sets it back."""
        self.ended: Exit | None = None
        """The exit code to end with, once a person or a signal has asked for an end."""

    @property
    def queued(self) -> tuple[str, ...]:
        """Messages waiting for the turn's end."""
        return () if self.reading else tuple(self._sent)

    def send(self, text: str) -> None:
        """Hand over a message."""
        self._sent.append(text)
        self._wakes.put(None)

    def take_back(self) -> str | None:
        """Remove the last queued message, and return it."""
        try:
            return self._sent.pop()
        except IndexError:  # there is none, or the chat has taken it
            return None

    def end(self, code: Exit) -> None:
        """Ask for the chat's end. The first reason counts."""
        self.ended = code if self.ended is None else self.ended
        self._wakes.put(None)

    def line(self) -> str | Exit:
        """Wait for the next message, or an ending chat's exit code."""
        self.reading = True
        self.on_reading()
        try:
            while True:
                if self.ended is not None:
                    return self.ended
                if self._sent:
                    return self._sent.popleft()
                with suppress(Empty):
                    self._wakes.get(timeout=_POLL_SECONDS)
                self.on_idle()
        finally:
            self.reading = False
