"""Handle SIGINT and SIGTERM without raising, and end code that does not stop.

A raising handler can do so at any line, also while a file is half written. These handlers only
record the signal and wake the task waiting for it. A thread ends the process if the run does not
stop within a grace period: code without an await blocks the event loop.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn, TypeVar

import anyio

from handrail.cli._base.exits import Exit, unwrap_group

T = TypeVar("T")
EXITS = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
GRACE = 5.0
"""Seconds for the run to stop in, after a signal or a time limit."""
_POLL_SECONDS = 0.1
"""Seconds between two deadline checks."""
_REPORT_SECONDS = 2.0
"""Seconds to report a run that did not stop."""


class Signals:
    """The signals received so far, and the deadline for the run to stop."""

    def __init__(self, bell: int, late: Callable[[], Exit]) -> None:
        self._bell = bell
        self._late = late
        self._until = float("inf")
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._enforce_deadline, daemon=True)
        self.exits: Exit | None = None
        """The exit code for the first signal received; None before it."""
        self._watch.start()

    async def wait(self) -> None:
        """Wait for the first signal."""
        await anyio.wait_readable(self._bell)

    def ring(self, exits: Exit) -> None:
        """Record a signal and wake the waiting task. Safe to call from a handler."""
        self.exits = self.exits or exits
        self.within(0)
        os.eventfd_write(self._bell, 1)

    def within(self, seconds: float) -> None:
        """Set a deadline for the run: this many seconds, plus the grace period."""
        self._until = min(self._until, time.monotonic() + seconds + GRACE)

    def rest(self) -> None:
        """Stop watching: the run has ended. Never returns if the process is being ended."""
        self._over.set()
        self._watch.join()

    def _enforce_deadline(self) -> None:
        while not self._over.wait(_POLL_SECONDS):
            if time.monotonic() > self._until:
                self._leave()

    def _leave(self) -> NoReturn:
        exits = self.exits or Exit.LIMIT
        timer = threading.Timer(_REPORT_SECONDS, os._exit, [exits])  # the report may block
        timer.daemon = True
        timer.start()
        with suppress(Exception):
            exits = self._late()
        leave(exits)


def leave(exits: Exit) -> NoReturn:
    """End the process at once, without waiting for anything still running."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(exits)


def run_alone(work: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function. A single exception is raised by itself, not in a group."""
    try:
        return anyio.run(work)
    except BaseExceptionGroup as group:
        raise unwrap_group(group) from None


@contextmanager
def listen_for_signals(at_once: Callable[[], None], late: Callable[[], Exit]) -> Generator[Signals]:
    """Handle SIGINT and SIGTERM.

    Args:
        at_once: Called on a second signal. The process then ends without another message.
        late: Reports a run that did not stop in time, and returns the exit code.
    """
    bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    signals = Signals(bell, late)

    def handle(number: int, _frame: FrameType | None) -> None:
        exits = EXITS[signal.Signals(number)]
        # a SIGTERM after Ctrl-C is not a second request: shells and runners send both
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
