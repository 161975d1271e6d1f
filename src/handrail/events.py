"""Events: one value for each step of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal, TypeAlias

from handrail._values.access import Access
from handrail._values.approval import Edit
from handrail._values.call import Call
from handrail._values.decision import Allow, Decision, Deny, Review
from handrail._values.pending import Pending
from handrail._values.result import FailureKind, Result

if TYPE_CHECKING:
    from handrail._labels.sources import ValueSource  # which few calls have

__all__ = [
    "Answered",
    "Asked",
    "AttemptFailed",
    "CredentialUsed",
    "Decided",
    "Event",
    "Finished",
    "Lost",
    "Progressed",
    "Requested",
    "Reviewed",
    "Started",
    "Stored",
    "ToolsChanged",
    "WaitReason",
    "Waiting",
    "Yielded",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsChanged:
    """A registry's tools changed. The names are sorted."""

    generation: int
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class _Fact:
    """Fields and methods shared by all events: methods for each class would make imports slow."""

    number: int = field(default=0, compare=False, repr=False)
    """The event's number within its executor. Ignored when comparing events."""
    turn: str = field(default="", compare=False, repr=False)
    """The run and the turn, as in the keys of their calls. Ignored, too."""

    def _compared(self) -> tuple[object, ...]:
        return tuple(getattr(self, one.name) for one in fields(self) if one.compare)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def __repr__(self) -> str:
        shown = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr]
        return f"{type(self).__qualname__}({', '.join(shown)})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Requested(_Fact):
    """A model requested a call."""

    at: float
    call: Call


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Decided(_Fact):
    """The policy decided a call, given what it will touch."""

    at: float
    call_id: str
    accesses: tuple[Access, ...]
    decision: Decision
    call: Call | None = None
    """The call as it was decided, if it differs from the requested one."""
    sources: tuple[ValueSource, ...] = field(default=(), compare=False, repr=False)
    """Who named its destinations, as the policy saw it."""
    after: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, repr=False)
    """The first calls that read a stranger's text or something private, as the policy saw it."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Asked(_Fact):
    """A call waits for approval."""

    at: float
    pending: Pending


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answered(_Fact):
    """An approval request was answered. Later events show whether the answer was used."""

    at: float
    pending_id: str
    call_id: str
    answer: Allow | Deny | Edit | Result
    asked_at: float = field(default=0.0, compare=False, repr=False)
    """When the request was made, perhaps by another process."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reviewed(_Fact):
    """A second model gave its opinion on an approval request, before a person."""

    at: float
    pending_id: str
    call_id: str
    review: Review


WaitReason: TypeAlias = Literal["resource", "slot", "queue", "rate"]
"""Why a call waits: earlier calls use a resource it needs too, no slot is free, or it is on a
queue of durable runs, which has a limit of calls or of calls per time."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Waiting(_Fact):
    """A call cannot start yet."""

    at: float
    call_id: str
    on: tuple[str, ...]
    """Ids of the calls to wait for: those using the resource, or those holding the slots."""
    reason: WaitReason = "resource"
    what: str = ""
    """The resource, the queue, or the tool whose slots are taken; empty for all slots."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Started(_Fact):
    """A tool was called: the first attempt, or a retry."""

    at: float
    call_id: str
    attempt: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Progressed(_Fact):
    """A tool reports its progress."""

    at: float
    call_id: str
    message: str
    fraction: float | None = None
    """The finished part, from 0 to 1, if known."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CredentialUsed(_Fact):
    """A tool got the credential that its principal has for a service."""

    at: float
    call_id: str
    name: str
    """The service."""
    principal: str | None
    """Whose credential it is."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Yielded(_Fact):
    """A streaming tool yielded the next piece."""

    at: float
    call_id: str
    text: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lost(_Fact):
    """The listener is too slow: ``count`` events before the next one were dropped."""

    count: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttemptFailed(_Fact):
    """An attempt failed, and the call will be retried."""

    at: float
    call_id: str
    attempt: int
    kind: FailureKind
    message: str
    again_in: float
    """Seconds until the next attempt."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Stored(_Fact):
    """A result was truncated: ``chars`` characters are stored under its call's id."""

    at: float
    call_id: str
    chars: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Finished(_Fact):
    """A call has its result."""

    at: float
    result: Result


Event: TypeAlias = (
    Requested
    | Decided
    | Asked
    | Answered
    | Reviewed
    | Waiting
    | Started
    | CredentialUsed
    | Progressed
    | Yielded
    | AttemptFailed
    | Stored
    | Finished
    | Lost
)
"""One step in a call."""
