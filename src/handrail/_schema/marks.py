"""Markers in JSON Schemas: that values in a result or in arguments they are about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from handrail._labels.sources import DESTINATION_KEY, OWN_KEY
from handrail._schema.json_schema import JsonSchema
from handrail._support import is_list, is_object

_REF = "#/$defs/"


class Leaf(NamedTuple):
    """A string, number or key in a value."""

    place: str
    value: str


class MarkedLeaf(NamedTuple):
    """A marked value, with the marker's scheme."""

    place: str
    value: str
    scheme: str


def split_marks(schema: JsonSchema) -> tuple[JsonSchema, JsonSchema | None]:
    """Return a schema without markers; and the one with them, or None if there are none."""
    plain: JsonSchema = _without_marks(schema)
    return (plain, schema) if plain != schema else (schema, None)


def _without_marks(node: Any) -> Any:
    if is_object(node):
        kept = {key: _without_marks(value) for key, value in node.items() if key not in _KEYS}
        if kept.get("propertyNames") == {} != node["propertyNames"]:
            del kept["propertyNames"]
        return kept
    return [_without_marks(item) for item in node] if is_list(node) else node


_KEYS = frozenset((OWN_KEY, DESTINATION_KEY))


def find_marked(schema: Mapping[str, Any], value: Any, key: str) -> list[MarkedLeaf]:
    """Return the marked values inside a value.

    Among alternatives in the schema, one that may fit and has no marker there decides.
    """
    return list(dict.fromkeys(_walk(schema, value, "", _Walk(schema, key))))


class _Walk(NamedTuple):
    root: Mapping[str, Any]
    key: str

    def resolve(self, node: Any) -> Any:
        target = node.get("$ref") if is_object(node) else None
        found: Any = self.root.get("$defs", {})
        if isinstance(target, str) and target.startswith(_REF):
            below = found.get(target.removeprefix(_REF), {})
            return {**below, **{name: each for name, each in node.items() if name != "$ref"}}
        return node


def _walk(schema: Any, value: Any, place: str, walk: _Walk) -> Iterator[MarkedLeaf]:
    node = walk.resolve(schema)
    if not is_object(node):
        return
    scheme = node.get(walk.key)
    if scheme is not None:
        yield from (MarkedLeaf(*leaf, scheme) for leaf in find_leaves(value, place))
        return
    for alternatives in filter(is_list, (node.get("anyOf"), node.get("oneOf"))):
        fitting = [one for one in alternatives if _may_fit(walk.resolve(one), value, walk)]
        found = [list(_walk(one, value, place, walk)) for one in fitting]
        yield from (
            (leaf for leaf in found[0] if all(leaf in one for one in found[1:])) if found else ()
        )
    for part in node.get("allOf", ()):
        yield from _walk(part, value, place, walk)
    if is_object(value):
        yield from _walk_object(node, value, place, walk)
    elif is_list(value):
        first: Any = node.get("prefixItems", ())
        for index, item in enumerate(value):
            below = first[index] if index < len(first) else node.get("items")
            yield from _walk(below, item, f"{place}[{index}]", walk)


def _walk_object(
    node: Mapping[str, Any], value: Mapping[str, Any], place: str, walk: _Walk
) -> Iterator[MarkedLeaf]:
    listed, others = node.get("properties", {}), node.get("additionalProperties")
    names = walk.resolve(node.get("propertyNames"))
    if is_object(names) and walk.key in names:
        yield from (MarkedLeaf(join(place, name), name, names[walk.key]) for name in value)
    for name, item in value.items():
        yield from _walk(listed.get(name, others), item, join(place, name), walk)


def _may_fit(node: Any, value: Any, walk: _Walk) -> bool:
    """Return whether a value may fit an alternative, by its type, keys and constants."""
    if not is_object(node):
        return True
    if "const" in node and node["const"] != value:
        return False
    if "enum" in node and value not in node["enum"]:
        return False
    kind = _KINDS.get(node.get("type", ""))
    if kind is not None and not isinstance(value, kind):
        return False
    if not is_object(value):
        return True
    listed = node.get("properties", {})
    return all(name in value for name in node.get("required", ())) and all(
        _may_fit(walk.resolve(listed[name]), item, walk)
        for name, item in value.items()
        if name in listed
    )


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "object": dict,
    "array": list,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def find_leaves(value: Any, place: str = "") -> Iterator[Leaf]:
    """Yield the strings and numbers in a value, with their places."""
    if isinstance(value, str):
        yield Leaf(place, value)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        yield Leaf(place, str(value))
    elif is_object(value):
        for key, item in value.items():
            yield from find_leaves(item, join(place, key))
    elif is_list(value):
        for index, item in enumerate(value):
            yield from find_leaves(item, f"{place}[{index}]")


def join(place: str, key: str) -> str:
    """Return a key's place."""
    return f"{place}.{key}" if place else key
