"""Compile a tool's schema to the part of JSON Schema an API supports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from handrail.providers._schema.dialects import SchemaSupport
from handrail.providers._schema.full import write_full_schema
from handrail.providers._schema.limits import refuse_cycles, refuse_endless, refuse_size
from handrail.providers._schema.narrow import narrow_schema
from handrail.providers._schema.neutral import Definitions, Schema, order_keywords, read_schema
from handrail.providers._schema.phrases import sentences
from handrail.providers._schema.recursion import unroll
from handrail.providers._schema.root import fit_root


@dataclass(frozen=True, slots=True)
class Fitted:
    """A schema for an API, and its losses."""

    schema: Schema
    losses: tuple[str, ...]
    strict: bool = False
    """Whether the API enforces it."""


def compile_arguments(schema: Any, subset: SchemaSupport, *, strict: bool) -> Fitted:
    """Compile a tool's argument schema. Raises UnsupportedSchema."""
    neutral, malformed = read_schema(schema)
    top, notes, lost = fit_root(neutral, subset.root)
    if notes:
        description = sentences(top.get("description", ""), notes)
        top = order_keywords({**top, "description": description})
    lost = [*malformed, *lost, *(f"arguments: {note}" for note in notes)]
    dialect = subset.strict if strict else subset.loose
    if dialect is None:
        fitted, more = write_full_schema(top, explicit=subset.explicit)
    else:
        fitted, more = narrow_schema(top, dialect)
        if dialect.recursion == "optional":
            fitted = unroll(fitted, more)
        if strict:
            refuse_endless(fitted)
        if dialect.recursion == "no":
            refuse_cycles(fitted)
        if subset.size_limited:
            refuse_size(fitted)
    return Fitted(fitted, tuple(dict.fromkeys([*lost, *more])), strict)


def compile_result(schema: Any) -> Fitted:
    """Compile a tool's result schema, for an API supporting all of JSON Schema."""
    neutral, malformed = read_schema(schema)
    loose, more = write_full_schema(neutral, explicit=True)
    return Fitted(loose, (*malformed, *more))


def definitions_of(schema: Schema) -> Definitions:
    """Return a schema's definitions."""
    return Definitions(schema.get("$defs", {}))
