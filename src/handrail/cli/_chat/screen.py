"""The screen of a chat: permanent rows, streamed text, and one status row that changes."""

from __future__ import annotations

import io
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO

import click

from handrail.approvals import RenderedLine
from handrail.cli._chat.text import safe

_CLEAR = "\r\x1b[K"
_STYLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "title": {"bold": True},
    "added": {"fg": "green"},
    "removed": {"fg": "red"},
    "warning": {"fg": "yellow", "bold": True},
}
_MIN_COLUMNS = 20


class ChatScreen:
    """Prints to a terminal. If the terminal goes away, output is discarded without an error."""

    def __init__(self, file: TextIO, *, color: bool, live: bool) -> None:
        self._file = file
        self._color = color
        self._live = live
        """Whether a row can be rewritten; false on a dumb terminal."""
        self._shown = ""
        self._later: list[str] = []
        self._holders = 0

    @property
    def width(self) -> int:
        """The usable columns: one less than the terminal has, as some wrap at the last one."""
        try:
            columns = os.get_terminal_size(self._file.fileno()).columns
        except (OSError, ValueError):
            columns = 0
        return max((columns or 80) - 1, _MIN_COLUMNS)

    def show(self, *lines: RenderedLine) -> None:
        """Print rows."""
        for line in lines:
            styled = click.style(line.text, **_STYLES[line.look]) if self._color else line.text
            self.write(f"{styled}\n")

    def say(self, text: str) -> None:
        """Print a row from handrail itself."""
        self.show(RenderedLine(text))

    def write(self, text: str) -> None:
        """Print a safe text, or keep it for later while the screen is on hold."""
        if self._holders:
            self._later.append(text)
        elif text:
            self._put(f"{_CLEAR if self._shown else ''}{text}")
            self._shown = ""

    def live(self, row: str) -> None:
        """Show a status row until something else is printed; an empty row clears it."""
        if self._live and not self._holders and row != self._shown:
            self._put(f"{_CLEAR if self._shown else ''}{row}")
            self._shown = row

    @contextmanager
    def hold(self) -> Generator[None]:
        """Print nothing inside this block, because an approval request has the terminal."""
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
        except OSError:  # the terminal has gone away
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())


class Printed(io.TextIOBase):
    """Stdout for tools: their text is made safe and starts on a new row."""

    encoding, errors = "utf-8", "backslashreplace"  # readline asks for them

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._begun = ""

    def write(self, text: str) -> int:
        """Print the complete rows."""
        whole, end, self._begun = f"{self._begun}{text}".rpartition("\n")
        self._screen.write(safe(f"{whole}{end}"))
        return len(text)

    def fileno(self) -> int:
        """Return the file descriptor of stdout, which is the terminal too."""
        return 1
