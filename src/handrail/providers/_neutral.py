"""A neutral JSON Schema, read: malformed parts left out, old spellings made new, references local.

What comes out is a valid JSON Schema (2020-12) made of known keywords in one order. Every
reference in it is to one of its own ``$defs``, and none leads back to itself without entering a
value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

from handrail.providers._data import Malformed, clean_text, is_list, is_object
from handrail.providers._drafts import renewed
from handrail.providers._keywords import ANNOTATIONS, IN_PLACE, MANY, NAMED, ONE, ORDER, checked
from handrail.providers._references import References, Unfit

Schema: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

MAX_DEPTH = 48
"""Schemas within schemas."""
MAX_NODES = 20_000
MAX_VALUES = 200_000
_DEEPEST = 160
"""Values within values: a schema is at most three of them deep."""

NEVER: Schema = {"not": {}}
"""What no value fits, as a schema that is an object."""
_BOOLEAN = frozenset(("additionalProperties", "items", "unevaluatedItems", "unevaluatedProperties"))
"""Keywords where ``true`` and ``false`` are said as such."""
_NO_PATTERNS: tuple[str, Schema] = ("patternProperties", {})
"""Says nothing, and would be taken for patterns that speak of some properties."""


class Definitions(dict[str, Schema]):
    """Definitions by name, and how much work there may be with them.

    A short schema can be made so that a walk through it takes for ever.
    """

    left = 20_000

    def spend(self) -> None:
        """Take a step; raises Unfit where there were too many."""
        self.left -= 1
        if self.left < 0:
            raise Unfit("its definitions are too entangled")


def ordered(schema: Mapping[str, Any]) -> Schema:
    """The same keywords, in their one order."""
    return {name: schema[name] for name in sorted(schema, key=ORDER.__getitem__)}


def schema_of(value: Any) -> Schema:
    """A schema as an object: ``true`` takes everything, ``false`` nothing."""
    if value is True:
        return {}
    return NEVER if value is False else value


def is_never(schema: Any) -> bool:
    """Whether it says of itself that nothing fits."""
    return schema is False or (is_object(schema) and schema.get("not") == {})


def where(path: Path) -> str:
    """A place in the arguments, for people."""
    return ".".join(path).replace(".[]", "[]") or "arguments"


def plain(value: Any, depth: int = 0, left: list[int] | None = None) -> Any:
    """A copy as dicts and lists, within bounds: nothing later meets a cycle, or a bomb."""
    left = [MAX_VALUES] if left is None else left
    left[0] -= 1
    if depth > _DEEPEST or left[0] < 0:
        raise Unfit("it is too deep or too long to be sent")
    if _is_mapping(value):
        return {name: plain(one, depth + 1, left) for name, one in value.items()}
    if _is_sequence(value):
        return [plain(one, depth + 1, left) for one in value]
    return value


def _is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def read(schema: Any) -> tuple[Schema, list[str]]:
    """A schema as it is read, and what could not be; raises Unfit where it cannot be read."""
    schema = plain(schema)
    reader = _Reader(schema)
    made = reader.node(schema, (), 0)
    definitions: Schema = {}
    while todo := [name for name in reader.references.names() if name not in definitions]:
        for name in todo:
            definitions[name] = reader.node(reader.references.target(name), (name,), 0)
    if definitions:
        made["$defs"] = Definitions((name, definitions[name]) for name in sorted(definitions))
    _refuse_loops(definitions)
    return made, reader.losses


class _Reader:
    def __init__(self, root: Any) -> None:
        self.losses: list[str] = []
        self.references = References(root)
        self._nodes = 0

    def node(self, value: Any, path: Path, depth: int) -> Schema:
        self._count(depth)
        if isinstance(value, bool):
            return dict(schema_of(value))
        if not is_object(value):
            self._lost(path, "schema")
            return {}
        made: Schema = {}
        for name, said in renewed(value).items():
            if name not in ORDER or name == "$defs" or (name, said) == _NO_PATTERNS:
                continue
            try:
                made[name] = self._keyword(name, said, path, depth)
            except Malformed:
                if name not in ANNOTATIONS:
                    self._lost(path, name)
        return ordered(made)

    def _count(self, depth: int) -> None:
        self._nodes += 1
        if depth > MAX_DEPTH:
            raise Unfit(f"it is nested more than {MAX_DEPTH} levels deep")
        if self._nodes > MAX_NODES:
            raise Unfit(f"it has more than {MAX_NODES:,} parts")

    def _keyword(self, name: str, said: Any, path: Path, depth: int) -> Any:
        if name == "$ref":
            return self.references.local(said)
        if name in ONE | MANY | NAMED:
            return self._inside(name, said, path, depth)
        return checked(name, said)

    def _inside(self, name: str, said: Any, path: Path, depth: int) -> Any:
        if name in ONE:
            if isinstance(said, bool) and name in _BOOLEAN:
                return said
            below = (*path, "[]") if "tems" in name else path
            return self.node(_schema(said), below, depth + 1)
        if name in MANY:
            if not is_list(said) or not said:
                raise Malformed
            return [self.node(_schema(one), path, depth + 1) for one in said]
        if not is_object(said):
            raise Malformed
        return {
            _name(one): self.node(inner, (*path, one), depth + 1) for one, inner in said.items()
        }

    def _lost(self, path: Path, name: str) -> None:
        self.losses.append(f"{where(path)}: its {name} is malformed and is left out")


def _schema(value: Any) -> Any:
    if isinstance(value, bool) or is_object(value):
        return value
    raise Malformed


def _name(value: Any) -> str:
    """A property's name: it cannot be changed, so one that cannot be sent is refused."""
    if not isinstance(value, str) or clean_text(value) != value:
        raise Unfit(f"its property name {value!r:.80} is no text")
    return value


def _refuse_loops(definitions: Schema) -> None:
    edges = {name: _in_place(node) for name, node in definitions.items()}
    for start, first in edges.items():
        seen: set[str] = set()
        todo = list(first)
        while todo:
            name = todo.pop()
            if name == start:
                raise Unfit(f"its definition {start!r} refers to itself without end")
            if name not in seen:
                seen.add(name)
                todo += edges[name]


def _in_place(node: Any) -> list[str]:
    """The definitions that speak of the same value as this schema."""
    found = [target(node)] if "$ref" in node else []
    for name, value in node.items():
        if name not in IN_PLACE:
            continue
        below = value if name in MANY else value.values() if name in NAMED else [value]
        for one in below:
            found += _in_place(one)
    return found


def target(node: Mapping[str, Any]) -> str:
    """The name of the definition that a schema refers to."""
    return str(node["$ref"]).removeprefix("#/$defs/")
