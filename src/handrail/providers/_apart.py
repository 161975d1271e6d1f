"""Whether two schemas have no value in common, as far as that is plain."""

from __future__ import annotations

from itertools import combinations

from handrail.providers._fits import fits
from handrail.providers._meet import NoMeet, kinds, opened, values
from handrail.providers._neutral import Definitions, Schema, is_never

_DEEPEST = 4


def all_apart(some: list[Schema], definitions: Definitions) -> bool:
    """Whether no value fits two of them."""
    return all(_are_apart(one, other, definitions, 0) for one, other in combinations(some, 2))


def _are_apart(one: Schema, other: Schema, definitions: Definitions, depth: int) -> bool:
    if depth > _DEEPEST:
        return False
    try:
        one, other = opened(one, definitions), opened(other, definitions)
    except NoMeet:
        return False
    if is_never(one) or is_never(other):
        return True
    for first, second in ((one, other), (other, one)):
        listed = values(first)
        if listed is not None:
            return all(fits(second, value, definitions) is False for value in listed)
    first_kinds, second_kinds = _kinds(one), _kinds(other)
    if not first_kinds & second_kinds:
        return True
    return first_kinds & second_kinds == {"object"} and _differ(one, other, definitions, depth)


def _kinds(schema: Schema) -> set[str]:
    """Types, with whole numbers among the numbers."""
    named = {"number" if kind == "integer" else kind for kind in kinds(schema)}
    return named or {"object", "array", "string", "number", "boolean", "null"}


def _differ(one: Schema, other: Schema, definitions: Definitions, depth: int) -> bool:
    """Whether a property that both require, or that one requires and the other bans, decides."""
    for first, second in ((one, other), (other, one)):
        missing = set(first.get("required", ())) - set(second.get("properties", ()))
        closed = second.get("additionalProperties") is False and "patternProperties" not in second
        if closed and missing:
            return True
    both = set(one.get("required", ())) & set(other.get("required", ()))
    return any(
        _are_apart(
            one.get("properties", {}).get(name, {}),
            other.get("properties", {}).get(name, {}),
            definitions,
            depth + 1,
        )
        for name in sorted(both)
    )
