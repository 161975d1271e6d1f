"""Readiness: whether a call can start."""

from __future__ import annotations

from enum import Enum, auto


class Readiness(Enum):
    """Whether a call can start."""

    UNSCHEDULED = auto()
    BEHIND = auto()
    """On arrival, it had to wait for another call."""
    CLEAR = auto()
    """On arrival, it lacked only its approval, the decisions about other calls, or a slot."""
    STARTED = auto()
    STUCK = auto()
    """It can never start, because an abandoned thread does not end."""


UNSCHEDULED, BEHIND, CLEAR, STARTED, STUCK = Readiness
"""Looking up an enum's member takes longer than comparing it."""
