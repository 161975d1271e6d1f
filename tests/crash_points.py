"""Kill a process at a named point of a run: ``write.made`` at once, ``write.made:3`` the third time.

``crash_env`` returns the environment of a program that is killed; ``crashing/sitecustomize.py``
reads it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from handrail.runs._store import points

VARIABLE = "HANDRAIL_TEST_CRASH"
WRITE_POINTS = ("write.begun", "write.made", "write.committed")
"""A transaction of a file has begun, has its rows, is committed."""
DURABLE_POINTS = (
    "turn.begun",
    "call.begun",
    "call.intended",
    "call.ran",
    "call.stored",
    "call.recorded",
    "turn.recorded",
    "model.recorded",
    "run.sealed",
    "run.parked",
    "run.asked",
    "answer.given",
    "answers.taken",
    "run.ended",
    "run.cancelled",
)
"""A turn or a call has begun; a call is recorded before it runs, has run, has its result recorded, or is recorded with it;
a turn or a reply is recorded; the journal says how a segment ended; the run is parked, its questions
are added; an answer is given, is taken; its end is recorded, or that it was
cancelled."""


class Countdown:
    """Waits for a passage of a point, then ends the process."""

    def __init__(self, wanted: str, die: Callable[[], object]) -> None:
        self._name, _, passage = wanted.partition(":")
        self._left = int(passage or 1)
        self._die = die
        assert self._name in WRITE_POINTS + DURABLE_POINTS, wanted

    def __call__(self, name: str) -> None:
        """Count a passage."""
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                self._die()


def install(wanted: str) -> None:
    """Let this process die at a point."""
    points.on_point = Countdown(wanted, partial(os.kill, os.getpid(), signal.SIGKILL))


def crash_env(wanted: str) -> dict[str, str]:
    """Return variables that let a program die at a point."""
    here = Path(__file__).parent
    paths = (str(here / "crashing"), str(here), os.environ.get("PYTHONPATH", ""))
    return {VARIABLE: wanted, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
