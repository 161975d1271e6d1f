"""How much a wire that enforces schemas takes, of one tool and of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from handrail.providers._cycles import below, circles
from handrail.providers._neutral import Schema, target
from handrail.providers._phrases import compact
from handrail.providers._references import Unfit

_PROPERTIES = 5_000
_LEVELS = 10
_VALUES = 1_000
_TEXT = 120_000
_MANY_VALUES = 250
_VALUES_TEXT = 15_000


@dataclass(frozen=True, slots=True)
class Load:
    """What the strict tools of a request add up to."""

    tools: int = 1
    optional: int = 0
    unions: int = 0
    size: float = 0
    """Characters of their schemas."""

    def __add__(self, other: Load) -> Load:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Load(*(mine + more for mine, more in pairs))

    def within(self, limit: Load) -> bool:
        """Whether each number is at most the limit's."""
        pairs = zip(astuple(self), astuple(limit), strict=True)
        return all(mine <= most for mine, most in pairs)


def load(schema: Schema) -> Load:
    """What one schema adds."""
    nodes = list(below(schema))
    optional = sum(
        name not in node.get("required", ())
        for node in nodes
        for name in node.get("properties", ())
    )
    return Load(1, optional, sum("anyOf" in node for node in nodes), len(compact(schema)))


def refuse_cycles(schema: Schema) -> None:
    """Raise Unfit where a definition leads to itself."""
    for name in circles(schema.get("$defs", {})):
        raise Unfit(f"its definition {name!r} contains itself, which cannot be enforced")


def refuse_endless(schema: Schema) -> None:
    """Raise Unfit where a value would have to contain itself: whoever enforces that never ends."""
    definitions = schema.get("$defs", {})
    ending: set[str] = set()
    for _ in definitions:
        ending |= {name for name, one in definitions.items() if _ends(one, ending)}
    if not _ends(schema, ending):
        raise Unfit("its values would have to contain themselves without end")


def _ends(schema: Schema, ending: set[str]) -> bool:
    """Whether a value can be complete, with those definitions that can."""
    if "$ref" in schema:
        return target(schema) in ending
    if "anyOf" in schema:
        return any(_ends(one, ending) for one in schema["anyOf"])
    known = schema.get("properties", {})
    needed = [known[name] for name in schema.get("required", ()) if name in known]
    if schema.get("minItems", 0):
        needed += [*schema.get("prefixItems", ()), schema.get("items", {})]
    return all(_ends(one, ending) for one in needed)


def refuse_size(schema: Schema) -> None:
    """Raise Unfit where a schema is larger than what OpenAI enforces."""
    nodes = list(below(schema))
    names = [name for node in nodes for name in node.get("properties", ())]
    lists = [node["enum"] for node in nodes if "enum" in node]
    text = sum(map(len, names)) + sum(map(len, schema.get("$defs", ())))
    text += sum(_length(one) for some in lists for one in some)
    text += sum(_length(node["const"]) for node in nodes if "const" in node)
    too_much = {
        f"{_PROPERTIES:,} properties": len(names) > _PROPERTIES,
        f"{_VALUES:,} listed values": sum(map(len, lists)) > _VALUES,
        f"{_TEXT:,} characters of names and values": text > _TEXT,
        f"{_VALUES_TEXT:,} characters in one list of values": any(
            len(some) > _MANY_VALUES and sum(map(_length, some)) > _VALUES_TEXT for some in lists
        ),
        f"{_LEVELS} levels": _levels(schema, schema.get("$defs", {}), {}) > _LEVELS,
    }
    for what, is_true in too_much.items():
        if is_true:
            raise Unfit(f"it has more than {what}, which cannot be enforced")


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else 0


def _levels(schema: Any, definitions: Mapping[str, Schema], known: dict[str, int]) -> int:
    """How deep values lie inside one another; a definition within itself counts once."""
    if "$ref" in schema:
        name = target(schema)
        if name not in known:
            known[name] = 0
            known[name] = _levels(definitions[name], definitions, known)
        return known[name]
    inner = [*schema.get("properties", {}).values()]
    if "items" in schema:
        inner.append(schema["items"])
    same = [_levels(one, definitions, known) for one in schema.get("anyOf", ())]
    return max([0, *same, *(1 + _levels(one, definitions, known) for one in inner)])
