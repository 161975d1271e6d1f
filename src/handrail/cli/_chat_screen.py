"""The screen of a chat: rows that stay, words as they come, and one row that changes."""

from __future__ import annotations

import io
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO

import click

from handrail.approvals import Line
from handrail.cli._chat_words import safe

_CLEAR = "\r\x1b[K"
_STYLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "title": {"bold": True},
    "added": {"fg": "green"},
    "removed": {"fg": "red"},
    "warning": {"fg": "yellow", "bold": True},
}
_NARROWEST = 20


class Screen:
    """Prints to a terminal. One that is gone is written to no more, and nothing is raised."""

    def __init__(self, file: TextIO, *, color: bool, live: bool) -> None:
        self._file = file
        self._color = color
        self._live = live
        """Whether a row may change: not on a terminal that only types."""
        self._shown = ""
        self._later: list[str] = []
        self._holders = 0

    @property
    def width(self) -> int:
        """Columns, one of them left free: some terminals break the row at the last."""
        try:
            columns = os.get_terminal_size(self._file.fileno()).columns
        except (OSError, ValueError):
            columns = 0
        return max((columns or 80) - 1, _NARROWEST)

    def show(self, *lines: Line) -> None:
        """Print rows."""
        for line in lines:
            styled = click.style(line.text, **_STYLES[line.look]) if self._color else line.text
            self.write(f"{styled}\n")

    def say(self, words: str) -> None:
        """Print a row of our own."""
        self.show(Line(words))

    def write(self, text: str) -> None:
        """Print a text that is safe; later, where somebody else speaks now."""
        if self._holders:
            self._later.append(text)
        elif text:
            self._put(f"{_CLEAR if self._shown else ''}{text}")
            self._shown = ""

    def live(self, row: str) -> None:
        """Show a row until something else is printed; an empty one takes it away."""
        if self._live and not self._holders and row != self._shown:
            self._put(f"{_CLEAR if self._shown else ''}{row}")
            self._shown = row

    @contextmanager
    def held(self) -> Generator[None]:
        """Print nothing meanwhile: somebody else speaks."""
        self.live("")
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                later, self._later = self._later, []
                self.write("".join(later))

    def _put(self, text: str) -> None:
        try:
            self._file.write(text)
            self._file.flush()
        except OSError:  # the terminal is gone, and with it whoever would read
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())


class Printed(io.TextIOBase):
    """What tools print, as rows of a screen: made safe, and not behind what is there already."""

    encoding, errors = "utf-8", "backslashreplace"  # a line editor asks for them

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._begun = ""

    def write(self, text: str) -> int:
        """Print the rows that are whole."""
        whole, end, self._begun = f"{self._begun}{text}".rpartition("\n")
        self._screen.write(safe(f"{whole}{end}"))
        return len(text)

    def fileno(self) -> int:
        """That of stdout, which is the terminal too."""
        return 1
