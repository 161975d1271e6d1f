"""The events of an executor and of a registry, for whoever listens."""

from handrail._event import (
    AttemptFailed,
    Event,
    Finished,
    Judged,
    Progressed,
    Requested,
    Started,
    Stored,
    ToolsChanged,
    Waiting,
)

__all__ = [
    "AttemptFailed",
    "Event",
    "Finished",
    "Judged",
    "Progressed",
    "Requested",
    "Started",
    "Stored",
    "ToolsChanged",
    "Waiting",
]
