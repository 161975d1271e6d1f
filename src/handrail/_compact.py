"""JSON Schemas, made small and stable: no titles, one key order, definitions inlined where shorter.

Knows where a schema's keywords end and its data begins: a property that happens to be called
``title`` is a property, and a default that looks like a schema is a default.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from handrail._content import is_list, is_object

JsonSchema: TypeAlias = dict[str, Any]

_REF = "#/$defs/"
_ONE = frozenset(
    "additionalProperties contains contentSchema else if items not propertyNames then "
    "unevaluatedItems unevaluatedProperties".split()
)
"""Keywords whose value is a schema."""
_DROPPED = frozenset(("title", "discriminator"))
"""Noise, and a keyword of OpenAPI's whose references would dangle; each branch says its own tag."""
_MAX_HOPS = 16
"""References and unions that lead to one another before we stop following."""
_MANY = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
"""Keywords whose value is a list of schemas."""
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
    """A copy without titles and with keys in one order; ``closed`` objects say so."""

    def tidied(node: Mapping[str, Any]) -> JsonSchema:
        kept = {key: value for key, value in node.items() if key not in _DROPPED}
        if "properties" not in kept and kept.get("additionalProperties") is True:
            del kept["additionalProperties"]  # the default, spelled out
        if closed and "properties" in kept:
            kept.setdefault("additionalProperties", False)
        ordered = sorted(kept, key=lambda key: (_ORDER.get(key, len(_ORDER)), key))
        return _with_children({key: kept[key] for key in ordered}, tidied)

    return tidied(schema)


def lists_property(schema: Mapping[str, Any], path: tuple[str | int, ...]) -> bool:
    """Whether what stands at a path is a property that the schema lists, wherever it leads."""
    nodes = _alternatives(schema, schema)
    for depth, step in enumerate(path, 1):
        if isinstance(step, int):
            found = [node.get("items") for node in nodes]
        else:
            known = (node.get("properties") for node in nodes)
            found = [one[step] for one in known if is_object(one) and step in one]
        if depth == len(path):
            return bool(found) and not isinstance(step, int)
        nodes = [one for node in found for one in _alternatives(node, schema)]
    return False


def _alternatives(node: Any, root: Mapping[str, Any], depth: int = 0) -> list[JsonSchema]:
    """What a schema may stand for: references followed, unions taken apart."""
    if not is_object(node) or depth > _MAX_HOPS:
        return []
    made = [node]
    for union in (node.get("anyOf"), node.get("oneOf")):
        for choice in union if is_list(union) else ():
            made += _alternatives(choice, root, depth + 1)
    definitions = root.get("$defs")
    if (target := _target(node)) and is_object(definitions):
        made += _alternatives(definitions.get(target), root, depth + 1)
    return made


def with_extras(schema: Mapping[str, Any], extras: Mapping[str, Any]) -> JsonSchema:
    """A tidy schema with a parameter's own description or default, still tidy, sharing nothing."""
    made: JsonSchema = {key: schema[key] for key in ("$ref", "type") if key in schema}
    if "description" in extras:
        made["description"] = extras["description"]
    for key, value in schema.items():
        if key not in extras:
            made[key] = copied(value)
    if "default" in extras:
        made["default"] = extras["default"]
    return made


def copied(value: Any) -> Any:
    """A deep copy of JSON: so that two tools with the same type share nothing that can change."""
    if is_object(value):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if is_list(value) else value


def inlined(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> JsonSchema:
    """Replace references by what they refer to where that is shorter; ``$defs`` has the rest."""
    kept = {name: dict(definition) for name, definition in definitions.items()}
    for name in _leaves_first(kept):
        if name in _reached(kept[name], kept):
            continue  # recursive: it can only be referred to
        body = kept[name]
        uses = sum(_references(node)[name] for node in (schema, *kept.values()))
        size, reference = len(json.dumps(body)), len(json.dumps({"$ref": _REF + name}))
        if uses * size <= uses * reference + size + len(name) + 4:
            del kept[name]
            schema = _replaced(schema, name, body)
            kept = {other: _replaced(node, name, body) for other, node in kept.items()}
    return {**schema, "$defs": dict(sorted(kept.items()))} if kept else schema


def renamed(schema: JsonSchema, names: Mapping[str, str]) -> JsonSchema:
    """Point references to definitions at their new names."""

    def pointed(node: Mapping[str, Any]) -> JsonSchema:
        new = names.get(_target(node) or "")
        return _with_children({**node, "$ref": _REF + new} if new else dict(node), pointed)

    return pointed(schema)


def subschemas(schema: Any, depth: int = 0) -> Iterator[tuple[int, JsonSchema]]:
    """Every schema below and including this one, with how deep it lies."""
    if not is_object(schema):
        return  # true and false are schemas too, with nothing inside
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
    def one(value: Any) -> Any:
        return change(value) if is_object(value) else value

    for key, value in node.items():
        if key in _ONE:
            node[key] = one(value)
        elif key in _MANY:
            node[key] = [one(item) for item in value]
        elif key in _NAMED:
            node[key] = {name: one(item) for name, item in value.items()}
    return node


def _target(node: Mapping[str, Any]) -> str | None:
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith(_REF):
        return reference.removeprefix(_REF)
    return None


def _references(schema: JsonSchema) -> Counter[str]:
    targets = (_target(node) for _, node in subschemas(schema))
    return Counter(target for target in targets if target)


def _reached(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> set[str]:
    found: set[str] = set()
    todo = [schema]
    while todo:
        new = set(_references(todo.pop())) - found
        found |= new
        todo += [definitions[name] for name in new]
    return found


def _leaves_first(definitions: Mapping[str, JsonSchema]) -> list[str]:
    """Names in an order in which a definition's size is final before its users' sizes count."""
    return sorted(
        definitions, key=lambda name: (len(_reached(definitions[name], definitions)), name)
    )


def _replaced(schema: JsonSchema, name: str, body: JsonSchema) -> JsonSchema:
    def replaced(node: Mapping[str, Any]) -> JsonSchema:
        if _target(node) == name:
            beside = {key: value for key, value in node.items() if key != "$ref"}
            return tidy({**body, **beside}, closed=False)
        return _with_children(dict(node), replaced)

    return replaced(schema)
