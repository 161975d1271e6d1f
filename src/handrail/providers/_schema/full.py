"""Write a schema for an API supporting all of JSON Schema, apart from a few keywords."""

from __future__ import annotations

from typing import Any

from handrail._support import is_object
from handrail.providers._schema.data import is_portable
from handrail.providers._schema.keywords import MANY, NAMED, ONE
from handrail.providers._schema.neutral import Path, Schema, order_keywords, where
from handrail.providers._schema.phrases import phrase, sentences
from handrail.providers._schema.recursion import references
from handrail.providers._schema.relations import without_unevaluated

_BARE = frozenset(
    "type title description examples default deprecated required propertyNames minProperties "
    "maxProperties".split()
)
"""Keywords without restrictions on an object's properties."""


def write_full_schema(schema: Schema, *, explicit: bool) -> tuple[Schema, list[str]]:
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
