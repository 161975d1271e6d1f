"""Spellings of older drafts of JSON Schema, in today's."""

from __future__ import annotations

from typing import Any

from handrail.providers._data import is_list, is_object


def renewed(value: dict[str, Any]) -> dict[str, Any]:
    """A schema in the spelling of 2020-12, without keywords that say nothing alone."""
    made = dict(value)
    _references(made)
    _tuples(made)
    _bounds(made)
    _dependencies(made)
    if "if" not in made or not made.keys() & {"then", "else"}:
        _drop(made, "if", "then", "else")
    if "contains" not in made:
        _drop(made, "minContains", "maxContains")
    return made


def _drop(made: dict[str, Any], *names: str) -> None:
    for name in names:
        made.pop(name, None)


def _references(made: dict[str, Any]) -> None:
    """In a schema that stands alone, what is dynamic leads to the one place of that name."""
    if "$ref" in made:
        return
    if isinstance(made.get("$dynamicRef"), str):
        made["$ref"] = made["$dynamicRef"]
    elif "$recursiveRef" in made:
        made["$ref"] = "#"


def _tuples(made: dict[str, Any]) -> None:
    places = made.get("items")
    if not is_list(places):
        return
    del made["items"]
    if places:
        made.setdefault("prefixItems", places)
    if "additionalItems" in made:
        made["items"] = made["additionalItems"]


def _bounds(made: dict[str, Any]) -> None:
    for strict, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(made.get(strict), bool) and made.pop(strict) and bound in made:
            made[strict] = made.pop(bound)


def _dependencies(made: dict[str, Any]) -> None:
    old = made.pop("dependencies", None)
    if not is_object(old):
        return
    lists = {name: one for name, one in old.items() if is_list(one)}
    schemas = {name: one for name, one in old.items() if not is_list(one)}
    if lists:
        made.setdefault("dependentRequired", lists)
    if schemas:
        made.setdefault("dependentSchemas", schemas)
