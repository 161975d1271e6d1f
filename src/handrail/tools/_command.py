"""One command in the foreground: from its start to its end, and what it said meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import anyio
from anyio import to_thread

from handrail.sandbox import Sandbox
from handrail.tools._collect import Collected
from handrail.tools._screen import screened
from handrail.tools._shell import Left, left, noting

HEAD = TAIL = 256 * 1024
"""Bytes of the output that are kept, of the beginning and of the end."""
_TOLD = 2_000
"""Bytes of the output that watchers are told at once, at most."""
_EVERY = 0.2
"""Seconds between two things that watchers are told."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended, with all that it had started."""

    text: str
    code: int | None
    """Negative for a signal; None where its time was over."""
    seconds: float
    left: Left


async def foreground(
    sandbox: Sandbox,
    command: str,
    *,
    seconds: float,
    variables: Mapping[str, str],
    progress: Callable[[str], None],
) -> Ended:
    """Run a command until it ends or its time is over. Nothing of it is left afterwards."""
    began = time.monotonic()
    code: int | None = None
    output, watchers = Collected(HEAD, TAIL), Watchers(progress)
    running = sandbox.start(noting(command), variables=variables, notes=True)
    try:
        with anyio.move_on_after(seconds):
            while piece := await running.read():
                output.write(piece)
                watchers.tell(piece)
            code = await running.wait()
    finally:
        await running.end()
    took = time.monotonic() - began
    text = await to_thread.run_sync(output.text)  # control characters by the thousand take a while
    return Ended(text, code, took, left(running.notes()))


class Watchers:
    """Hands on what a command says, now and then, and never more than a little of it."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._latest = b""
        self._next = 0.0

    def tell(self, piece: bytes) -> None:
        """Take what it said; hand on the latest of it, if it is time."""
        self._latest = (self._latest + piece[-_TOLD:])[-_TOLD:]
        now = time.monotonic()
        if now >= self._next:
            self._progress(screened(self._latest))
            self._latest, self._next = b"", now + _EVERY
