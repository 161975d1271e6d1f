"""Limits for one tool and for a request, in APIs enforcing schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from handrail.providers._schema.neutral import Schema, target
from handrail.providers._schema.phrases import compact
from handrail.providers._schema.recursion import below, circles
from handrail.providers._schema.references import UnsupportedSchema

_MAX_PROPERTIES = 5_000
_MAX_LEVELS = 10
_MAX_VALUES = 1_000
_MAX_CHARS = 120_000
_MAX_SHORT_LIST = 250
_MAX_LIST_CHARS = 15_000
"""For a list with more than ``_MAX_SHORT_LIST`` values."""


@dataclass(frozen=True, slots=True)
class Load:
    """Total size of a request's strict tools."""

    tools: int = 1
    optional: int = 0
    unions: int = 0
    size: float = 0
    """Characters in their schemas."""

    def __add__(self, other: Load) -> Load:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Load(*(mine + more for mine, more in pairs))

    def within(self, limit: Load) -> bool:
        """Whether no number exceeds the limit."""
        pairs = zip(astuple(self), astuple(limit), strict=True)
        return all(mine <= most for mine, most in pairs)


def load(schema: Schema) -> Load:
    """Return one schema's load."""
    nodes = list(below(schema))
    optional = sum(
        name not in node.get("required", ())
        for node in nodes
        for name in node.get("properties", ())
    )
    return Load(1, optional, sum("anyOf" in node for node in nodes), len(compact(schema)))


def refuse_cycles(schema: Schema) -> None:
    """Raise UnsupportedSchema if a definition is recursive."""
    for name in circles(schema.get("$defs", {})):
        raise UnsupportedSchema(f"the recursive definition {name!r} cannot be enforced")


def refuse_endless(schema: Schema) -> None:
    """Raise UnsupportedSchema if a value would have to contain itself without end."""
    definitions = schema.get("$defs", {})
    ending: set[str] = set()
    for _ in definitions:
        ending |= {name for name, schema in definitions.items() if _ends(schema, ending)}
    if not _ends(schema, ending):
        raise UnsupportedSchema("every value would have to contain another one, without end")


def _ends(schema: Schema, ending: set[str]) -> bool:
    """Whether a value can be finite, given the definitions with finite values."""
    if "$ref" in schema:
        return target(schema) in ending
    if "anyOf" in schema:
        return any(_ends(branch, ending) for branch in schema["anyOf"])
    known = schema.get("properties", {})
    needed = [known[name] for name in schema.get("required", ()) if name in known]
    if schema.get("minItems", 0):
        needed += [*schema.get("prefixItems", ()), schema.get("items", {})]
    return all(_ends(inner, ending) for inner in needed)


def refuse_size(schema: Schema) -> None:
    """Raise UnsupportedSchema if a schema is larger than OpenAI enforces."""
    nodes = list(below(schema))
    names = [name for node in nodes for name in node.get("properties", ())]
    lists = [node["enum"] for node in nodes if "enum" in node]
    text = sum(map(len, names)) + sum(map(len, schema.get("$defs", ())))
    text += sum(_length(value) for values in lists for value in values)
    text += sum(_length(node["const"]) for node in nodes if "const" in node)
    too_much = {
        f"{_MAX_PROPERTIES:,} properties": len(names) > _MAX_PROPERTIES,
        f"{_MAX_VALUES:,} allowed values": sum(map(len, lists)) > _MAX_VALUES,
        f"{_MAX_CHARS:,} characters of names and values": text > _MAX_CHARS,
        f"{_MAX_LIST_CHARS:,} characters in one enum": any(
            len(values) > _MAX_SHORT_LIST and sum(map(_length, values)) > _MAX_LIST_CHARS
            for values in lists
        ),
        f"{_MAX_LEVELS} levels": _levels(schema, schema.get("$defs", {}), {}) > _MAX_LEVELS,
    }
    for what, is_true in too_much.items():
        if is_true:
            raise UnsupportedSchema(f"more than {what} cannot be enforced")


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else 0


def _levels(schema: Any, definitions: Mapping[str, Schema], known: dict[str, int]) -> int:
    """Return the values' nesting depth. A recursive definition adds one level."""
    if "$ref" in schema:
        name = target(schema)
        if name not in known:
            known[name] = 0
            known[name] = _levels(definitions[name], definitions, known)
        return known[name]
    insides = [*schema.get("properties", {}).values()]
    if "items" in schema:
        insides.append(schema["items"])
    same = [_levels(branch, definitions, known) for branch in schema.get("anyOf", ())]
    return max([0, *same, *(1 + _levels(nested, definitions, known) for nested in insides)])
