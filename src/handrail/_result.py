"""What goes back to a model, good or failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum

from handrail._content import Content, Text


class Fault(Enum):
    """Whose fault a failure is, and so who acts next."""

    MODEL = "model"
    """The model called it wrongly: it should call again, corrected."""
    PERSON = "person"
    """A person or their policy refused: the model should go about it another way."""
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


@dataclass(frozen=True, slots=True)
class Result:
    """What one call gives back to the model."""

    call_id: str
    content: tuple[Content, ...]
    failure: Failure | None = field(default=None, kw_only=True)

    @classmethod
    def fail(cls, call_id: str, kind: Kind, message: str) -> Result:
        """A failed result whose text is the failure's message."""
        return cls(call_id, (Text(message),), failure=Failure(kind, message))

    @property
    def text(self) -> str:
        """All words of the result, as the model reads them."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))
