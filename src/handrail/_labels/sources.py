"""Sources: who named a value in a call, and the type markers for declaring it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

SourceKind: TypeAlias = Literal["person", "own", "read", "nowhere"]
"""Who named a value: a person, your own systems, a text from a tool, or no one. The most reliable
first."""
SOURCE_KINDS: tuple[SourceKind, ...] = get_args(SourceKind)
SAID = "said"
"""The scheme for a person's words."""
OWN_KEY, DESTINATION_KEY = "x-handrail-own", "x-handrail-destination"
"""The markers in a JSON Schema. They are removed before a model or a server receives it."""


class _Marks:
    """Writes a marker into the annotated type's JSON Schema."""

    def __init__(self, key: str, scheme: str = "") -> None:
        self._key, self._scheme = key, scheme

    def __get__(self, marker: Any, _: Any = None) -> Callable[[Any, Any], dict[str, Any]]:
        scheme = self._scheme if marker is None else marker.scheme

        def mark(core: Any, handler: Any) -> dict[str, Any]:
            return {**handler(core), self._key: scheme}

        return mark


@dataclass(frozen=True, slots=True)
class Own:
    """Marks a result or a field that only you or your own systems can set.

    Ask for each field: could a stranger choose this value, without you or the system doing
    anything? If not, it is your own: ``id: Annotated[str, Own]``. With a scheme, as in
    ``Own("event")``, the value is known only as a resource with this scheme, or as an argument with
    this name.
    """

    scheme: str = ""
    __get_pydantic_json_schema__ = _Marks(OWN_KEY)


@dataclass(frozen=True, slots=True)
class Said:
    """Marks text from a person in a result, such as an answer: ``-> Annotated[str, Said]``.

    This person has named the names in it.
    """

    @property
    def scheme(self) -> str:
        """Their scheme."""
        return SAID

    __get_pydantic_json_schema__ = _Marks(OWN_KEY, SAID)


@dataclass(frozen=True, slots=True)
class Destination:
    """Marks an argument saying where something goes: ``to: Annotated[str, Destination]``.

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
    """Who named one value in a call."""

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
    """A part read there, if the value is from nowhere: a code in an address."""
    is_link: bool = False
    """Whether it is a link, an address or an account number in a longer text."""
    verb: str = ""
    """What the call does to the resource: ``read``, ``write`` or ``destroy``; empty for others."""
    title: str = ""
    """What the value is called where it was read, such as an event's title."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, without empty fields."""
        kept = {name: value for name, value in asdict(self).items() if value not in ("", False)}
        return {"value": self.value, "name": self.name, **kept}

    @classmethod
    def from_dict(cls, value: Any) -> ValueSource:
        """Read what ``to_dict`` returned. Raises ValueError for anything else."""
        needed, fields = {"value", "name", "kind"}, cls.__dataclass_fields__
        given: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if not needed <= given.keys() <= fields.keys():
            raise ValueError(f"{value!r} is not a source")
        texts = [item for name, item in given.items() if name != "is_link"]
        is_link = given.get("is_link", False)
        if not all(isinstance(one, str) for one in texts) or not isinstance(is_link, bool):
            raise ValueError(f"{value!r} is not a source")
        if given["kind"] not in SOURCE_KINDS:
            raise ValueError(f"{given['kind']!r} is not a kind of source")
        return cls(**given)

    @property
    def is_known(self) -> bool:
        """Whether a person or your own systems named it."""
        return self.kind in ("person", "own")

    def is_at_most(self, kind: SourceKind) -> bool:
        """Return whether the value's source is this kind, or a less reliable one."""
        return SOURCE_KINDS.index(self.kind) >= SOURCE_KINDS.index(kind)
