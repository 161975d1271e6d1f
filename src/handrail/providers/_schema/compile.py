"""Compile a tool's schema to the part of JSON Schema an API supports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from handrail._support import is_object
from handrail.providers._schema.data import is_portable, key
from handrail.providers._schema.dialects import Root, SchemaSupport
from handrail.providers._schema.keywords import MANY, NAMED, ONE
from handrail.providers._schema.limits import refuse_cycles, refuse_endless, refuse_size
from handrail.providers._schema.narrow import narrow_schema
from handrail.providers._schema.neutral import (
    Definitions,
    Path,
    Schema,
    is_never,
    order_keywords,
    read_schema,
    where,
)
from handrail.providers._schema.phrases import also, branches, phrase, sentences
from handrail.providers._schema.recursion import references, unroll
from handrail.providers._schema.references import UnsupportedSchema
from handrail.providers._schema.relations import (
    combine_each,
    kinds,
    open_schema,
    values,
    without_unevaluated,
)

_UNION = ("anyOf", "oneOf")
_MAX_BRANCHES = 256
_NOTHING = "no arguments can match the schema"
_BARE = frozenset(
    "type title description examples default deprecated required propertyNames minProperties "
    "maxProperties".split()
)
"""Keywords without restrictions on an object's properties."""


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
    top, notes, lost = _fit_root(neutral, subset.root)
    if notes:
        description = sentences(top.get("description", ""), notes)
        top = order_keywords({**top, "description": description})
    lost = [*malformed, *lost, *(f"arguments: {note}" for note in notes)]
    dialect = subset.strict if strict else subset.loose
    if dialect is None:
        fitted, more = _write_full_schema(top, explicit=subset.explicit)
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
    loose, more = _write_full_schema(neutral, explicit=True)
    return Fitted(loose, (*malformed, *more))


def definitions_of(schema: Schema) -> Definitions:
    """Return a schema's definitions."""
    return Definitions(schema.get("$defs", {}))


def _fit_root(schema: Schema, root: Root) -> tuple[Schema, list[str], list[str]]:
    """Write the schema with an object at its root.

    Returns it with notes for the model, and the other losses.
    """
    definitions = schema.get("$defs", Definitions())
    bare = {name: value for name, value in schema.items() if name != "$defs"}
    opened, unexpressed = open_schema(bare, definitions)
    notes = [note for part in unexpressed for note in also(part)]
    top = _object(opened, definitions, notes, root)
    lost = _drop_odd_names(top, root)
    if definitions:
        top["$defs"] = definitions
    return order_keywords(top), notes, lost


def _object(schema: Schema, definitions: Definitions, notes: list[str], root: Root) -> Schema:
    flat = _flatten(schema, definitions, notes)
    if is_never(flat):
        raise UnsupportedSchema(_NOTHING)
    listed = values(flat)
    if not _is_object(flat) or not any(isinstance(value, dict) for value in listed or [{}]):
        raise UnsupportedSchema("the arguments are not an object")
    flat = {**flat, "type": "object"}
    banned = [name for name in flat if name in root.banned]
    notes += [phrase(name, flat.pop(name)) for name in banned]
    return flat


def _is_object(schema: Schema) -> bool:
    return not is_never(schema) and (not kinds(schema) or "object" in kinds(schema))


def _flatten(schema: Schema, definitions: Definitions, notes: list[str]) -> Schema:
    """Merge alternatives into one object. A note describes the valid combinations."""
    unions = [name for name in _UNION if name in schema]
    if not unions:
        return schema
    alternatives, exact = _alternatives(schema, definitions)
    if len(alternatives) > _MAX_BRANCHES:
        notes += [phrase(name, schema[name]) for name in unions]
        return {name: value for name, value in schema.items() if name not in unions}
    objects = [alternative for alternative in alternatives if _is_object(alternative)]
    if not objects:
        raise UnsupportedSchema(_NOTHING)
    distinct = list({key(alternative): alternative for alternative in objects}.values())
    alone = len(distinct) == 1 and (unions == ["anyOf"] or len(objects) == 1)
    if not exact:
        notes += [phrase(name, schema[name]) for name in unions]
    elif not alone:
        notes.append(branches(distinct, exactly="oneOf" in unions))
    return distinct[0] if alone else _join(distinct)


def _alternatives(schema: Schema, definitions: Definitions) -> tuple[list[Schema], bool]:
    """Return a schema's alternatives without unions, and whether all are exact."""
    definitions.spend()
    union = next((name for name in _UNION if name in schema), None)
    if union is None:
        return [schema], True
    base = {name: value for name, value in schema.items() if name != union}
    combined, exact = combine_each(base, schema[union], definitions)
    alternatives: list[Schema] = []
    for branch in combined:
        if not is_never(branch) and len(alternatives) <= _MAX_BRANCHES:
            inner, inner_exact = _alternatives(branch, definitions)
            alternatives += inner
            exact = exact and inner_exact
    return alternatives, exact


def _join(objects: list[Schema]) -> Schema:
    """Return one object accepting everything any of the objects accepts."""
    first = objects[0]
    alike = {
        name: value
        for name, value in first.items()
        if all(name in other and key(other[name]) == key(value) for other in objects)
    }
    joined = {**alike, "type": "object", "properties": _join_properties(objects)}
    joined.pop("required", None)
    required = [
        name
        for name in first.get("required", [])
        if all(name in other.get("required", []) for other in objects)
    ]
    if required:
        joined["required"] = required
    further = [schema.get("additionalProperties") for schema in objects]
    joined.pop("additionalProperties", None)
    if all(value is False for value in further):
        joined["additionalProperties"] = False
    elif any(value is not False and value is not None for value in further):
        joined["additionalProperties"] = True
    return joined


def _join_properties(objects: list[Schema]) -> dict[str, Any]:
    """Merge several objects' properties."""
    listed = [schema.get("properties", {}) for schema in objects]
    joined: dict[str, Any] = {}
    for name in dict.fromkeys(name for properties in listed for name in properties):
        known = [properties[name] for properties in listed if name in properties]
        distinct = list({key(schema): schema for schema in known if not is_never(schema)}.values())
        if len(distinct) == 1:
            joined[name] = distinct[0]
        elif distinct:
            joined[name] = _join_values(distinct) or {"anyOf": distinct}
    return joined


def _join_values(schemas: list[Schema]) -> Schema | None:
    """Merge lists of allowed values, or return None if a schema has anything else."""
    types = {key(schema.get("type")) for schema in schemas}
    bare = all(schema.keys() <= {"type", "const", "enum"} for schema in schemas)
    lists = [values(schema) for schema in schemas]
    if len(types) > 1 or not bare or any(listed is None for listed in lists):
        return None
    distinct = {key(value): value for listed in lists for value in listed or ()}
    kind = {name: value for name, value in schemas[0].items() if name == "type"}
    return order_keywords({**kind, "enum": list(distinct.values())})


def _drop_odd_names(top: Schema, root: Root) -> list[str]:
    """Remove optional parameters with invalid names. Raises UnsupportedSchema for required ones."""
    known = top.get("properties", {})
    odd = [name for name in known if not root.names.fullmatch(name)]
    needed = [name for name in top.get("required", ()) if not root.names.fullmatch(name)]
    if needed:
        raise UnsupportedSchema(f"the API does not accept the parameter name {needed[0]!r}")
    if odd:
        top["properties"] = {name: schema for name, schema in known.items() if name not in odd}
    return [f"{name}: omitted: the API does not accept this name" for name in odd]


def _write_full_schema(schema: Schema, *, explicit: bool) -> tuple[Schema, list[str]]:
    """Return the schema and its losses.

    With ``explicit``, every object lists its properties and every array its items. Some APIs
    require this.
    """
    writer = _FullSchemaWriter(explicit=explicit)
    bare = {name: value for name, value in schema.items() if name != "$defs"}
    loose = writer.node(bare, (), alone=False)
    if explicit:
        loose = order_keywords(
            {"properties": {}, **loose} if loose.get("type") == "object" else loose
        )
    definitions: Schema = {}
    todo = references(loose)
    while todo:
        name = todo.pop()
        if name not in definitions:
            definitions[name] = writer.node(schema["$defs"][name], (name,), alone=False)
            todo += references(definitions[name])
    if definitions:
        loose["$defs"] = {name: definitions[name] for name in sorted(definitions)}
    return loose, list(dict.fromkeys(writer.losses))


class _FullSchemaWriter:
    def __init__(self, *, explicit: bool) -> None:
        self.losses: list[str] = []
        self._filled = explicit

    def node(self, schema: Schema, path: Path, *, alone: bool) -> Schema:
        """Write one schema. With ``alone``, no other schema applies to the same value."""
        loose = dict(schema)
        notes = _unportable(loose)
        if self._filled:
            notes += _fill(loose, alone=alone)
        for note in notes:
            self.losses.append(f"{where(path)}: {note}")
        if notes:
            loose["description"] = sentences(loose.get("description", ""), notes)
        return order_keywords(
            {name: self._inside(name, value, path) for name, value in loose.items()}
        )

    def _inside(self, name: str, value: Any, path: Path) -> Any:
        if name in MANY:
            place = (*path, "[]") if name == "prefixItems" else path
            return [self.node(inner, place, alone=name == "prefixItems") for inner in value]
        if name in NAMED:
            mine = name == "properties"
            return {
                key: self.node(inner, (*path, key) if mine else path, alone=mine)
                for key, inner in value.items()
            }
        if name in ONE and is_object(value):
            place = (*path, "[]") if "tems" in name else path
            return self.node(value, place, alone=name in {"items", "additionalProperties"})
        return value


def _unportable(schema: Schema) -> list[str]:
    """Remove regular expressions some APIs do not support, and return notes about them."""
    notes: list[str] = []
    if "pattern" in schema and not is_portable(schema["pattern"]):
        notes.append(phrase("pattern", schema.pop("pattern")))
    named = schema.get("patternProperties", {})
    if not all(map(is_portable, named)):
        notes.append(phrase("patternProperties", schema.pop("patternProperties")))
        if "additionalProperties" in schema:  # it applies to names matching no pattern
            further = schema.pop("additionalProperties")
            if further is not True:
                notes.append(phrase("additionalProperties", further))
    return notes


def _fill(schema: Schema, *, alone: bool) -> list[str]:
    notes: list[str] = []
    if "unevaluatedItems" in schema:
        others = {name: value for name, value in schema.items() if name != "unevaluatedProperties"}
        plain = without_unevaluated(others)
        if plain is None:
            notes.append(phrase("unevaluatedItems", schema["unevaluatedItems"]))
        else:
            schema.update(plain)
        del schema["unevaluatedItems"]
    kind = schema.get("type", ())
    if kind == "array" or "array" in kind:
        schema.setdefault("items", {})
    if alone and (kind == "object" or "object" in kind) and schema.keys() <= _BARE:
        schema["properties"] = {}
        schema["additionalProperties"] = True
    return notes
