"""What goes back to a model, good or failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, NamedTuple

from handrail._content import Content, Text
from handrail._pending import Pending


class Fault(Enum):
    """Whose fault a failure is, and so who acts next."""

    MODEL = "model"
    """The model called it wrongly: it should call again, corrected."""
    PERSON = "person"
    """A person or their policy refused, or has yet to answer: go about something else."""
    WORLD = "world"
    """Something between here and there: wait, or check what happened."""
    TOOL = "tool"
    """The tool did its work and says no: read why."""
    AUTHOR = "author"
    """The tool is broken: whoever wrote it must act."""


class Kind(StrEnum):
    """What kind of failure it is. The strings are stable: they are public API."""

    UNKNOWN_TOOL = "unknown_tool"
    BAD_ARGS = "bad_args"
    STALE = "stale"
    DENIED = "denied"
    PENDING = "pending"
    TRANSIENT = "transient"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    FAILED = "failed"
    BUG = "bug"

    @property
    def fault(self) -> Fault:
        """Whose fault it is."""
        return _FAULTS[self]


_FAULTS = {
    Kind.UNKNOWN_TOOL: Fault.MODEL,
    Kind.BAD_ARGS: Fault.MODEL,
    Kind.STALE: Fault.MODEL,
    Kind.DENIED: Fault.PERSON,
    Kind.PENDING: Fault.PERSON,
    Kind.TRANSIENT: Fault.WORLD,
    Kind.TIMEOUT: Fault.WORLD,
    Kind.CANCELLED: Fault.WORLD,
    Kind.UNKNOWN: Fault.WORLD,
    Kind.FAILED: Fault.TOOL,
    Kind.BUG: Fault.AUTHOR,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no good result: a kind to branch on, a message a model can act on."""

    kind: Kind
    message: str
    detail: str = ""
    """For whoever runs the program: what really happened. Never shown to a model."""


class Result(NamedTuple):
    """What one call gives back to the model.

    A tuple, where the other words are dataclasses: every call makes one, and a frozen dataclass
    costs six times as much to make as all else that a call's result needs.
    """

    call_id: str
    text: str
    """All words of the result, as the model reads them."""
    parts: tuple[Content, ...] = ()
    """The result in order, where it is more than words."""
    data: str | None = None
    """The JSON alone, where the tool gave data rather than words."""
    failure: Failure | None = None
    pending: Pending | None = None
    """What the call waits for, where it has not run yet: keep it, and answer it later."""

    @classmethod
    def fail(cls, call_id: str, kind: Kind, message: str, detail: str = "") -> Result:
        """A failed result whose text is the failure's message."""
        return cls(call_id, message, failure=Failure(kind, message, detail))

    @property
    def content(self) -> tuple[Content, ...]:
        """The result in order: words, pictures, files."""
        return self.parts or (Text(self.text),)


def good(call_id: str, text: str, data: str | None = None) -> Result:
    """A result of words or data, made fast."""
    made: Result = _new(Result, (call_id, text, (), data, None, None))
    return made


_new: Callable[..., Any] = vars(tuple)["__new__"]
