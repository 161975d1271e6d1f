"""JSON Schema keywords: their order, their values, and older spellings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from handrail._support import is_list, is_object
from handrail.providers._schema.data import Malformed, clean_text, data, key

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")

ONE = frozenset(
    "additionalProperties contains else if items not propertyNames then unevaluatedItems "
    "unevaluatedProperties".split()
)
"""Keywords whose value is a schema."""
MANY = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
"""Keywords whose value is a list of schemas."""
NAMED = frozenset(("$defs", "dependentSchemas", "patternProperties", "properties"))
"""Keywords whose value maps names to schemas."""
IN_PLACE = frozenset("allOf anyOf dependentSchemas else if not oneOf then".split())
"""Keywords whose schemas apply to the same value."""
ANNOTATIONS = frozenset(
    "title description contentEncoding contentMediaType examples default deprecated".split()
)
"""Keywords that never reject a value."""
ORDER = {
    keyword: place
    for place, keyword in enumerate(
        "$ref type title description enum const format pattern minLength maxLength minimum maximum "
        "exclusiveMinimum exclusiveMaximum multipleOf properties required additionalProperties "
        "patternProperties propertyNames minProperties maxProperties dependentRequired "
        "dependentSchemas unevaluatedProperties items prefixItems minItems maxItems uniqueItems "
        "contains minContains maxContains unevaluatedItems anyOf oneOf allOf not if then else "
        "contentEncoding contentMediaType examples default deprecated $defs".split()
    )
}


def check_keyword(keyword: str, value: Any) -> Any:
    """Check the value of a keyword without schemas. Raises Malformed."""
    return _CHECKS[keyword](value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Malformed
    return clean_text(value)


def _exact(value: Any) -> str:
    if _text(value) != value:
        raise Malformed
    return str(value)


def _type(value: Any) -> Any:
    kinds = [value] if isinstance(value, str) else value
    if not is_list(kinds) or not kinds or any(kind not in TYPES for kind in kinds):
        raise Malformed
    several = list(dict.fromkeys(kinds))
    if "number" in several and "integer" in several:
        several.remove("integer")
    return several[0] if len(several) == 1 else several


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Malformed
    return data(value)


def _positive(value: Any) -> Any:
    if not _number(value) > 0:
        raise Malformed
    return value


def _count(value: Any) -> int:
    if _number(value) < 0 or value != int(value):
        raise Malformed
    return int(value)


def _values(value: Any) -> list[Any]:
    if not is_list(value) or not value:
        raise Malformed
    return list({key(item): item for item in map(data, reversed(value))}.values())[::-1]


def _some(value: Any) -> list[Any]:
    if not is_list(value):
        raise Malformed
    return [data(item) for item in value]


def _true(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Malformed
    return value


def _names(value: Any) -> list[str]:
    if not is_list(value):
        raise Malformed
    return list(dict.fromkeys(map(_exact, value)))


def _name_lists(value: Any) -> dict[str, list[str]]:
    if not is_object(value):
        raise Malformed
    return {_exact(name): _names(more) for name, more in value.items()}


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "type": _type,
    "title": _text,
    "description": _text,
    "enum": _values,
    "const": data,
    "format": _exact,
    "pattern": _exact,
    **dict.fromkeys("minimum maximum exclusiveMinimum exclusiveMaximum".split(), _number),
    **dict.fromkeys(
        "minLength maxLength minItems maxItems minContains maxContains minProperties "
        "maxProperties".split(),
        _count,
    ),
    "multipleOf": _positive,
    "required": _names,
    "dependentRequired": _name_lists,
    "uniqueItems": _true,
    "deprecated": _true,
    "contentEncoding": _exact,
    "contentMediaType": _exact,
    "examples": _some,
    "default": data,
}


def modernize(value: dict[str, Any]) -> dict[str, Any]:
    """Convert a schema to 2020-12, without keywords ineffective on their own."""
    schema = dict(value)
    _references(schema)
    _tuples(schema)
    _bounds(schema)
    _dependencies(schema)
    if "if" not in schema or not schema.keys() & {"then", "else"}:
        _drop(schema, "if", "then", "else")
    if "contains" not in schema:
        _drop(schema, "minContains", "maxContains")
    return schema


def _drop(schema: dict[str, Any], *names: str) -> None:
    for name in names:
        schema.pop(name, None)


def _references(schema: dict[str, Any]) -> None:
    """Replace dynamic references: in a single schema they have only one target."""
    if "$ref" in schema:
        return
    if isinstance(schema.get("$dynamicRef"), str):
        schema["$ref"] = schema["$dynamicRef"]
    elif "$recursiveRef" in schema:
        schema["$ref"] = "#"


def _tuples(schema: dict[str, Any]) -> None:
    places = schema.get("items")
    if not is_list(places):
        return
    del schema["items"]
    if places:
        schema.setdefault("prefixItems", places)
    if "additionalItems" in schema:
        schema["items"] = schema["additionalItems"]


def _bounds(schema: dict[str, Any]) -> None:
    for strict, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(strict), bool) and schema.pop(strict) and bound in schema:
            schema[strict] = schema.pop(bound)


def _dependencies(schema: dict[str, Any]) -> None:
    old = schema.pop("dependencies", None)
    if not is_object(old):
        return
    lists = {name: needed for name, needed in old.items() if is_list(needed)}
    schemas = {name: needed for name, needed in old.items() if not is_list(needed)}
    if lists:
        schema.setdefault("dependentRequired", lists)
    if schemas:
        schema.setdefault("dependentSchemas", schemas)
