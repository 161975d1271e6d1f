"""The events of an executor and of a registry, for whoever listens."""

from handrail._event import (
    Answered,
    Asked,
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
    "Answered",
    "Asked",
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
