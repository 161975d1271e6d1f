"""Listed values, as a wire takes them."""

from __future__ import annotations

from typing import Any

from handrail.providers._data import type_of
from handrail.providers._neutral import Path, Schema, where
from handrail.providers._phrases import phrase
from handrail.providers._references import Unfit
from handrail.providers._rules import Rules

_ORDER = ("string", "integer", "number", "boolean", "null", "object", "array")


def listed(some: list[Any], rules: Rules, path: Path, notes: list[str]) -> Schema:
    """A schema for some values; which of them, is a note where the wire cannot say it."""
    if rules.values == "split":
        return _split(some, notes)
    if any(isinstance(one, dict | list) for one in some):
        raise Unfit(f"{where(path)}: its values are objects or arrays, which cannot be enforced")
    made: Schema = {"const": some[0]} if len(some) == 1 else {"enum": some}
    if rules.values == "bare":
        return made
    named = _kinds(some)
    return {"type": named[0] if len(named) == 1 else named, **made}


def _kinds(some: list[Any]) -> list[str]:
    found = {type_of(one) for one in some}
    if "number" in found:
        found.discard("integer")
    return [kind for kind in _ORDER if kind in found]


def _split(some: list[Any], notes: list[str]) -> Schema:
    made: list[Schema] = []
    unsaid = False
    for kind in _kinds(some):
        mine = [one for one in some if _is(one, kind)]
        if kind in {"string", "integer", "number"}:
            made.append({"type": kind, "enum": mine})
        else:
            made.append({"type": kind, "items": {}} if kind == "array" else {"type": kind})
            unsaid = unsaid or not (kind == "null" or (kind == "boolean" and len(mine) > 1))
    if unsaid:
        notes.append(phrase("enum", some) if len(some) > 1 else phrase("const", some[0]))
    return made[0] if len(made) == 1 else {"anyOf": made}


def _is(value: Any, kind: str) -> bool:
    return type_of(value) == kind or (kind == "number" and type_of(value) == "integer")
