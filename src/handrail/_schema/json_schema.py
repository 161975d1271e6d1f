"""Make JSON Schemas small and stable: no titles, one key order, short definitions inlined.

Separates a schema's keywords from its data. A property called ``title`` is a property, and a
default looking like a schema is a default.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import NoneType
from typing import Any, TypeAlias

from handrail._support import is_list, is_object

JsonSchema: TypeAlias = dict[str, Any]

_REF = "#/$defs/"
_ONE = frozenset(
    "additionalProperties contains contentSchema else if items not propertyNames then "
    "unevaluatedItems unevaluatedProperties".split()
)
"""Keywords whose value is a schema."""
_DROPPED = frozenset(("title", "discriminator"))
"""Noise, and an OpenAPI keyword whose references would break. Each branch has its tag."""
_MAX_ALTERNATIVES = 1_000
"""Schemas collected by following references and unions."""
_MANY = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
"""Keywords whose value is a schema list."""
_NAMED = frozenset(("$defs", "dependentSchemas", "patternProperties", "properties"))
"""Keywords whose value maps names to schemas."""
_ORDER = {
    keyword: place
    for place, keyword in enumerate(
        "$ref type description enum const format pattern minLength maxLength minimum maximum "
        "exclusiveMinimum exclusiveMaximum multipleOf properties required additionalProperties "
        "propertyNames items prefixItems minItems maxItems uniqueItems anyOf oneOf allOf not "
        "examples default $defs".split()
    )
}


def tidy(schema: Mapping[str, Any], *, closed: bool) -> JsonSchema:
    """Return a copy without titles, with keys in one order; ``closed`` adds that to objects."""

    def tidy_node(node: Mapping[str, Any]) -> JsonSchema:
        kept = {key: value for key, value in node.items() if key not in _DROPPED}
        if "properties" not in kept and kept.get("additionalProperties") is True:
            del kept["additionalProperties"]  # the default, spelled out
        if closed and "properties" in kept:
            kept.setdefault("additionalProperties", False)
        ordered = sorted(kept, key=lambda key: (_ORDER.get(key, len(_ORDER)), key))
        return _with_children({key: kept[key] for key in ordered}, tidy_node)

    return tidy_node(schema)


def lists_property(schema: Mapping[str, Any], path: tuple[str | int, ...]) -> bool:
    """Return whether the schema lists the value at a path as a property."""
    if not path or isinstance(path[-1], int):
        return False
    return bool(_schemas_below(_schemas_at(schema, path[:-1]), path[-1]))


def property_names(schema: Mapping[str, Any], path: tuple[str | int, ...]) -> list[str]:
    """Return the property names listed by the schema for the object at a path."""
    listed = (node.get("properties") for node in _schemas_at(schema, path))
    return list(dict.fromkeys(name for names in listed if is_object(names) for name in names))


def may_hold(schema: Mapping[str, Any], path: tuple[str | int, ...], value: Any) -> bool:
    """Return whether the schema allows a value's type at a path."""
    nodes = _schemas_at(schema, path)
    kinds = [node.get("type") for node in nodes]
    flat = [item for kind in kinds for item in (kind if is_list(kind) else [kind])]
    allowed = {kind for kind in flat if isinstance(kind, str)}
    return not allowed or not allowed.isdisjoint(_TYPES[type(value)])


_TYPES: Mapping[type, frozenset[str]] = {
    str: frozenset(("string",)),
    bool: frozenset(("boolean",)),
    int: frozenset(("integer", "number")),
    float: frozenset(("number",)),
    list: frozenset(("array",)),
    dict: frozenset(("object",)),
    NoneType: frozenset(("null",)),
}
"""JSON Schema names for JSON value types."""


def _schemas_at(schema: Mapping[str, Any], path: tuple[str | int, ...]) -> list[JsonSchema]:
    nodes = _alternatives([schema], schema)
    for step in path:
        nodes = _alternatives(_schemas_below(nodes, step), schema)
    return nodes


def _schemas_below(nodes: Iterable[JsonSchema], step: str | int) -> list[Any]:
    if isinstance(step, int):
        return [node.get("items") for node in nodes]
    listed = (node.get("properties") for node in nodes)
    return [names[step] for names in listed if is_object(names) and step in names]


def _alternatives(found: Iterable[Any], root: Mapping[str, Any]) -> list[JsonSchema]:
    """Return the schemas that these may mean: references and unions resolved, each once."""
    made: dict[int, JsonSchema] = {}
    todo = list(found)
    while todo and len(made) < _MAX_ALTERNATIVES:
        node = todo.pop()
        if not is_object(node) or id(node) in made:
            continue
        made[id(node)] = node
        for union in (node.get("anyOf"), node.get("oneOf")):
            todo += union if is_list(union) else ()
        definitions = root.get("$defs")
        if (target := _target(node)) and is_object(definitions):
            todo.append(definitions.get(target))
    return list(made.values())


def add_extras(schema: Mapping[str, Any], extras: Mapping[str, Any]) -> JsonSchema:
    """Return a copy of a tidy schema with a parameter's own description or default."""
    made: JsonSchema = {key: schema[key] for key in ("$ref", "type") if key in schema}
    if "description" in extras:
        made["description"] = extras["description"]
    for key, value in schema.items():
        if key not in extras:
            made[key] = deep_copy(value)
    if "default" in extras:
        made["default"] = extras["default"]
    return made


def deep_copy(value: Any) -> Any:
    """Return a deep copy of JSON, so tools with the same type share nothing mutable."""
    if is_object(value):
        return {key: deep_copy(item) for key, item in value.items()}
    return [deep_copy(item) for item in value] if is_list(value) else value


def inline_definitions(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> JsonSchema:
    """Replace references by their definitions if shorter; ``$defs`` has the rest."""
    kept = {name: dict(definition) for name, definition in definitions.items()}
    for name in _leaves_first(kept):
        if name in _reachable_names(kept[name], kept):
            continue  # recursive, so it needs a reference
        body = kept[name]
        uses = sum(_references(node)[name] for node in (schema, *kept.values()))
        size, reference = len(json.dumps(body)), len(json.dumps({"$ref": _REF + name}))
        if uses * size <= uses * reference + size + len(name) + 4:
            del kept[name]
            schema = _inline_reference(schema, name, body)
            kept = {other: _inline_reference(node, name, body) for other, node in kept.items()}
    return {**schema, "$defs": dict(sorted(kept.items()))} if kept else schema


def rename_references(schema: JsonSchema, names: Mapping[str, str]) -> JsonSchema:
    """Point references to definitions at their new names."""

    def point(node: Mapping[str, Any]) -> JsonSchema:
        new = names.get(_target(node) or "")
        return _with_children({**node, "$ref": _REF + new} if new else dict(node), point)

    return point(schema)


def subschemas(schema: Any, depth: int = 0) -> Iterator[tuple[int, JsonSchema]]:
    """Yield this schema and every schema inside it, with its depth."""
    if not is_object(schema):
        return  # true and false are schemas too
    yield depth, schema
    for key, value in schema.items():
        if key in _ONE:
            yield from subschemas(value, depth + 1)
        elif key in _MANY:
            for item in value:
                yield from subschemas(item, depth + 1)
        elif key in _NAMED:
            for item in value.values():
                yield from subschemas(item, depth + 1)


def _with_children(
    node: JsonSchema, change: Callable[[Mapping[str, Any]], JsonSchema]
) -> JsonSchema:
    def change_if_schema(value: Any) -> Any:
        return change(value) if is_object(value) else value

    for key, value in node.items():
        if key in _ONE:
            node[key] = change_if_schema(value)
        elif key in _MANY:
            node[key] = [change_if_schema(item) for item in value]
        elif key in _NAMED:
            node[key] = {name: change_if_schema(item) for name, item in value.items()}
    return node


def _target(node: Mapping[str, Any]) -> str | None:
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith(_REF):
        return reference.removeprefix(_REF)
    return None


def _references(schema: JsonSchema) -> Counter[str]:
    targets = (_target(node) for _, node in subschemas(schema))
    return Counter(target for target in targets if target)


def _reachable_names(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> set[str]:
    found: set[str] = set()
    todo = [schema]
    while todo:
        new = set(_references(todo.pop())) - found
        found |= new
        todo += [definitions[name] for name in new]
    return found


def _leaves_first(definitions: Mapping[str, JsonSchema]) -> list[str]:
    """Return names in an order where a definition's size is final before it is added to others."""
    return sorted(
        definitions, key=lambda name: (len(_reachable_names(definitions[name], definitions)), name)
    )


def _inline_reference(schema: JsonSchema, name: str, body: JsonSchema) -> JsonSchema:
    def replace_node(node: Mapping[str, Any]) -> JsonSchema:
        if _target(node) == name:
            beside = {key: value for key, value in node.items() if key != "$ref"}
            return tidy({**body, **beside}, closed=False)
        return _with_children(dict(node), replace_node)

    return replace_node(schema)
