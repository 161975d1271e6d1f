"""Sources: who named the value that a call uses, and the markers that declare it on types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from handrail._values.saved import Fields

SourceKind: TypeAlias = Literal["person", "own", "read", "nowhere"]
"""Who named a value: a person, your own systems, a text from a tool, or no one. The most reliable
first."""
SOURCE_KINDS: tuple[SourceKind, ...] = get_args(SourceKind)
OWN_KEY, DESTINATION_KEY = "x-handrail-own", "x-handrail-destination"
"""The markers in a JSON Schema. They are removed before a model or a server receives it."""


class _Marks:
    """Writes a marker into the annotated type's JSON Schema."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __get__(self, marker: Any, _: Any = None) -> Callable[[Any, Any], dict[str, Any]]:
        scheme = "" if marker is None else marker.scheme

        def mark(core: Any, handler: Any) -> dict[str, Any]:
            return {**handler(core), self._key: scheme}

        return mark


@dataclass(frozen=True, slots=True)
class Own:
    """Marks a result or a field that only you or your own systems can set.

    Ask of each field: could a stranger choose this value, without you or the system doing anything?
    If not, it is your own: ``id: Annotated[str, Own]``. With a scheme, as in ``Own("event")``, the
    value is known only as a resource of this scheme, or as an argument of this name.
    """

    scheme: str = ""
    __get_pydantic_json_schema__ = _Marks(OWN_KEY)


@dataclass(frozen=True, slots=True)
class Destination:
    """Marks an argument that says where something goes: ``to: Annotated[str, Destination]``.

    Resources that ``touches`` takes from the arguments are destinations without it.
    """

    scheme: str = ""
    __get_pydantic_json_schema__ = _Marks(DESTINATION_KEY)


class OwnValue(NamedTuple):
    """A value in a result, which only you or your own systems can set."""

    value: str
    place: str = ""
    """Where it is in the result, such as ``[0].id``."""
    scheme: str = ""
    """Its scheme; empty for any."""
    is_new: bool = False
    """Whether the call has made it, such as a new event's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSource:
    """Who named one value of a call."""

    value: str
    """The value, as the model wrote it."""
    name: str
    """The resource's scheme, or the argument's name."""
    kind: SourceKind
    call_id: str = ""
    """The call whose result has it; empty if it is from a person, or nowhere."""
    tool: str = ""
    """That call's tool."""
    place: str = ""
    """Where it is there, such as ``[0].subject``."""
    quote: str = ""
    """The words around it, as they were written."""
    part: str = ""
    """A part that was read there, if the value is from nowhere: a code in an address."""
    is_link: bool = False
    """Whether it is a link, an address or an account number in a longer text."""
    verb: str = ""
    """What the call does to the resource: ``read``, ``write`` or ``destroy``; empty for others."""
    title: str = ""
    """What the value is called where it was read, such as an event's title."""

    def is_at_most(self, kind: SourceKind) -> bool:
        """Return whether the value's source is this kind, or a less reliable one."""
        return SOURCE_KINDS.index(self.kind) >= SOURCE_KINDS.index(kind)


def write_source(source: ValueSource) -> dict[str, Any]:
    """Return a source as plain data, without empty fields."""
    kept = {name: value for name, value in asdict(source).items() if value not in ("", False)}
    return {"value": source.value, "name": source.name, **kept}


def read_source(value: Any) -> ValueSource:
    """Return a source from plain data. Raises ValueError for any other shape."""
    omitted: Mapping[str, Any] = {**_EMPTY, **value} if isinstance(value, dict) else value
    saved = Fields(omitted, ValueSource.__dataclass_fields__)
    kind: Any = saved.text("kind")
    if kind not in SOURCE_KINDS:
        raise ValueError(f"{kind!r} is not a kind of source")
    texts = {name: saved.text(name) for name in _TEXTS}
    return ValueSource(**texts, kind=kind, is_link=saved.get("is_link", bool))


_TEXTS = tuple(name for name in ValueSource.__dataclass_fields__ if name not in ("kind", "is_link"))
_EMPTY = {**dict.fromkeys(_TEXTS[2:], ""), "is_link": False}


def write_own(own: OwnValue) -> list[Any]:
    """Return a result's value as plain data."""
    return [own.value, own.place, own.scheme, own.is_new]


def read_own(value: Any) -> OwnValue:
    """Return a value of a result from plain data. Raises ValueError for any other shape."""
    kinds = [type(part) for part in value] if isinstance(value, list) else []
    if kinds != [str, str, str, bool]:
        raise ValueError("'own' must be a list of values with their places")
    return OwnValue(*value)
