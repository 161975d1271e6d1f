"""A schema for a wire that takes JSON Schema as it is, but for a few spellings."""

from __future__ import annotations

from typing import Any

from handrail.providers._cycles import references
from handrail.providers._data import is_object
from handrail.providers._keywords import MANY, NAMED, ONE
from handrail.providers._meet import NoMeet, scoped
from handrail.providers._neutral import Path, Schema, ordered, where
from handrail.providers._patterns import is_portable
from handrail.providers._phrases import phrase, sentences

_BARE = frozenset(
    "type title description examples default deprecated required propertyNames minProperties "
    "maxProperties".split()
)
"""Keywords beside which an object's properties are anything at all."""


def loosened(schema: Schema, *, filled: bool) -> tuple[Schema, list[str]]:
    """The schema, and its losses; ``filled`` says what is open in so many words.

    Some readers ask for the properties of every object and the items of every array.
    """
    loosener = _Loosener(filled=filled)
    bare = {name: value for name, value in schema.items() if name != "$defs"}
    made = loosener.node(bare, (), alone=False)
    if filled:
        made = ordered({"properties": {}, **made} if made.get("type") == "object" else made)
    definitions: Schema = {}
    todo = references(made)
    while todo:
        name = todo.pop()
        if name not in definitions:
            definitions[name] = loosener.node(schema["$defs"][name], (name,), alone=False)
            todo += references(definitions[name])
    if definitions:
        made["$defs"] = {name: definitions[name] for name in sorted(definitions)}
    return made, list(dict.fromkeys(loosener.losses))


class _Loosener:
    def __init__(self, *, filled: bool) -> None:
        self.losses: list[str] = []
        self._filled = filled

    def node(self, schema: Schema, path: Path, *, alone: bool) -> Schema:
        """One schema; ``alone``: no other schema speaks of the same value."""
        made = dict(schema)
        notes = _unportable(made)
        if self._filled:
            notes += _fill(made, alone=alone)
        for note in notes:
            self.losses.append(f"{where(path)}: {note}")
        if notes:
            made["description"] = sentences(made.get("description", ""), notes)
        return ordered({name: self._inside(name, value, path) for name, value in made.items()})

    def _inside(self, name: str, value: Any, path: Path) -> Any:
        if name in MANY:
            place = (*path, "[]") if name == "prefixItems" else path
            return [self.node(one, place, alone=name == "prefixItems") for one in value]
        if name in NAMED:
            mine = name == "properties"
            return {
                one: self.node(inner, (*path, one) if mine else path, alone=mine)
                for one, inner in value.items()
            }
        if name in ONE and is_object(value):
            place = (*path, "[]") if "tems" in name else path
            return self.node(value, place, alone=name in {"items", "additionalProperties"})
        return value


def _unportable(made: Schema) -> list[str]:
    """Take out the expressions that not every reader takes."""
    notes: list[str] = []
    if "pattern" in made and not is_portable(made["pattern"]):
        notes.append(phrase("pattern", made.pop("pattern")))
    named = made.get("patternProperties", {})
    if not all(map(is_portable, named)):
        notes.append(phrase("patternProperties", made.pop("patternProperties")))
        if "additionalProperties" in made:  # it speaks of what matches none of them
            further = made.pop("additionalProperties")
            if further is not True:
                notes.append(phrase("additionalProperties", further))
    return notes


def _fill(made: Schema, *, alone: bool) -> list[str]:
    notes: list[str] = []
    if "unevaluatedItems" in made:
        try:
            plain = scoped(
                {name: one for name, one in made.items() if name != "unevaluatedProperties"}
            )
            made.update(plain)
        except NoMeet:
            notes.append(phrase("unevaluatedItems", made["unevaluatedItems"]))
        del made["unevaluatedItems"]
    kind = made.get("type", ())
    if kind == "array" or "array" in kind:
        made.setdefault("items", {})
    if alone and (kind == "object" or "object" in kind) and made.keys() <= _BARE:
        made["properties"] = {}
        made["additionalProperties"] = True
    return notes
