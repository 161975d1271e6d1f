"""Runs one command in the foreground, and reports its output while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import anyio
from anyio import to_thread

from handrail.sandbox import Process
from handrail.tools._shell.head_and_tail import HeadAndTail
from handrail.tools._shell.state import ShellNotes, add_notes, read_notes
from handrail.tools._shell.terminal_text import clean_output

_HEAD_BYTES = _TAIL_BYTES = 256 * 1024
"""Bytes kept of the beginning and of the end of the output."""
_MAX_REPORT_BYTES = 2_000
"""Bytes of output in one progress event."""
_REPORT_SECONDS = 0.2
"""Seconds between two progress events."""


@dataclass(frozen=True, slots=True)
class FinishedCommand:
    """A command that has ended, with every process it started."""

    text: str
    code: int | None
    """Negative for a signal; None if it timed out."""
    seconds: float
    left: ShellNotes
    refused: tuple[str, ...] = ()
    """Hosts it tried to reach and that were closed."""
    lines: int = 0
    """Lines of its whole output."""


@dataclass(frozen=True, slots=True)
class MovedCommand:
    """A command that still runs, and is to continue in the background."""

    running: Process
    output: bytes
    """Its latest output so far."""


class Foreground:
    """A running command, as others see it: they can send it to the background."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        """Around reading its output."""
        self.is_moved = False

    def move(self) -> None:
        """Send the command to the background. Call it in the thread of its event loop."""
        self.is_moved = True
        self.scope.cancel()


async def run_in_foreground(
    start: Callable[..., Process],
    command: str,
    seconds: float,
    progress: Callable[[str], None],
    *,
    foreground: Foreground,
) -> FinishedCommand | MovedCommand:
    """Run a command until it ends, times out or is sent to the background.

    No process of it is left afterwards, unless it was sent to the background. ``start`` is a
    sandbox's, with its options.
    """
    began = time.monotonic()
    code: int | None = None
    output, reporter = HeadAndTail(_HEAD_BYTES, _TAIL_BYTES), ProgressReporter(progress)
    running = start(add_notes(command), notes=True)
    ended = False
    try:
        with foreground.scope, anyio.move_on_after(seconds):
            while piece := await running.read():
                output.write(piece)
                reporter.report(piece)
            code = await running.wait()
        ended = code is not None or not foreground.is_moved
    finally:
        if ended or not foreground.is_moved or not foreground.scope.cancelled_caught:
            await running.kill()
    if not ended:
        return MovedCommand(running, output.tail())
    took = time.monotonic() - began
    text = await to_thread.run_sync(output.text)  # slow if there are many control characters
    left, refused = read_notes(running.notes()), running.refused_hosts()
    return FinishedCommand(text, code, took, left, refused, output.lines)


class ProgressReporter:
    """Reports the latest output of a command, a little of it at a time."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._latest = b""
        self._next = 0.0

    def report(self, piece: bytes) -> None:
        """Add output, and report the latest of it if enough time has passed."""
        self._latest = (self._latest + piece[-_MAX_REPORT_BYTES:])[-_MAX_REPORT_BYTES:]
        now = time.monotonic()
        if now >= self._next:
            self._progress(clean_output(self._latest))
            self._latest, self._next = b"", now + _REPORT_SECONDS
