"""Two schemas as one that takes what both take, exactly; or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any

from handrail.providers._data import key
from handrail.providers._neutral import NEVER, Definitions, Schema, is_never, schema_of, target

_DEEPEST = 24
_MOST_BRANCHES = 16


class NoMeet(Exception):
    """No single schema says what both say."""


def meet(one: Schema, other: Schema, definitions: Definitions, depth: int = 0) -> Schema:
    """What both take; raises NoMeet where no single schema can say that."""
    definitions.spend()
    if depth > _DEEPEST:
        raise NoMeet
    if one == other or not other:
        return one
    if not one:
        return other
    one, other = (_opened(each, definitions, depth) for each in (one, other))
    return NEVER if is_never(one) or is_never(other) else _met(one, other, definitions, depth)


def _met(one: Schema, other: Schema, definitions: Definitions, depth: int) -> Schema:
    made = {**other, **one}
    for keywords, joined in _GROUPS:
        if keywords & one.keys() or keywords & other.keys():
            said = joined(one, other, definitions, depth)
            for name in keywords:
                made.pop(name, None)
            made.update(said)
    for name in one.keys() & other.keys() - _JOINED:
        made[name] = _joined(name, one[name], other[name])
    return NEVER if _is_empty(made) else made


def _apart(one: Schema, other: Schema, definitions: Definitions, depth: int) -> Schema:
    return meet(scoped(one), scoped(other), definitions, depth + 1)


def opened(schema: Schema, definitions: Definitions) -> Schema:
    """The same without ``$ref`` and ``allOf`` at its top; raises NoMeet where that cannot be."""
    return _opened(schema, definitions, 0)


def _opened(schema: Schema, definitions: Definitions, depth: int) -> Schema:
    while "$ref" in schema or "allOf" in schema:
        parts = [definitions[target(schema)]] if "$ref" in schema else []
        parts += schema.get("allOf", ())
        schema = {name: one for name, one in schema.items() if name not in {"$ref", "allOf"}}
        for part in parts:
            schema = meet(schema, scoped(part), definitions, depth + 1)
    return schema


def scoped(schema: Schema) -> Schema:
    """A branch whose ``unevaluated…`` looks at nothing outside of it, in plain keywords."""
    if "unevaluatedProperties" not in schema and "unevaluatedItems" not in schema:
        return schema
    if schema.keys() & _APPLICATORS:
        raise NoMeet
    made = dict(schema)
    for name, plain in _PLAIN:
        if name in made:
            said = made.pop(name)
            made.setdefault(plain, said)
    return made


_PLAIN = (("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", "items"))
_APPLICATORS = frozenset("$ref allOf anyOf oneOf not if dependentSchemas contains".split())


def _types(one: Schema, other: Schema, _definitions: Definitions, _depth: int) -> Schema:
    if "type" not in one or "type" not in other:
        return {"type": one.get("type", other.get("type"))}
    first, second = kinds(one), kinds(other)
    both = [kind for kind in first if kind in second]
    for few, many in ((first, second), (second, first)):
        if "integer" in few and "number" in many and "integer" not in both:
            both.append("integer")
    if not both:
        return NEVER
    return {"type": both[0] if len(both) == 1 else both}


def kinds(schema: Mapping[str, Any]) -> list[str]:
    """The types that a schema names."""
    said = schema.get("type", [])
    return [said] if isinstance(said, str) else list(said)


def _values(one: Schema, other: Schema, _definitions: Definitions, _depth: int) -> Schema:
    first, second = values(one), values(other)
    if first is None or second is None:
        return _valued(first or second or [])
    known = {key(value) for value in second}
    return _valued([value for value in first if key(value) in known])


def values(schema: Mapping[str, Any]) -> list[Any] | None:
    """The values that a schema lists, if it does."""
    if "const" not in schema:
        return schema.get("enum")
    if "enum" in schema and key(schema["const"]) not in map(key, schema["enum"]):
        return []
    return [schema["const"]]


def _valued(some: list[Any]) -> Schema:
    if not some:
        return NEVER
    return {"const": some[0]} if len(some) == 1 else {"enum": some}


def _objects(one: Schema, other: Schema, definitions: Definitions, depth: int) -> Schema:
    if "patternProperties" in one or "patternProperties" in other:
        return _patterned(one, other)
    more, further = (each.get("additionalProperties", True) for each in (one, other))
    mine, yours = (each.get("properties", {}) for each in (one, other))
    made: Schema = {}
    if "properties" in one or "properties" in other:
        made["properties"] = {
            name: _apart(
                schema_of(mine.get(name, more)),
                schema_of(yours.get(name, further)),
                definitions,
                depth,
            )
            for name in dict.fromkeys([*mine, *yours])
        }
    if more is not True or further is not True:
        made["additionalProperties"] = _both(more, further, definitions, depth)
    elif "additionalProperties" in one or "additionalProperties" in other:
        made["additionalProperties"] = True
    return made


def _patterned(one: Schema, other: Schema) -> Schema:
    """Names by pattern can only be kept as they are, where the other side leaves them alone."""
    said = [each for each in (one, other) if each.keys() & _OBJECT]
    if len(said) > 1:
        raise NoMeet
    return {name: said[0][name] for name in _OBJECT if name in said[0]}


def _both(one: Any, other: Any, definitions: Definitions, depth: int) -> Any:
    """Two that may be ``true`` or ``false``, as one."""
    if one is True or other is True:
        return other if one is True else one
    made = _apart(schema_of(one), schema_of(other), definitions, depth)
    return False if is_never(made) else made


def _arrays(one: Schema, other: Schema, definitions: Definitions, depth: int) -> Schema:
    mine, yours = (each.get("prefixItems", []) for each in (one, other))
    more, further = (each.get("items", True) for each in (one, other))
    made: Schema = {}
    pairs = zip_longest(mine, yours, fillvalue=None)
    if mine or yours:
        made["prefixItems"] = [
            _apart(
                schema_of(more if first is None else first),
                schema_of(further if second is None else second),
                definitions,
                depth,
            )
            for first, second in pairs
        ]
    if more is not True or further is not True:
        made["items"] = _both(more, further, definitions, depth)
    return made


def _unions(one: Schema, other: Schema, definitions: Definitions, depth: int) -> Schema:
    if "anyOf" not in one or "anyOf" not in other:
        return {"anyOf": one.get("anyOf", other.get("anyOf"))}
    if len(one["anyOf"]) * len(other["anyOf"]) > _MOST_BRANCHES:
        raise NoMeet
    pairs = ((a, b) for a in one["anyOf"] for b in other["anyOf"])
    made = [_apart(a, b, definitions, depth) for a, b in pairs]
    some = [branch for branch in made if not is_never(branch)]
    return {"anyOf": some} if some else NEVER


_OBJECT = frozenset(("properties", "additionalProperties", "patternProperties"))
_GROUPS: tuple[tuple[frozenset[str], Callable[[Schema, Schema, Definitions, int], Schema]], ...] = (
    (frozenset(("type",)), _types),
    (frozenset(("enum", "const")), _values),
    (_OBJECT, _objects),
    (frozenset(("items", "prefixItems")), _arrays),
    (frozenset(("anyOf",)), _unions),
)
_JOINED = frozenset(name for names, _ in _GROUPS for name in names)
_LOWER = frozenset("minimum exclusiveMinimum minLength minItems minProperties minContains".split())
_UPPER = frozenset("maximum exclusiveMaximum maxLength maxItems maxProperties maxContains".split())
_FIRST = frozenset("title description examples default contentEncoding contentMediaType".split())


def _joined(name: str, one: Any, other: Any) -> Any:
    if name in _FIRST or key(one) == key(other):
        return one
    if name == "multipleOf" and not (isinstance(one, int) and isinstance(other, int)):
        raise NoMeet
    if name not in _TOGETHER:
        raise NoMeet
    return _TOGETHER[name](one, other)


_TOGETHER: Mapping[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(_LOWER, max),
    **dict.fromkeys(_UPPER, min),
    "required": lambda one, other: list(dict.fromkeys([*one, *other])),
    "multipleOf": math.lcm,
    "uniqueItems": lambda _one, _other: True,
    "deprecated": lambda _one, _other: True,
    "not": lambda one, other: {"anyOf": [one, other]},
}


def _is_empty(made: Schema) -> bool:
    """Whether a required property can have no value."""
    known = made.get("properties", {})
    more = made.get("additionalProperties")
    required = made.get("required", ())
    certain = made.get("type") == "object" and "patternProperties" not in made
    return certain and any(is_never(known.get(name, more)) for name in required)
