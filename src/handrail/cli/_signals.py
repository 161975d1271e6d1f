"""Signals, heard at any moment: nothing is raised, and the run that goes on is told.

A handler that raises can do so at every line, also where a file is half written. These only note
what came, and wake whoever waits for it. What does not end then, nor when its time is over, is
left behind after a grace: a thread sees to that, since code that does not wait stops the loop.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

import anyio

from handrail.cli._exits import Exit

EXITS = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
GRACE = 5.0
"""Seconds that something has to end in, once it was asked to."""
_LOOK = 0.1
"""Seconds between looks at whether they are over."""
_LAST_WORDS = 2.0
"""Seconds in which it can be told that something was left behind."""


class Signals:
    """What was heard so far, and until when it is waited for what goes on."""

    def __init__(self, bell: int, late: Callable[[], Exit]) -> None:
        self._bell = bell
        self._late = late
        self._until = float("inf")
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self.exits: Exit | None = None
        """How to end, once something was heard."""
        self._watch.start()

    async def wait(self) -> None:
        """Wait for the first."""
        await anyio.wait_readable(self._bell)

    def ring(self, exits: Exit) -> None:
        """Note a signal, and wake whoever waits; may be called from a handler."""
        self.exits = self.exits or exits
        self.within(0)
        os.eventfd_write(self._bell, 1)

    def within(self, seconds: float) -> None:
        """What goes on is to end in so many seconds: after that it has its grace."""
        self._until = min(self._until, time.monotonic() + seconds + GRACE)

    def rest(self) -> None:
        """It has ended by itself. Does not come back where it has been left behind."""
        self._over.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._over.wait(_LOOK):
            if time.monotonic() > self._until:
                self._leave()

    def _leave(self) -> NoReturn:
        exits = self.exits or Exit.LIMIT
        silenced = threading.Timer(_LAST_WORDS, os._exit, [exits])  # nobody reads what is told
        silenced.daemon = True
        silenced.start()
        with suppress(Exception):
            exits = self._late()
        leave(exits)


def leave(exits: Exit) -> NoReturn:
    """End at once: nothing that still runs is waited for."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(exits)


@contextmanager
def heard(at_once: Callable[[], None], late: Callable[[], Exit]) -> Generator[Signals]:
    """Hear SIGINT and SIGTERM.

    Args:
        at_once: Is called when one of them comes again; then the process ends without another word.
        late: Tells how it stands with what does not end; then the process ends.
    """
    bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    signals = Signals(bell, late)

    def handle(number: int, _frame: FrameType | None) -> None:
        exits = EXITS[signal.Signals(number)]
        # a SIGTERM after Ctrl-C asks for what is under way: shells and runners send both
        if signals.exits is exits or (signals.exits is not None and number == signal.SIGINT):
            at_once()
            os._exit(exits)
        signals.ring(exits)

    before = {number: signal.signal(number, handle) for number in EXITS}
    try:
        yield signals
    finally:
        signals.rest()
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(bell)
