"""A terminal with lasting rows and, below them, a few changing rows.

Lasting rows are printed once and belong to the terminal's own history. Changing ones are drawn over
themselves, in one write with the lasting rows.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Protocol, TextIO

from handrail.cli._base.app import App
from handrail.cli._base.columns import cells
from handrail.cli._screen.rows import GUTTER, Row, Span, plain, safe_line
from handrail.cli._screen.theme import Theme, choose_theme

_MIN_COLUMNS = 20
_MAX_LIVE_ROWS = 12
_FEW_ROWS = 4
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Around what a terminal shows at once."""


class Frame(Protocol):
    """Rows below everything printed, such as an input."""

    def draw(self, settled: str, live: Sequence[Row]) -> None:
        """Print text above, and show changing rows between it and the frame."""


class Screen:
    """Prints to a terminal. If the terminal goes away, output is discarded without an error."""

    def __init__(self, file: TextIO, *, theme: Theme, live: bool) -> None:
        self._file = file
        self.theme = theme
        """How roles look; set when more is known about the terminal."""
        self.can_change = live
        """Whether rows can be drawn again; false on a dumb terminal, and for a screen reader."""
        self.frame: Frame | None = None
        """Everything below the changing rows; it then draws them all."""
        self._shown: tuple[Row, ...] = ()
        self._painted_width = 0
        self._later: list[str] = []
        self._holders = 0

    @property
    def width(self) -> int:
        """The usable columns: one less than the terminal has, as some wrap at the last one."""
        return max(self.size()[0] - 1, _MIN_COLUMNS)

    @property
    def live_rows(self) -> int:
        """The number of changeable rows: at most a third of the terminal."""
        return min(max(self.size()[1] // 3, _FEW_ROWS), _MAX_LIVE_ROWS)

    def size(self) -> tuple[int, int]:
        """Return the terminal's columns and rows."""
        try:
            size = os.get_terminal_size(self._file.fileno())
        except (OSError, ValueError):
            return 80, 24
        return size.columns or 80, size.lines or 24

    def show(self, *rows: Row) -> None:
        """Print rows."""
        self.paint(rows, ())

    def say(self, text: str, role: str = "text") -> None:
        """Print a row from handrail itself."""
        self.show((Span(text, role),))

    def write(self, text: str) -> None:
        """Print a safe text, or keep it for later while the screen is on hold."""
        if self._holders:
            self._later.append(text)
        elif self.frame is not None:
            self.frame.draw(text, ())
        elif text:
            self._put(f"{self._clear()}{text}")

    def paint(self, settled: Sequence[Row], live: Sequence[Row]) -> None:
        """Print lasting rows, and show others below them until something else is printed."""
        text = "".join([f"{self.theme.paint(row)}\n" for row in settled])
        if self._holders:
            self._later.append(text)
            return
        frame = tuple(live[-self.live_rows :]) if self.can_change and live else ()
        if self.frame is not None:
            self.frame.draw(text, frame)
            return
        if not text and frame == self._shown:
            return
        cleared = self._clear()
        shown = "\n".join([self.theme.paint(row) for row in frame])
        self._put(f"{_BEGIN}{cleared}{text}{shown}{_END}" if cleared or shown else text)
        self._shown, self._painted_width = frame, self.size()[0]

    def _clear(self) -> str:
        """Return the text removing the changing rows; a resized terminal may have broken them."""
        rows, self._shown = self._shown, ()
        if not rows:
            return ""
        width = self.size()[0]
        broken = [row for row in rows if width < self._painted_width]
        up = len(rows) - 1 + sum(max(cells(plain(row)) - 1, 0) // width for row in broken)
        return f"\r\x1b[{up}A\x1b[J" if up else "\r\x1b[J"

    @contextmanager
    def hold(self) -> Generator[None]:
        """Print nothing inside this block, because an approval request has the terminal."""
        self.paint((), ())
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


def open_screen(app: App, *, plain: bool) -> Screen:
    """Return the terminal, with the settings' colors unless rows are plain."""
    if plain:
        return Screen(sys.stderr, theme=Theme(), live=False)
    theme = choose_theme(app.settings["theme"], os.environ, color=app.tints)
    return Screen(sys.stderr, theme=theme, live=os.environ.get("TERM") != "dumb")


class Printed(io.TextIOBase):
    """Stdout for tools: their text is made safe and starts on a new row."""

    encoding, errors = "utf-8", "backslashreplace"  # readline asks for them

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._begun = ""

    def write(self, text: str) -> int:
        """Print the complete rows."""
        *whole, self._begun = f"{self._begun}{text}".split("\n")
        self._screen.write("".join([f"{GUTTER}{safe_line(line)}\n" for line in whole]))
        return len(text)

    def fileno(self) -> int:
        """Return stdout's file descriptor, which is the terminal too."""
        return 1
