"""Facts, as values: one for each step of a call, for whoever wants to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from handrail._access import Access
from handrail._call import Call
from handrail._decision import Allow, Decision, Deny
from handrail._pending import Edit, Pending
from handrail._result import Kind, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsChanged:
    """A registry's tools are no longer what they were; the names are sorted."""

    generation: int
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Requested:
    """A model asked for a call."""

    at: float
    call: Call


@dataclass(frozen=True, slots=True)
class Judged:
    """A call was judged, knowing what it will touch."""

    at: float
    call_id: str
    accesses: tuple[Access, ...]
    decision: Decision
    call: Call | None = None
    """The call as it was judged, where that is not as it was requested."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call waits for somebody's answer."""

    at: float
    pending: Pending


@dataclass(frozen=True, slots=True)
class Answered:
    """Somebody answered; whether that counts is told by what follows."""

    at: float
    pending_id: str
    call_id: str
    answer: Allow | Deny | Edit | Result


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call may not start yet: earlier ones touch the same, or as many as may are running."""

    at: float
    call_id: str
    on: tuple[str, ...]
    """The calls that must end first; empty, where only a place is missing."""


@dataclass(frozen=True, slots=True)
class Started:
    """A tool was called, for the first time or again."""

    at: float
    call_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Progressed:
    """A tool says how far it is."""

    at: float
    call_id: str
    words: str


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """An attempt failed, and another will be made."""

    at: float
    call_id: str
    attempt: int
    kind: Kind
    message: str
    again_in: float
    """Seconds until the next attempt."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A result was too long: all of it is kept under its call's id."""

    at: float
    call_id: str
    chars: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A call has its result."""

    at: float
    result: Result


Event: TypeAlias = (
    Requested
    | Judged
    | Asked
    | Answered
    | Waiting
    | Started
    | Progressed
    | AttemptFailed
    | Stored
    | Finished
)
