"""Whether a value fits a schema: yes, no, or not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from handrail.providers._data import is_list, is_object, key, type_of
from handrail.providers._meet import kinds, values
from handrail.providers._neutral import Definitions, Schema, schema_of, target

Answer: TypeAlias = bool | None
"""None where it would take more than this to know."""

_DEEPEST = 64
_UNKNOWN = frozenset(
    "pattern patternProperties propertyNames contains unevaluatedProperties unevaluatedItems "
    "if dependentSchemas dependentRequired multipleOf".split()
)


def fits(schema: Schema, value: Any, definitions: Definitions, depth: int = 0) -> Answer:
    """Whether a value fits; ``False`` only where that is sure, and ``True`` likewise."""
    definitions.spend()
    if depth > _DEEPEST:
        return None
    answers: list[Answer] = [None] if schema.keys() & _UNKNOWN else []
    if "$ref" in schema:
        answers.append(fits(definitions[target(schema)], value, definitions, depth + 1))
    named = kinds(schema)
    kind = type_of(value)
    if named and kind not in named and not (kind == "integer" and "number" in named):
        return False
    some = values(schema)
    if some is not None:
        answers.append(key(value) in map(key, some))
    for name, joined in _UNIONS.items():
        if name in schema:
            answers.append(
                joined([fits(one, value, definitions, depth + 1) for one in schema[name]])
            )
    if "not" in schema:
        inner = fits(schema["not"], value, definitions, depth + 1)
        answers.append(None if inner is None else not inner)
    answers += _inside(schema, value, definitions, depth)
    answers += [limit(value, schema[name]) for name, limit in _LIMITS.items() if name in schema]
    return _all(answers)


def _some(answers: list[Answer]) -> Answer:
    return True if True in answers else None if None in answers else False


def _one(answers: list[Answer]) -> Answer:
    if answers.count(True) > 1:
        return False
    return None if None in answers else True in answers


def _all(answers: list[Answer]) -> Answer:
    return False if False in answers else None if None in answers else True


_UNIONS: Mapping[str, Callable[[list[Answer]], Answer]] = {
    "anyOf": _some,
    "oneOf": _one,
    "allOf": _all,
}


def _inside(schema: Schema, value: Any, definitions: Definitions, depth: int) -> list[Answer]:
    if is_object(value):
        known = schema.get("properties", {})
        free = "patternProperties" in schema  # which speak of some of the rest
        more = {} if free else schema_of(schema.get("additionalProperties", True))
        return [
            fits(known.get(name, more), one, definitions, depth + 1)
            if known.get(name, more)
            else True
            for name, one in value.items()
        ]
    if is_list(value):
        first = schema.get("prefixItems", [])
        more = schema_of(schema.get("items", True))
        each = [*first, *[more] * (len(value) - len(first))]
        return [fits(s, one, definitions, depth + 1) for s, one in zip(each, value, strict=False)]
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
