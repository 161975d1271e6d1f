"""Read any JSON Schema into a neutral form: valid, in current spelling, with local references.

The result is a valid JSON Schema (2020-12) with known keywords in a fixed order. Every reference
points to its own ``$defs``, and no definition is only a reference to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

from handrail._support import is_list, is_object
from handrail.providers._schema.data import Malformed, clean_text
from handrail.providers._schema.keywords import (
    ANNOTATIONS,
    IN_PLACE,
    MANY,
    NAMED,
    ONE,
    ORDER,
    check_keyword,
    modernize,
)
from handrail.providers._schema.references import References, UnsupportedSchema

Schema: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

MAX_DEPTH = 48
"""Nested schemas."""
MAX_NODES = 20_000
MAX_VALUES = 200_000
_MAX_VALUE_DEPTH = 160
"""Nested values. A schema is at most three of them deep."""

NEVER: Schema = {"not": {}}
"""The schema matching no value, as an object."""
_BOOLEAN = frozenset(("additionalProperties", "items", "unevaluatedItems", "unevaluatedProperties"))
"""Keywords whose ``true`` and ``false`` are kept."""
_NO_PATTERNS: tuple[str, Schema] = ("patternProperties", {})
"""Has no effect, but would look like patterns for some properties."""


class Definitions(dict[str, Schema]):
    """Definitions by name, and a limit on the work they may cause.

    Following a short schema's references can take forever.
    """

    left = 20_000

    def spend(self) -> None:
        """Use up one step. Raises UnsupportedSchema if none is left."""
        self.left -= 1
        if self.left < 0:
            raise UnsupportedSchema("its definitions are too complex")


def order_keywords(schema: Mapping[str, Any]) -> Schema:
    """Sort a schema's keywords."""
    return {name: schema[name] for name in sorted(schema, key=ORDER.__getitem__)}


def schema_of(value: Any) -> Schema:
    """Return a schema as an object: ``true`` accepts everything, ``false`` nothing."""
    if value is True:
        return {}
    return NEVER if value is False else value


def is_never(schema: Any) -> bool:
    """Whether a schema explicitly matches no value."""
    return schema is False or (is_object(schema) and schema.get("not") == {})


def where(path: Path) -> str:
    """Format a path in the arguments for people."""
    return ".".join(path).replace(".[]", "[]") or "arguments"


def plain(value: Any, depth: int = 0, left: list[int] | None = None) -> Any:
    """Copy a value as dicts and lists, with limits on depth and size. Cycles are rejected."""
    left = [MAX_VALUES] if left is None else left
    left[0] -= 1
    if depth > _MAX_VALUE_DEPTH or left[0] < 0:
        raise UnsupportedSchema("too large or nested too deeply")
    if _is_mapping(value):
        return {name: plain(item, depth + 1, left) for name, item in value.items()}
    if _is_sequence(value):
        return [plain(item, depth + 1, left) for item in value]
    return value


def _is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def read_schema(schema: Any) -> tuple[Schema, list[str]]:
    """Return the neutral schema and the losses. Raises UnsupportedSchema."""
    schema = plain(schema)
    reader = _SchemaReader(schema)
    neutral = reader.node(schema, (), 0)
    definitions: Schema = {}
    while todo := [name for name in reader.references.names() if name not in definitions]:
        for name in todo:
            definitions[name] = reader.node(reader.references.target(name), (name,), 0)
    if definitions:
        neutral["$defs"] = Definitions((name, definitions[name]) for name in sorted(definitions))
    _refuse_loops(definitions)
    return neutral, reader.losses


class _SchemaReader:
    def __init__(self, root: Any) -> None:
        self.losses: list[str] = []
        self.references = References(root)
        self._nodes = 0

    def node(self, value: Any, path: Path, depth: int) -> Schema:
        self._count(depth)
        if isinstance(value, bool):
            return dict(schema_of(value))
        if not is_object(value):
            self._lose(path, "schema")
            return {}
        neutral: Schema = {}
        for name, content in modernize(value).items():
            if name not in ORDER or name == "$defs" or (name, content) == _NO_PATTERNS:
                continue
            try:
                neutral[name] = self._keyword(name, content, path, depth)
            except Malformed:
                if name not in ANNOTATIONS:
                    self._lose(path, name)
        return order_keywords(neutral)

    def _count(self, depth: int) -> None:
        self._nodes += 1
        if depth > MAX_DEPTH:
            raise UnsupportedSchema(f"nested more than {MAX_DEPTH} levels deep")
        if self._nodes > MAX_NODES:
            raise UnsupportedSchema(f"more than {MAX_NODES:,} subschemas")

    def _keyword(self, name: str, content: Any, path: Path, depth: int) -> Any:
        if name == "$ref":
            return self.references.local(content)
        if name in ONE | MANY | NAMED:
            return self._inside(name, content, path, depth)
        return check_keyword(name, content)

    def _inside(self, name: str, content: Any, path: Path, depth: int) -> Any:
        if name in ONE:
            if isinstance(content, bool) and name in _BOOLEAN:
                return content
            below = (*path, "[]") if "tems" in name else path
            return self.node(_schema(content), below, depth + 1)
        if name in MANY:
            if not is_list(content) or not content:
                raise Malformed
            return [self.node(_schema(inner), path, depth + 1) for inner in content]
        if not is_object(content):
            raise Malformed
        return {
            _name(key): self.node(inner, (*path, key), depth + 1) for key, inner in content.items()
        }

    def _lose(self, path: Path, name: str) -> None:
        self.losses.append(f"{where(path)}: invalid {name} is omitted")


def _schema(value: Any) -> Any:
    if isinstance(value, bool) or is_object(value):
        return value
    raise Malformed


def _name(value: Any) -> str:
    """Return a property name. Raises UnsupportedSchema if it is not valid text."""
    if not isinstance(value, str) or clean_text(value) != value:
        raise UnsupportedSchema(f"the property name {value!r:.80} is not valid text")
    return value


def _refuse_loops(definitions: Schema) -> None:
    edges = {name: _in_place(node) for name, node in definitions.items()}
    for start, first in edges.items():
        seen: set[str] = set()
        todo = list(first)
        while todo:
            name = todo.pop()
            if name == start:
                raise UnsupportedSchema(f"the definition {start!r} is a circular reference")
            if name not in seen:
                seen.add(name)
                todo += edges[name]


def _in_place(node: Any) -> list[str]:
    """Return the definitions applying to the same value as this schema."""
    targets = [target(node)] if "$ref" in node else []
    for name, value in node.items():
        if name not in IN_PLACE:
            continue
        below = value if name in MANY else value.values() if name in NAMED else [value]
        for inner in below:
            targets += _in_place(inner)
    return targets


def target(node: Mapping[str, Any]) -> str:
    """Return the name of the definition a schema refers to."""
    return str(node["$ref"]).removeprefix("#/$defs/")
