"""Validate values against a JSON Schema (2020-12), and generate some. Independent of handrail."""

from __future__ import annotations

import json
import random
import re
from typing import Any

Found = tuple[bool, set[str], set[int]]
"""Whether a value matches, and which properties and items were evaluated."""


def accepts(schema: Any, value: Any) -> bool:
    """Whether a value matches. Formats are ignored."""
    return _check(schema, value, schema, 0)[0]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return (type(one) is type(other) and one == other) or (
        isinstance(one, int | float) and isinstance(other, int | float) and one == other
    )


def _is(value: Any, kind: str) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "number": number,
        "integer": number and value == int(value),
        "boolean": isinstance(value, bool),
        "null": value is None,
    }[kind]


def _check(schema: Any, value: Any, root: Any, depth: int) -> Found:  # noqa: C901, PLR0915  a keyword after the other
    if depth > 60:
        raise RecursionError
    if isinstance(schema, bool):
        return schema, set(), set()
    good = _scalar(schema, value)
    properties: set[str] = set()
    items: set[int] = set()

    def take(found: Found) -> bool:
        if found[0]:
            properties.update(found[1])
            items.update(found[2])
        return found[0]

    def inner(one: Any, some: Any) -> bool:
        return _check(one, some, root, depth + 1)[0]

    if "$ref" in schema:
        node = root
        for step in schema["$ref"].split("/")[1:]:
            node = node[step.replace("~1", "/").replace("~0", "~")]
        good &= take(_check(node, value, root, depth + 1))
    # lists first: every branch must be checked for what it evaluates
    every = [take(_check(one, value, root, depth + 1)) for one in schema.get("allOf", ())]
    good &= all(every)
    if "anyOf" in schema:
        some = [take(_check(one, value, root, depth + 1)) for one in schema["anyOf"]]
        good &= any(some)
    if "oneOf" in schema:
        good &= sum([take(_check(one, value, root, depth + 1)) for one in schema["oneOf"]]) == 1
    if "not" in schema:
        good &= not inner(schema["not"], value)
    if "if" in schema:
        branch = "then" if take(_check(schema["if"], value, root, depth + 1)) else "else"
        good &= take(_check(schema.get(branch, True), value, root, depth + 1))
    if isinstance(value, dict):
        for name, one in schema.get("dependentSchemas", {}).items():
            good &= name not in value or take(_check(one, value, root, depth + 1))
        good &= _object(schema, value, inner, properties)
    if isinstance(value, list):
        good &= _array(schema, value, inner, items)
    return good, properties, items


def _object(schema: Any, value: dict[str, Any], inner: Any, properties: set[str]) -> bool:  # noqa: C901  as above
    known = schema.get("properties", {})
    good = True
    matched: set[str] = set()
    for name, one in value.items():
        if name in known:
            matched.add(name)
            good &= inner(known[name], one)
        for pattern, other in schema.get("patternProperties", {}).items():
            if re.search(pattern, name):
                matched.add(name)
                good &= inner(other, one)
        if "propertyNames" in schema:
            good &= inner(schema["propertyNames"], name)
    rest = value.keys() - matched
    properties |= matched
    if "additionalProperties" in schema:
        good &= all(inner(schema["additionalProperties"], value[name]) for name in rest)
        properties |= rest
    if "unevaluatedProperties" in schema:
        good &= all(
            inner(schema["unevaluatedProperties"], value[name])
            for name in value.keys() - properties
        )
        properties |= value.keys()
    for name, more in schema.get("dependentRequired", {}).items():
        good &= name not in value or set(more) <= value.keys()
    return bool(
        good
        and set(schema.get("required", ())) <= value.keys()
        and schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", 10**9)
    )


def _array(schema: Any, value: list[Any], inner: Any, items: set[int]) -> bool:
    first = schema.get("prefixItems", [])
    good = all(inner(one, some) for one, some in zip(first, value, strict=False))
    items |= set(range(min(len(first), len(value))))
    if "items" in schema:
        good &= all(inner(schema["items"], some) for some in value[len(first) :])
        items |= set(range(len(value)))
    if "contains" in schema:
        fit = [place for place, some in enumerate(value) if inner(schema["contains"], some)]
        good &= schema.get("minContains", 1) <= len(fit) <= schema.get("maxContains", 10**9)
        items |= set(fit)
    if "unevaluatedItems" in schema:
        good &= all(
            inner(schema["unevaluatedItems"], some)
            for place, some in enumerate(value)
            if place not in items
        )
        items |= set(range(len(value)))
    if schema.get("uniqueItems"):
        good &= not any(
            same(one, other) for place, one in enumerate(value) for other in value[:place]
        )
    return bool(good and schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 10**9))


def _scalar(schema: Any, value: Any) -> bool:
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        return False
    if "enum" in schema and not any(same(value, one) for one in schema["enum"]):
        return False
    if "const" in schema and not same(value, schema["const"]):
        return False
    if isinstance(value, str):
        return schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**9) and bool(
            re.search(schema.get("pattern", ""), value)
        )
    if _is(value, "number"):
        low, high = schema.get("minimum"), schema.get("maximum")
        above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        step = schema.get("multipleOf")
        return (
            (low is None or value >= low)
            and (high is None or value <= high)
            and (above is None or value > above)
            and (below is None or value < below)
            and (step is None or abs(value / step - round(value / step)) < 1e-9)
        )
    return True


SCALARS: list[Any] = [
    "",
    "a",
    "b",
    "abc",
    "2026-01-01",
    "x-1",
    "AA",
    0,
    1,
    2,
    -1,
    5,
    7,
    10,
    1.5,
    100,
    True,
    False,
    None,
]


def sample(schema: Any, root: Any, rnd: random.Random, depth: int = 0) -> Any:
    """A value that may match: it mostly follows the schema."""
    if not isinstance(schema, dict) or depth > 6 or rnd.random() < 0.06:
        return _anything(rnd, depth)
    if "$ref" in schema:
        node = root
        for step in schema["$ref"].split("/")[1:]:
            node = node[step]
        return sample(node, root, rnd, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rnd.choice(schema["enum"])
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            made = sample(rnd.choice(schema[union]), root, rnd, depth + 1)
            rest = {name: one for name, one in schema.items() if name != union}
            other = (
                sample(rest, root, rnd, depth + 1) if rest.keys() & {"type", "properties"} else None
            )
            return {**other, **made} if isinstance(made, dict) and isinstance(other, dict) else made
    kinds = schema.get("type", "object" if "properties" in schema else [])
    kind = kinds if isinstance(kinds, str) else rnd.choice(kinds) if kinds else None
    return _of(kind, schema, root, rnd, depth=depth)


def _of(kind: str | None, schema: Any, root: Any, rnd: random.Random, *, depth: int) -> Any:
    if kind == "object":
        known = schema.get("properties", {})
        made = {
            name: sample(one, root, rnd, depth + 1)
            for name, one in known.items()
            if name in schema.get("required", ()) or rnd.random() < 0.6
        }
        if rnd.random() < 0.25:
            made[rnd.choice(["extra", "x-1", "a", "b"])] = sample(
                schema.get("additionalProperties", True), root, rnd, depth + 1
            )
        for name in schema.get("required", ()):
            made.setdefault(name, _anything(rnd, depth))
        return made
    if kind == "array":
        first = schema.get("prefixItems", [])
        length = rnd.choice(
            [len(first), schema.get("minItems", 0), schema.get("maxItems", 2), rnd.randrange(4)]
        )
        return [
            sample(
                first[place] if place < len(first) else schema.get("items", True),
                root,
                rnd,
                depth + 1,
            )
            for place in range(min(length, 5))
        ]
    pool = {
        "string": [one for one in SCALARS if isinstance(one, str)],
        "integer": [0, 1, 2, -1, 5, 7, 10, 100, schema.get("minimum", 3), schema.get("maximum", 3)],
        "number": [0, 1, 1.5, -1, 5, 10, 2.25, schema.get("minimum", 3), schema.get("maximum", 3)],
        "boolean": [True, False],
        "null": [None],
    }.get(kind or "")
    return rnd.choice(pool) if pool else _anything(rnd, depth)


def _anything(rnd: random.Random, depth: int) -> Any:
    if depth < 4 and rnd.random() < 0.3:
        if rnd.random() < 0.5:
            return [_anything(rnd, depth + 2) for _ in range(rnd.randrange(3))]
        return {rnd.choice("abc"): _anything(rnd, depth + 2) for _ in range(rnd.randrange(3))}
    return rnd.choice(SCALARS)


def samples(schema: Any, seed: int, count: int = 20) -> list[dict[str, Any]]:
    """Objects that may or may not match a schema, without duplicates."""
    rnd = random.Random(seed)  # noqa: S311
    made = (sample(schema, schema, rnd) for _ in range(count))
    return list(
        {json.dumps(one, sort_keys=True): one for one in made if isinstance(one, dict)}.values()
    )
