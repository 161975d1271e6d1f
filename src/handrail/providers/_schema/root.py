"""Write a tool's root schema: an object, without the keywords an API bans there."""

from __future__ import annotations

from typing import Any

from handrail.providers._schema.data import key
from handrail.providers._schema.dialects import Root
from handrail.providers._schema.neutral import Definitions, Schema, is_never, order_keywords
from handrail.providers._schema.phrases import also, branches, phrase
from handrail.providers._schema.references import UnsupportedSchema
from handrail.providers._schema.relations import combine_each, kinds, open_schema, values

_UNION = ("anyOf", "oneOf")
_MAX_BRANCHES = 256
_NOTHING = "no arguments can match the schema"


def fit_root(schema: Schema, root: Root) -> tuple[Schema, list[str], list[str]]:
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
