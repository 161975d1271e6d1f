"""The outermost schema of a tool: an object, without the keywords that a wire bans there."""

from __future__ import annotations

from typing import Any

from handrail.providers._data import key
from handrail.providers._meet import NoMeet, kinds, meet, opened, scoped, values
from handrail.providers._neutral import Definitions, Schema, is_never, ordered, target
from handrail.providers._phrases import also, branches, phrase
from handrail.providers._references import Unfit
from handrail.providers._rules import Root

_UNION = ("anyOf", "oneOf")
_MOST_BRANCHES = 256
_NOTHING = "no arguments can ever fit its schema"


def rooted(schema: Schema, root: Root) -> tuple[Schema, list[str], list[str]]:
    """The schema with an object at its top; notes for the model, and what else was lost."""
    definitions = schema.get("$defs", Definitions())
    made = {name: value for name, value in schema.items() if name != "$defs"}
    notes: list[str] = []
    made = _object(_without_all(made, definitions, notes), definitions, notes, root)
    lost = _renamed(made, root)
    if definitions:
        made["$defs"] = definitions
    return ordered(made), notes, lost


def _without_all(schema: Schema, definitions: Definitions, notes: list[str]) -> Schema:
    """The same without ``$ref`` and ``allOf``; what cannot be merged becomes a note."""
    try:
        return opened(schema, definitions)
    except NoMeet:
        pass
    made = {name: value for name, value in schema.items() if name not in {"$ref", "allOf"}}
    parts = [definitions[target(schema)]] if "$ref" in schema else []
    for part in [*parts, *schema.get("allOf", ())]:
        try:
            made = meet(made, scoped(part), definitions)
        except NoMeet:
            notes += also(part)
    return made


def _object(schema: Schema, definitions: Definitions, notes: list[str], root: Root) -> Schema:
    made = _flat(schema, definitions, notes)
    if is_never(made):
        raise Unfit(_NOTHING)
    listed = values(made)
    if not _is_object(made) or not any(isinstance(one, dict) for one in listed or [{}]):
        raise Unfit("its arguments are no object")
    made = {**made, "type": "object"}
    banned = [name for name in made if name in root.banned]
    notes += [phrase(name, made.pop(name)) for name in banned]
    return made


def _is_object(schema: Schema) -> bool:
    return not is_never(schema) and (not kinds(schema) or "object" in kinds(schema))


def _flat(schema: Schema, definitions: Definitions, notes: list[str]) -> Schema:
    """One object that takes what any of several take; which together, is a note."""
    unions = [name for name in _UNION if name in schema]
    if not unions:
        return schema
    try:
        every = _branches(schema, definitions)
    except NoMeet:
        notes += [phrase(name, schema[name]) for name in unions]
        return {name: one for name, one in schema.items() if name not in unions}
    some = [one for one in every if _is_object(one)]
    if not some:
        raise Unfit(_NOTHING)
    distinct = list({key(one): one for one in some}.values())
    if len(distinct) == 1 and (unions == ["anyOf"] or len(some) == 1):
        return distinct[0]
    notes.append(branches(distinct, exactly="oneOf" in unions))
    return _joined(distinct)


def _branches(schema: Schema, definitions: Definitions) -> list[Schema]:
    """Every way to fit a schema, each without a union of its own."""
    definitions.spend()
    union = next((name for name in _UNION if name in schema), None)
    if union is None:
        return [schema]
    base = {name: one for name, one in schema.items() if name != union}
    met = (opened(meet(base, scoped(one), definitions), definitions) for one in schema[union])
    made = [one for each in met if not is_never(each) for one in _branches(each, definitions)]
    if len(made) > _MOST_BRANCHES:
        raise NoMeet
    return made


def _joined(some: list[Schema]) -> Schema:
    first = some[0]
    alike = {
        name: value
        for name, value in first.items()
        if all(name in one and key(one[name]) == key(value) for one in some)
    }
    made = {**alike, "type": "object", "properties": _properties(some)}
    made.pop("required", None)
    required = [
        name
        for name in first.get("required", [])
        if all(name in one.get("required", []) for one in some)
    ]
    if required:
        made["required"] = required
    further = [one.get("additionalProperties") for one in some]
    made.pop("additionalProperties", None)
    if all(one is False for one in further):
        made["additionalProperties"] = False
    elif any(one is not False and one is not None for one in further):
        made["additionalProperties"] = True
    return made


def _properties(some: list[Schema]) -> dict[str, Any]:
    """Each property as any of the schemas takes it."""
    names = dict.fromkeys(name for one in some for name in one.get("properties", {}))
    made: dict[str, Any] = {}
    for name in names:
        known = [one["properties"][name] for one in some if name in one.get("properties", {})]
        distinct = list({key(one): one for one in known if not is_never(one)}.values())
        if len(distinct) == 1:
            made[name] = distinct[0]
        elif distinct:
            made[name] = _values_of(distinct) or {"anyOf": distinct}
    return made


def _values_of(some: list[Schema]) -> Schema | None:
    """Several lists of values, and nothing else, as one list."""
    kinds_of = {key(one.get("type")) for one in some}
    if len(kinds_of) > 1 or not all(one.keys() <= {"type", "const", "enum"} for one in some):
        return None
    every = [values(one) for one in some]
    if any(one is None for one in every):
        return None
    made = list({key(one): one for listed in every for one in listed or ()}.values())
    return ordered({**{n: one for n, one in some[0].items() if n == "type"}, "enum": made})


def _renamed(made: Schema, root: Root) -> list[str]:
    """Leave out the parameters whose names the wire does not take; not those that must be given."""
    known = made.get("properties", {})
    odd = [name for name in known if not root.names.fullmatch(name)]
    needed = [name for name in made.get("required", ()) if not root.names.fullmatch(name)]
    if needed:
        raise Unfit(f"its parameter {needed[0]!r} has a name that this wire does not take")
    if odd:
        made["properties"] = {name: one for name, one in known.items() if name not in odd}
    return [f"{name}: cannot be given, since this wire does not take the name" for name in odd]
