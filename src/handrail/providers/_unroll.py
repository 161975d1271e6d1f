"""Definitions that lead to themselves, for a wire that takes them in optional properties only."""

from __future__ import annotations

from typing import Any

from handrail.providers._cycles import circles
from handrail.providers._neutral import Path, Schema, ordered, target, where
from handrail.providers._phrases import sentences

_AGAIN = "the same kind of value again"


def unrolled(schema: Schema, losses: list[str]) -> Schema:
    """The same with every way back inside a property that may be left out."""
    definitions = dict(schema.get("$defs", {}))
    for name in sorted(definitions):
        circle = circles(definitions).get(name)
        if circle is not None:
            breaker = _Breaker(circle, losses)
            definitions[name] = breaker.cut(breaker.node(definitions[name], (name,)), (name,))
    return {**schema, "$defs": definitions} if definitions else schema


class _Breaker:
    def __init__(self, circle: set[str], losses: list[str]) -> None:
        self._circle = circle
        self._losses = losses

    def node(self, schema: Schema, path: Path) -> Schema:
        """No property that must be given leads back."""
        made = _below(schema, path, self.node)
        known = made.get("properties", {})
        needed = [name for name in made.get("required", ()) if name in known]
        back = [name for name in needed if self._leads_back(known[name])]
        if not back:
            return made
        made["properties"] = {
            name: self._freed(one, (*path, name)) if name in back else one
            for name, one in known.items()
        }
        made["required"] = [name for name in made["required"] if name not in back]
        if not made["required"]:
            del made["required"]
        return made

    def _freed(self, schema: Schema, path: Path) -> Schema:
        note = "must be given"
        self._losses.append(f"{where(path)}: {note}")
        bare: Schema = {"anyOf": [schema]} if "$ref" in schema else schema
        return ordered({**bare, "description": sentences(bare.get("description", ""), [note])})

    def _leads_back(self, schema: Any) -> bool:
        """Whether there is a way back that no optional property can end."""
        if "$ref" in schema:
            return target(schema) in self._circle
        return any(self._leads_back(one) for one in _direct(schema))

    def cut(self, schema: Schema, path: Path) -> Schema:
        """What still leads back, outside of all properties, is said in words."""
        if self._is_back(schema):
            self._losses.append(f"{where(path)}: {_AGAIN}")
            beside = {name: one for name, one in schema.items() if name not in {"$ref", "anyOf"}}
            words = sentences(schema.get("description", ""), [_AGAIN])
            return ordered({**beside, "description": words})
        known = schema.get("properties")
        made = _below(
            {name: one for name, one in schema.items() if name != "properties"}, path, self.cut
        )
        return made if known is None else ordered({**made, "properties": known})

    def _is_back(self, schema: Schema) -> bool:
        """Whether it is a reference that leads back, alone or as the one alternative."""
        some = schema.get("anyOf", ())
        one = some[0] if len(some) == 1 else schema
        return "$ref" in one and target(one) in self._circle


def _direct(schema: Schema) -> list[Schema]:
    """The schemas inside that a value may have to have, whatever properties it leaves out."""
    found = [*schema.get("anyOf", ()), *schema.get("prefixItems", ())]
    found += [
        schema[name]
        for name in ("items", "additionalProperties")
        if isinstance(schema.get(name), dict)
    ]
    required = schema.get("required", ())
    return found + [one for name, one in schema.get("properties", {}).items() if name in required]


def _below(schema: Schema, path: Path, change: Any) -> Schema:
    made = dict(schema)
    for name in ("anyOf", "prefixItems"):
        if name in made:
            place = path if name == "anyOf" else (*path, "[]")
            made[name] = [change(one, place) for one in made[name]]
    for name in ("items", "additionalProperties"):
        if isinstance(made.get(name), dict):
            made[name] = change(made[name], (*path, "[]") if name == "items" else path)
    if "properties" in made:
        made["properties"] = {
            name: change(one, (*path, name)) for name, one in made["properties"].items()
        }
    return made
