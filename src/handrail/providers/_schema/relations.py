"""Relations between schemas: combine two, check that two exclude each other, check a value.

These functions decide the simple cases. The others are described to the model in text, and checked
when the tool is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from typing import Any, TypeAlias

from handrail._support import is_list, is_object
from handrail.providers._schema.data import key, type_of
from handrail.providers._schema.keywords import ANNOTATIONS, TYPES
from handrail.providers._schema.neutral import (
    NEVER,
    Definitions,
    Schema,
    is_never,
    schema_of,
    target,
)

Answer: TypeAlias = bool | None
"""None if the answer is not known."""

_MAX_DEPTH = 64
_MAX_TAG_DEPTH = 8
_UNKNOWN = frozenset(
    "pattern patternProperties propertyNames contains unevaluatedProperties unevaluatedItems "
    "if dependentSchemas dependentRequired multipleOf".split()
)


def kinds(schema: Mapping[str, Any]) -> list[str]:
    """Return the types a schema names."""
    named = schema.get("type", [])
    return [named] if isinstance(named, str) else list(named)


def values(schema: Mapping[str, Any]) -> list[Any] | None:
    """Return the values a schema lists, or None."""
    if "const" not in schema:
        return schema.get("enum")
    if "enum" in schema and key(schema["const"]) not in map(key, schema["enum"]):
        return []
    return [schema["const"]]


def open_schema(
    schema: Schema, definitions: Definitions, depth: int = 0
) -> tuple[Schema, list[Schema]]:
    """Combine a schema with its ``$ref`` and its ``allOf`` into one schema.

    Returns it with the parts it does not fully express. It accepts every value the original
    accepts, and only those if there are no such parts.
    """
    definitions.spend()
    parts = [definitions[target(schema)]] if "$ref" in schema else []
    parts += schema.get("allOf", ())
    whole = {name: value for name, value in schema.items() if name not in {"$ref", "allOf"}}
    if depth > _MAX_DEPTH:
        return whole, parts
    unexpressed: list[Schema] = []
    for part in parts:
        whole, exact = combine(whole, part, definitions, depth + 1)
        if not exact:
            unexpressed.append(part)
    for name in ("unevaluatedProperties", "unevaluatedItems"):
        if unexpressed and name in whole:  # it depends on all parts, and some are missing
            unexpressed.append({name: whole.pop(name)})
    return whole, unexpressed


def combine(
    schema: Schema, part: Schema, definitions: Definitions, depth: int = 0
) -> tuple[Schema, bool]:
    """Combine a schema with another part. If both have a keyword, the schema's is used.

    The result accepts every value accepted by both. The second value reports whether it is exact.
    """
    part, unexpressed = open_schema(part, definitions, depth)
    plain = without_unevaluated(part)
    exact = not unexpressed and plain is not None
    part = plain if plain is not None else {n: v for n, v in part.items() if n not in _PLAIN}
    if is_never(schema) or is_never(part):
        return NEVER, True
    combined = {**part, **schema}
    for group in _GROUPS:
        mine, theirs = ({n: each[n] for n in group if n in each} for each in (schema, part))
        if mine and theirs and key(mine) != key(theirs):
            together, is_exact = _combine_group(mine, theirs)
            combined = {n: v for n, v in combined.items() if n not in group} | together
            exact = exact and is_exact
    for name in (schema.keys() & part.keys()) - _GROUPED - ANNOTATIONS:
        if name == "required":
            combined[name] = list(dict.fromkeys([*schema[name], *part[name]]))
        elif key(schema[name]) != key(part[name]):
            exact = False
    return combined, exact


def combine_each(
    schema: Schema, branches: Iterable[Schema], definitions: Definitions
) -> tuple[list[Schema], bool]:
    """Combine a schema with each branch of a union, and report whether every result is exact."""
    combined = [combine(schema, branch, definitions) for branch in branches]
    exact = all(is_exact for _, is_exact in combined)
    return [
        {name: value for name, value in branch.items() if exact or name not in _PLAIN}
        for branch, _ in combined
    ], exact


def _combine_group(mine: Schema, theirs: Schema) -> tuple[Schema, bool]:
    """Combine mutually dependent keywords. Only ``properties`` can be merged."""
    if mine.keys() != {"properties"} or "properties" not in theirs:
        return mine, False
    known, more = mine["properties"], theirs["properties"]
    alike = all(key(known[name]) == key(more[name]) for name in known.keys() & more.keys())
    return {"properties": {**known, **more, **known}}, alike and theirs.keys() == {"properties"}


_GROUPS = tuple(
    frozenset(names.split())
    for names in (
        "properties additionalProperties patternProperties",
        "items prefixItems",
        "contains minContains maxContains",
        "if then else",
    )
)
_GROUPED = frozenset(name for group in _GROUPS for name in group)


def without_unevaluated(schema: Schema) -> Schema | None:
    """Replace ``unevaluated…`` keywords with plain ones, or return None if they mean more."""
    if not schema.keys() & _PLAIN.keys():
        return schema
    if schema.keys() & _APPLICATORS:
        return None
    plain = dict(schema)
    for name, keyword in _PLAIN.items():
        if name in plain:
            value = plain.pop(name)
            plain.setdefault(keyword, value)
    return plain


_PLAIN = {"unevaluatedProperties": "additionalProperties", "unevaluatedItems": "items"}
_APPLICATORS = frozenset("$ref allOf anyOf oneOf not if dependentSchemas contains".split())


def are_exclusive(schemas: list[Schema], definitions: Definitions) -> bool:
    """Whether no value can match two schemas, by type or by a required tag."""
    return all(_differ(first, second, definitions, 0) for first, second in combinations(schemas, 2))


def _differ(first: Schema, second: Schema, definitions: Definitions, depth: int) -> bool:
    if depth > _MAX_TAG_DEPTH:
        return False
    first, second = (open_schema(each, definitions)[0] for each in (first, second))
    if is_never(first) or is_never(second) or not _types(first) & _types(second):
        return True
    mine, theirs = values(first), values(second)
    if mine is not None and theirs is not None:
        return not set(map(key, mine)) & set(map(key, theirs))
    if not kinds(first) == kinds(second) == ["object"]:
        return False
    required = set(first.get("required", ())) & set(second.get("required", ()))
    tags = sorted(
        required & first.get("properties", {}).keys() & second.get("properties", {}).keys()
    )
    return any(
        _differ(first["properties"][name], second["properties"][name], definitions, depth + 1)
        for name in tags
    )


def _types(schema: Schema) -> set[str]:
    """Return the matching types. Integers are included in numbers."""
    listed = values(schema)
    named = kinds(schema) if listed is None else [type_of(value) for value in listed]
    return {"number" if kind == "integer" else kind for kind in named or TYPES}


def fits(schema: Schema, value: Any, definitions: Definitions, depth: int = 0) -> Answer:
    """Whether a value matches a schema, or None if unknown."""
    definitions.spend()
    if depth > _MAX_DEPTH:
        return None
    answers: list[Answer] = [None] if schema.keys() & _UNKNOWN else []
    if "$ref" in schema:
        answers.append(fits(definitions[target(schema)], value, definitions, depth + 1))
    named = kinds(schema)
    kind = type_of(value)
    if named and kind not in named and not (kind == "integer" and "number" in named):
        return False
    listed = values(schema)
    if listed is not None:
        answers.append(key(value) in map(key, listed))
    for name, join in _UNIONS.items():
        if name in schema:
            branches = [fits(branch, value, definitions, depth + 1) for branch in schema[name]]
            answers.append(join(branches))
    if "not" in schema:
        inner = fits(schema["not"], value, definitions, depth + 1)
        answers.append(None if inner is None else not inner)
    answers += _inside(schema, value, definitions, depth)
    answers += [limit(value, schema[name]) for name, limit in _LIMITS.items() if name in schema]
    return _all(answers)


def _any(answers: list[Answer]) -> Answer:
    return True if True in answers else None if None in answers else False


def _exactly_one(answers: list[Answer]) -> Answer:
    if answers.count(True) > 1:
        return False
    return None if None in answers else True in answers


def _all(answers: list[Answer]) -> Answer:
    return False if False in answers else None if None in answers else True


_UNIONS: Mapping[str, Callable[[list[Answer]], Answer]] = {
    "anyOf": _any,
    "oneOf": _exactly_one,
    "allOf": _all,
}


def _inside(schema: Schema, value: Any, definitions: Definitions, depth: int) -> list[Answer]:
    if is_object(value):
        known = schema.get("properties", {})
        free = "patternProperties" in schema  # patterns apply to some other properties
        more = {} if free else schema_of(schema.get("additionalProperties", True))
        return [
            fits(known.get(name, more), item, definitions, depth + 1)
            if known.get(name, more)
            else True
            for name, item in value.items()
        ]
    if is_list(value):
        first = schema.get("prefixItems", [])
        more = schema_of(schema.get("items", True))
        each = [*first, *[more] * (len(value) - len(first))]
        pairs = zip(each, value, strict=False)
        return [fits(inner, item, definitions, depth + 1) for inner, item in pairs]
    return []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_LIMITS: Mapping[str, Callable[[Any, Any], bool]] = {
    "required": lambda value, names: not is_object(value) or set(names) <= value.keys(),
    "minimum": lambda value, least: not _is_number(value) or value >= least,
    "maximum": lambda value, most: not _is_number(value) or value <= most,
    "exclusiveMinimum": lambda value, least: not _is_number(value) or value > least,
    "exclusiveMaximum": lambda value, most: not _is_number(value) or value < most,
    "minLength": lambda value, least: not isinstance(value, str) or len(value) >= least,
    "maxLength": lambda value, most: not isinstance(value, str) or len(value) <= most,
    "minItems": lambda value, least: not is_list(value) or len(value) >= least,
    "maxItems": lambda value, most: not is_list(value) or len(value) <= most,
    "minProperties": lambda value, least: not is_object(value) or len(value) >= least,
    "maxProperties": lambda value, most: not is_object(value) or len(value) <= most,
    "uniqueItems": lambda value, yes: (
        not yes or not is_list(value) or len(set(map(key, value))) == len(value)
    ),
}
