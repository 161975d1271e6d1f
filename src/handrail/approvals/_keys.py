"""Single keys from a terminal, and the choices behind them.

Pasted text, and text typed for something else, are not keys.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Container, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple, TypeAlias

from handrail.approvals._display import Look, RenderedLine, Span, count_columns
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


MARK = "▸"
WAIT = "wait…"
"""The hint while keys are ignored."""
_ONE_KEY = "press one key"
_STEPS = {"next": 1, "previous": -1}
_GAP = "    "


class Choice(NamedTuple):
    """A key, and what it does."""

    key: str
    label: str

    @property
    def text(self) -> str:
        """Both, for a reader."""
        return f"{self.key} {self.label}"


def choice_rows(
    choices: Sequence[Choice],
    width: int,
    marked: int | None = None,
    *,
    muted: bool = False,
    hint: str = "",
) -> list[RenderedLine]:
    """Return the keys in one row, or below one another if they do not fit, then the hint."""
    own = [f"{MARK if number == marked else ' '} {one.text}" for number, one in enumerate(choices)]
    pieces = [own] if count_columns(_GAP.join(own)) <= width else [[one] for one in own]
    if hint and count_columns(_GAP.join([*pieces[-1], f"  {hint}"])) <= width:
        pieces[-1].append(f"  {hint}")
    elif hint:
        pieces.append([f"  {hint}"])
    look: Look = "muted" if muted else "plain"
    rows: list[RenderedLine] = []
    number = 0
    for row in pieces:
        at, spans = 0, list[Span]()
        for text in row:
            if not muted and number < len(choices):
                spans += _spans(at, text, choices[number], is_marked=number == marked)
            at += len(text) + len(_GAP)
            number += 1
        rows.append(RenderedLine(_GAP.join(row).rstrip(), look, spans=tuple(spans)))
    return rows


def _spans(at: int, text: str, choice: Choice, *, is_marked: bool) -> list[Span]:
    start = at + 2
    if is_marked:
        return [(at, at + 1, "ask"), (start, at + len(text), "picked")]
    return [(start, start + len(choice.key), "title")]


def list_rows(choices: Sequence[Choice]) -> list[RenderedLine]:
    """Return all keys, one in each row."""
    size = max(len(one.key) for one in choices) + 2
    return [
        RenderedLine(f"  {one.key:<{size}}{one.label}", spans=((2, 2 + len(one.key), "title"),))
        for one in choices
    ]


def pick_key(
    choices: Sequence[Choice],
    first: int,
    keys: KeyReader,
    draw: Callable[[Sequence[Choice], int | None, str], None],
    *,
    known: Container[str],
    esc: str,
) -> str:
    """Return the known key pressed, or the marked one for Enter.

    Text takes the mark away: it may end with an Enter meant for something else.
    """
    marked: int | None = first
    while True:
        if keys.is_paused:
            draw(choices, None, WAIT)
        else:
            draw(choices, marked, _ONE_KEY if marked is None else "")
        typed = keys.read()
        if typed == "enter" and marked is not None:
            return choices[marked].key
        key = esc if typed == "esc" else typed
        if key is not None and key in known:
            return key
        marked = _move_mark(typed, marked, first, len(choices))


def _move_mark(typed: str | None, marked: int | None, first: int, count: int) -> int | None:
    """Return where the mark is now. An arrow brings it back after text."""
    if typed is None:  # the pause is over
        return marked
    if typed not in _STEPS:
        return None
    return first if marked is None else (marked + _STEPS[typed]) % count
