"""Named points at which tests kill a process. Without the variable, a point costs one comparison.

``HANDRAIL_CRASH_AT=append.written`` kills the process (SIGKILL) at that point;
``append.written:3`` at its third passage.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial

VARIABLE = "HANDRAIL_CRASH_AT"
"""The environment variable, which is read when the module is loaded."""
CRASH_POINTS: tuple[str, ...] = (
    "append.begun",
    "append.written",
    "append.committed",
)
"""All points: the transaction of an append has begun, has its rows, is committed."""
DURABLE_POINTS: tuple[str, ...] = (
    "turn.begun",
    "call.begun",
    "call.intended",
    "call.ran",
    "call.stored",
    "turn.recorded",
    "model.recorded",
    "run.sealed",
    "run.parked",
    "run.asked",
    "answer.given",
    "run.woken",
    "answers.taken",
    "run.ended",
)
"""The points of a durable run: a turn or a call has begun; a call is recorded before it runs, has
run, has its result recorded; a turn or a reply is recorded; the journal says how a segment ended;
the run is parked, its questions are added; an answer is given, wakes it, is taken; its end is
recorded."""
_KILL = partial(signal.raise_signal, signal.SIGKILL)


class Countdown:
    """Waits for a passage of a point, then ends the process."""

    def __init__(
        self,
        wanted: str,
        die: Callable[[], object] = _KILL,
    ) -> None:
        self._name, _, passage = wanted.partition(":")
        self._left = int(passage or 1)
        self._die = die
        if self._name not in CRASH_POINTS + DURABLE_POINTS:
            known = ", ".join(CRASH_POINTS + DURABLE_POINTS)
            raise ValueError(f"{VARIABLE}: unknown point {self._name!r}; known: {known}")

    def reach(self, name: str) -> None:
        """Count a passage."""
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                self._die()


def make_countdown(wanted: str) -> Countdown | None:
    """Return what the variable asks for; None if it is empty."""
    return Countdown(wanted) if wanted else None


countdown = make_countdown(os.environ.get(VARIABLE, ""))
"""The countdown of this process. A test can replace it."""


def crash_point(name: str) -> None:
    """Die here, if a test says so."""
    if countdown is not None:
        countdown.reach(name)
