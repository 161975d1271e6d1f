"""Result: the outcome of one call, successful or failed."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never, final

from handrail._support import is_list, is_object
from handrail._values.content import EMPTY, Content, File, Image, Json, Text, estimate_tokens
from handrail._values.pending import Pending, read_pending, write_pending
from handrail._values.saved import VERSION, Fields, load, save

if TYPE_CHECKING:
    from handrail._labels.sources import OwnValue  # which few results have


class Fault(Enum):
    """Who acts next after a failure."""

    MODEL = "model"
    """The model sent a wrong call: it should call again, corrected."""
    PERSON = "person"
    """A person or a policy denied the call, or has not answered yet: continue without it."""
    WORLD = "world"
    """Something outside the tool failed: wait, or check what happened."""
    TOOL = "tool"
    """The tool did its work and reports a failure: read the message."""
    AUTHOR = "author"
    """The tool is broken: its author must fix it."""


class FailureKind(StrEnum):
    """The kind of a failure. The strings are stable: they are public API."""

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
        """Who acts next after a failure of this kind."""
        return _FAULTS[self]


_FAULTS = {
    FailureKind.UNKNOWN_TOOL: Fault.MODEL,
    FailureKind.BAD_ARGS: Fault.MODEL,
    FailureKind.STALE: Fault.MODEL,
    FailureKind.DENIED: Fault.PERSON,
    FailureKind.PENDING: Fault.PERSON,
    FailureKind.TRANSIENT: Fault.WORLD,
    FailureKind.TIMEOUT: Fault.WORLD,
    FailureKind.CANCELLED: Fault.WORLD,
    FailureKind.UNKNOWN: Fault.WORLD,
    FailureKind.FAILED: Fault.TOOL,
    FailureKind.BUG: Fault.AUTHOR,
}


@final
@dataclass(frozen=True, slots=True)
class Failure:
    """The reason for a failed result: a kind for your code, and a message for the model."""

    kind: FailureKind
    message: str
    detail: str = ""
    """Diagnostic detail for logs, such as a traceback. Never sent to a model."""


class Result(NamedTuple):
    """The outcome of one call, for the model.

    A tuple, while other values are dataclasses: each call creates one, and a frozen dataclass takes
    six times as long to create.
    """

    call_id: str
    text: str
    """All text of the result, as the model reads it."""
    parts: tuple[Content, ...] = ()
    """The parts of the result in order, if it has more than text."""
    data: str | None = None
    """The JSON text, if the tool returned data instead of text."""
    failure: Failure | None = None
    pending: Pending | None = None
    """The approval request, if the call has not run yet. Save it, and answer it later."""
    metadata: Mapping[str, Json] = EMPTY
    """Facts for your application, such as a source or a cost. Never sent to a model."""
    found: tuple[str, ...] = ()
    """The tools this call found. From here on, the model can call them by name."""
    own: tuple[OwnValue, ...] = ()
    """The values that only you or your own systems can set, as the tool's ``Own`` declares."""
    seconds: float | None = None
    """How long the call ran, if it did. Two results that differ only in this are equal."""

    @classmethod
    def fail(cls, call_id: str, kind: FailureKind, message: str, detail: str = "") -> Result:
        """Return a failed result whose text is the failure's message."""
        return cls(call_id, message, failure=Failure(kind, message, detail))

    @property
    def content(self) -> tuple[Content, ...]:
        """The result in order: text, images, files."""
        return self.parts or (Text(self.text),)

    @property
    def tokens(self) -> int:
        """About how many tokens the text costs a model: a quarter of its characters."""
        return estimate_tokens(self.text)

    def to_json(self) -> str:
        """Return JSON text for ``from_json``. Raises ValueError for metadata that is not JSON."""
        return save(write_result(self))

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Read what ``to_json`` wrote. Raises ValueError for any other text."""
        return load("Result", text, read_result)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Result):
            return self[:-1] == other[:-1]
        return False if isinstance(other, tuple) else NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        return hash(self[:_BEFORE_METADATA])

    def __repr__(self) -> str:
        names = self._fields[:_BEFORE_METADATA]
        shown = [f"{name}={value!r}" for name, value in zip(names, self, strict=False)]
        shown += [f"metadata={dict(self.metadata)!r}"] if self.metadata else []
        shown += [f"found={self.found!r}"] if self.found else []
        shown += [f"own={self.own!r}"] if self.own else []
        return f"Result({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Result, (
            *self[:_BEFORE_METADATA],
            dict(self.metadata),
            *self[_BEFORE_METADATA + 1 :],
        )


_BEFORE_METADATA = 6
"""The number of fields before the metadata, which has no hash."""


def timed(result: Result, seconds: float | None) -> Result:
    """Return a result with the seconds its call ran."""
    return result._replace(seconds=seconds)


_new: Callable[..., Any] = vars(tuple)["__new__"]


def write_result(result: Result) -> dict[str, Any]:
    """Return what ``to_json`` writes, as values."""
    failure, pending = result.failure, result.pending
    return {
        "v": VERSION,
        "call_id": result.call_id,
        "text": result.text,
        "parts": [_write_part(part) for part in result.parts],
        "data": result.data,
        "failure": failure
        and {"kind": failure.kind, "message": failure.message, "detail": failure.detail},
        "pending": pending and write_pending(pending),
        "metadata": dict(result.metadata),
        "found": list(result.found),
        **({"own": [list(one) for one in result.own]} if result.own else {}),
        "seconds": result.seconds,
    }


def read_result(value: object) -> Result:
    """Return a result from what ``write_result`` returned. Raises ValueError for anything else."""
    if is_object(value):
        value = {"own": [], **value}
    saved = Fields.with_version(value, Result._fields)
    return Result(
        saved.text("call_id"),
        saved.text("text"),
        tuple(_read_part(part) for part in saved.items("parts")),
        saved.optional("data", saved.text),
        _read_failure(saved.value["failure"]),
        None if saved.value["pending"] is None else read_pending(saved.value["pending"]),
        saved.get_object("metadata"),
        saved.texts("found"),
        tuple(_read_own(one) for one in saved.items("own")),
        saved.optional("seconds", saved.number),
    )


def _write_part(part: Content) -> dict[str, str]:
    match part:
        case Text(text):
            return {"text": text}
        case Image(data, media_type):
            return {"image": b64encode(data).decode(), "media_type": media_type}
        case File(data, media_type, name):
            return {"file": b64encode(data).decode(), "media_type": media_type, "name": name}
        case _:
            assert_never(part)


def _read_part(value: object) -> Content:
    if is_object(value) and "text" in value:
        return Text(Fields(value, ("text",)).text("text"))
    if is_object(value) and "image" in value:
        saved = Fields(value, ("image", "media_type"))
        return Image(_read_bytes(saved, "image"), saved.text("media_type"))
    saved = Fields(value, ("file", "media_type", "name"))
    return File(_read_bytes(saved, "file"), saved.text("media_type"), saved.text("name"))


def _read_bytes(saved: Fields, name: str) -> bytes:
    try:
        return b64decode(saved.text(name), validate=True)
    except ValueError:
        raise ValueError(f"{name!r} must be bytes in base64") from None


def _read_failure(value: object) -> Failure | None:
    if value is None:
        return None
    saved = Fields(value, ("kind", "message", "detail"))
    kind = saved.text("kind")
    if kind not in _KINDS:
        raise ValueError(f"{kind!r} is not a kind of failure")
    return Failure(_KINDS[kind], saved.text("message"), saved.text("detail"))


_KINDS = {kind.value: kind for kind in FailureKind}


def _read_own(value: Any) -> OwnValue:
    """Return a value of a result from plain data. Raises ValueError for any other shape."""
    from handrail._labels.sources import OwnValue

    kinds: list[type] = [type(part) for part in value] if is_list(value) else []
    if kinds != [str, str, str, bool]:
        raise ValueError("'own' must be a list of values with their places")
    return OwnValue(*value)
