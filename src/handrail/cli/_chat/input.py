"""Keyboard input and signals: lines, Ctrl-C, Ctrl-D, and a lost terminal.

A raising signal handler can do so at any line in the program. This one raises only while a line is
being read. At any other moment it records the signal for the chat to check.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, cast

from handrail.cli._base.exits import Exit
from handrail.cli._input.lines import Choices, Commands, Files, Tree
from handrail.cli._screen.rows import Row

_editor: ModuleType | None
try:  # imported here, because a workspace may be on the import path later
    import readline
except ImportError:  # this Python was built without readline
    _editor = None
else:
    _editor = readline

PROMPT = "> "
_MAX_HISTORY_LINES = 1_000
_MAX_INTERRUPTS = 2
"""Ctrl-C presses for stopping the current step; the next one ends the process at once."""
_SIGNAL_SECONDS = 0.05
"""Seconds to wait for a signal to interrupt reading a line."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Keyboard:
    """Reads a user's lines, and records signals asking for an end."""

    def __init__(self, history: Path) -> None:
        self._history = history
        self._reading = False
        self._lines = 0
        """Lines whose reading has started."""
        self._typed = ""
        """The text typed on a line before it was interrupted."""
        self.on_background: Callable[[], None] = lambda: None
        """Called by no key: lines are read only between turns."""
        self.on_idle: Callable[[], None] = lambda: None
        """Not called: while a line is read, nothing else is printed."""
        self.images: dict[str, bytes] = {}
        """Pasted images. There are none."""
        self.next_text = ""
        """What the next message begins with."""
        self.interrupts = 0
        """Ctrl-C presses since the last reset, except while a line was being read."""
        self.ended: Exit | None = None
        """The exit code to end with, once a signal has asked for an end."""

    @property
    def lines(self) -> Keyboard:
        """The keyboard itself: it reads the messages."""
        return self

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[None]:
        """Let others use the terminal, which is theirs whenever no line is read."""
        yield

    def show_completions(self, commands: Commands, files: Files, tree: Tree) -> None:
        """Complete nothing: readline completes files."""

    def show_choices(self, choices: Choices) -> None:
        """Show nothing: commands without an argument list what they choose from."""

    def show_status(self, status: Callable[[int], Row], output: Callable[[], str]) -> None:
        """Show nothing: lines have no row below them."""

    def line(self) -> str | Exit:
        """Return the next line, or an exit code if there is none."""
        while True:
            try:
                return self._read()
            except EOFError:
                _put("\n")
                return Exit.DONE
            except KeyboardInterrupt:
                _put("\n")
                if self.ended is not None:
                    return self.ended
                if not self._typed.strip():
                    return Exit.INTERRUPTED

    def _read(self) -> str:
        self._typed = ""
        self._lines += 1
        try:
            self._reading = True
            if self.ended is not None:
                raise KeyboardInterrupt
            text, self.next_text = self.next_text, ""
            if text and _editor is not None:
                _editor.set_startup_hook(partial(_editor.insert_text, text))
            return input(PROMPT)
        except OSError:  # the terminal has gone away
            raise EOFError from None
        finally:
            self._reading = False
            if _editor is not None:
                _editor.set_startup_hook()

    @contextmanager
    def listen(self) -> Generator[None]:
        """Handle signals, and keep a history of typed lines.

        On exit, ignore all further signals, because the program is about to end.
        """
        if isinstance(stdin := cast("Any", sys.stdin), TextIOWrapper):
            stdin.reconfigure(errors="replace")  # accept a line with invalid bytes
        reads, writes = os.pipe()
        os.set_blocking(writes, False)
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)
        before = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
        threading.Thread(target=self._resend, args=(reads,), daemon=True).start()
        self._load_history()
        try:
            yield
        finally:
            self._save_history()
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            signal.set_wakeup_fd(before)
            os.close(writes)

    def _resend(self, pipe: int) -> None:
        """Repeat a signal too early to interrupt reading a line."""
        with open(pipe, "rb", buffering=0) as numbers:
            while number := numbers.read(1):
                line = self._lines
                time.sleep(_SIGNAL_SECONDS)
                if self._reading and self._lines == line:
                    signal.pthread_kill(threading.main_thread().ident or 0, number[0])

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            self.ended = Exit.TERMINATED
        elif not self._reading:
            self.interrupts += 1
            if self.interrupts > _MAX_INTERRUPTS:
                os._exit(Exit.INTERRUPTED)
        if self._reading:
            self._reading = False  # another signal must not raise while this one is handled
            self._typed = _editor.get_line_buffer() if _editor is not None else ""
            raise KeyboardInterrupt

    def _load_history(self) -> None:
        if _editor is None:
            return
        with suppress(OSError):
            _editor.read_history_file(self._history)
        _editor.set_history_length(_MAX_HISTORY_LINES)

    def _save_history(self) -> None:
        """Save the history to a file only the user can read."""
        if _editor is None:
            return
        with suppress(OSError):
            self._history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._history, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
            _editor.write_history_file(self._history)
            self._history.chmod(0o600)
        _editor.clear_history()


def _put(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
