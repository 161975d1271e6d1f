"""What a person types and which signals come: lines, Ctrl-C, Ctrl-D, the end of the terminal.

A handler that raises can do so at every line of the program. This one raises only while a line is
read; at any other moment it notes what came, for whoever looks.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, cast

from handrail.cli._exits import Exit

_editor: ModuleType | None
try:  # here, and not when it is needed: by then a workspace may be where modules are looked for
    import readline
except ImportError:  # Python was built without it
    _editor = None
else:
    _editor = readline

PROMPT = "> "
_MOST_LINES = 1_000
_PATIENCE = 2
"""How often Ctrl-C is met with patience; after that the program ends as it is."""
_A_MOMENT = 0.05
"""Seconds in which a signal is heard, if it is."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Keyboard:
    """Lines of a person, and what they and the system want to have ended."""

    def __init__(self, history: Path) -> None:
        self._history = history
        self._reading = False
        self._lines = 0
        """Lines that were begun to be read."""
        self._begun = ""
        """What was typed of a line that was interrupted."""
        self.interrupts = 0
        """How often Ctrl-C was heard since somebody last looked, a line under way not counted."""
        self.ended: Exit | None = None
        """How to end, once the system wants an end."""

    def line(self) -> str | Exit:
        """The next line; or how to end, where there is none."""
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
                if not self._begun.strip():
                    return Exit.INTERRUPTED

    def _read(self) -> str:
        self._begun = ""
        self._lines += 1
        try:
            self._reading = True
            if self.ended is not None:
                raise KeyboardInterrupt
            return input(PROMPT)
        except OSError:  # the terminal is gone
            raise EOFError from None
        finally:
            self._reading = False

    @contextmanager
    def heard(self) -> Generator[None]:
        """Hear signals, and keep what is typed for the next time.

        At the end none counts any more: the program is on its way out.
        """
        if isinstance(stdin := cast("Any", sys.stdin), TextIOWrapper):
            stdin.reconfigure(errors="replace")  # a line of whatever bytes is a line
        reads, writes = os.pipe()
        os.set_blocking(writes, False)
        for number in _SIGNALS:
            signal.signal(number, self._hear)
        before = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
        threading.Thread(target=self._insist, args=(reads,), daemon=True).start()
        self._recall()
        try:
            yield
        finally:
            self._keep()
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            signal.set_wakeup_fd(before)
            os.close(writes)

    def _insist(self, bell: int) -> None:
        """Send a signal again that came just before a line was waited for, and was not heard."""
        with open(bell, "rb", buffering=0) as numbers:
            while number := numbers.read(1):
                line = self._lines
                time.sleep(_A_MOMENT)
                if self._reading and self._lines == line:
                    signal.pthread_kill(threading.main_thread().ident or 0, number[0])

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            self.ended = Exit.TERMINATED
        elif not self._reading:
            self.interrupts += 1
            if self.interrupts > _PATIENCE:
                os._exit(Exit.INTERRUPTED)
        if self._reading:
            self._reading = False  # whatever comes next must not raise where this is handled
            self._begun = _editor.get_line_buffer() if _editor is not None else ""
            raise KeyboardInterrupt

    def _recall(self) -> None:
        if _editor is None:
            return
        with suppress(OSError):
            _editor.read_history_file(self._history)
        _editor.set_history_length(_MOST_LINES)

    def _keep(self) -> None:
        """Write history down, for nobody else to read."""
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
