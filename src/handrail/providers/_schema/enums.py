"""Write allowed values (``enum`` and ``const``) for an API."""

from __future__ import annotations

from typing import Any

from handrail.providers._schema.data import type_of
from handrail.providers._schema.dialects import SchemaDialect
from handrail.providers._schema.neutral import Path, Schema, where
from handrail.providers._schema.phrases import phrase
from handrail.providers._schema.references import UnsupportedSchema

_ORDER = ("string", "integer", "number", "boolean", "null", "object", "array")


def write_values(values: list[Any], dialect: SchemaDialect, path: Path, notes: list[str]) -> Schema:
    """Write a schema for allowed values. Values the API cannot list become a note."""
    if dialect.values == "split":
        return _split(values, notes)
    if any(isinstance(value, dict | list) for value in values):
        raise UnsupportedSchema(
            f"{where(path)}: objects and arrays as allowed values cannot be enforced"
        )
    listed: Schema = {"const": values[0]} if len(values) == 1 else {"enum": values}
    if dialect.values == "bare":
        return listed
    named = _kinds(values)
    return {"type": named[0] if len(named) == 1 else named, **listed}


def _kinds(values: list[Any]) -> list[str]:
    kinds = {type_of(value) for value in values}
    if "number" in kinds:
        kinds.discard("integer")
    return [kind for kind in _ORDER if kind in kinds]


def _split(values: list[Any], notes: list[str]) -> Schema:
    listed: list[Schema] = []
    unexpressed = False
    for kind in _kinds(values):
        mine = [value for value in values if _is(value, kind)]
        if kind in {"string", "integer", "number"}:
            listed.append({"type": kind, "enum": mine})
        else:
            listed.append({"type": kind, "items": {}} if kind == "array" else {"type": kind})
            unexpressed = unexpressed or not (
                kind == "null" or (kind == "boolean" and len(mine) > 1)
            )
    if unexpressed:
        notes.append(phrase("enum", values) if len(values) > 1 else phrase("const", values[0]))
    return listed[0] if len(listed) == 1 else {"anyOf": listed}


def _is(value: Any, kind: str) -> bool:
    return type_of(value) == kind or (kind == "number" and type_of(value) == "integer")
