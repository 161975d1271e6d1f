"""One type of value in a wire's own words: objects, arrays, strings and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any

from handrail.providers._data import is_object, key
from handrail.providers._fits import fits
from handrail.providers._neutral import NEVER, Definitions, Path, Schema, is_never, schema_of, where
from handrail.providers._patterns import is_portable
from handrail.providers._phrases import phrase, sentences
from handrail.providers._references import Unfit
from handrail.providers._rules import Rules

_NUMBER = frozenset("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf".split())
FAMILIES: Mapping[str, frozenset[str]] = {
    "object": frozenset(
        "properties required additionalProperties patternProperties propertyNames minProperties "
        "maxProperties dependentRequired dependentSchemas unevaluatedProperties".split()
    ),
    "array": frozenset(
        "items prefixItems minItems maxItems uniqueItems contains unevaluatedItems".split()
    ),
    "string": frozenset(
        "pattern minLength maxLength format contentEncoding contentMediaType".split()
    ),
    "number": _NUMBER,
}
"""The keywords that speak of each type."""
_ABSENT = object()


class Shapes:
    """Writes schemas of one type; what it cannot say goes to the notes."""

    def __init__(
        self,
        rules: Rules,
        node: Callable[[Schema, Path], Schema],
        lose: Callable[[Path, str], None],
        definitions: Definitions,
    ) -> None:
        self._rules = rules
        self._node = node
        self._lose = lose
        self._definitions = definitions

    def single(self, kind: str, said: Schema, path: Path, notes: list[str]) -> Schema:
        """A schema of one type."""
        match kind:
            case "object":
                return self._object(said, path, notes)
            case "array":
                return self._array(said, path, notes)
            case "integer" | "number":
                return self._number(kind, said, notes)
            case "string":
                return self._string(said, notes)
            case _:
                return {"type": kind}

    def _string(self, said: Schema, notes: list[str]) -> Schema:
        made: Schema = {"type": "string"}
        for name in said:
            if name not in FAMILIES["string"]:
                continue
            value = said[name]
            known = name in self._rules.keywords and is_portable(value, plain=True)
            if known or (name == "format" and value in self._rules.formats):
                made[name] = value
            elif value:  # at least 0 characters: always
                notes.append(phrase(name, value))
        return made

    def _number(self, kind: str, said: Schema, notes: list[str]) -> Schema:
        limits = {name: said[name] for name in said if name in _NUMBER}
        if kind == "integer" and "exclusiveMinimum" not in self._rules.keywords:
            limits = _inclusive(limits)
        made: Schema = {"type": kind}
        for name, value in limits.items():
            if name in self._rules.keywords:
                made[name] = value
            else:
                notes.append(phrase(name, value))
        if "format" in said:
            notes.append(phrase("format", said["format"]))
        return made

    def _array(self, said: Schema, path: Path, notes: list[str]) -> Schema:
        said = _plain(said, "unevaluatedItems", notes)
        asked = said.get("prefixItems", [])
        lowered = (self._node(one, (*path, "[]")) for one in asked)
        first = list(takewhile(lambda one: not is_never(one), lowered))
        further = said.get("items", True) if len(first) == len(asked) else False
        more = NEVER if further is False else self._item(further, said, first, path)
        if is_never(more):
            said = {**said, "maxItems": min(len(first), said.get("maxItems", len(first)))}
        made: Schema = {"type": "array"}
        if first and "prefixItems" in self._rules.keywords:
            made["prefixItems"] = first
            if not is_never(more):
                made["items"] = more
        else:
            some = [one for one in [*first, more] if not is_never(one)]
            made["items"] = either(some) if some else {"type": "string"}
            if first and "anyOf" in made["items"]:
                notes.append(phrase("prefixItems", asked[: len(first)]))
        self._counts(made, said, notes)
        unsaid = ("uniqueItems", "contains", "minContains", "maxContains")
        notes += [phrase(name, said[name]) for name in unsaid if said.get(name)]
        return made

    def _item(self, further: Any, said: Schema, first: list[Schema], path: Path) -> Schema:
        """The schema of items; those after a whole tuple have none to speak of."""
        if further is True and first and len(first) >= said.get("maxItems", math.inf):
            return NEVER
        return self._node(schema_of(further), (*path, "[]"))

    def _counts(self, made: Schema, said: Schema, notes: list[str]) -> None:
        for name in ("minItems", "maxItems"):
            if name not in said or (name == "minItems" and not said[name]):
                continue
            known = name in self._rules.keywords
            most = self._rules.least_items if name == "minItems" else math.inf
            if known:
                made[name] = min(said[name], most)
            if not known or said[name] > most:
                notes.append(phrase(name, said[name]))

    def _object(self, said: Schema, path: Path, notes: list[str]) -> Schema:
        said = _plain(said, "unevaluatedProperties", notes)
        further = said.get("additionalProperties", _ABSENT)
        known = dict(said.get("properties", {}))
        required = list(said.get("required", []))
        for name in required:
            if name not in known:
                free = further is _ABSENT or "patternProperties" in said
                known[name] = {} if free else schema_of(further)
        made: Schema = {"type": "object"}
        properties = {name: self._node(one, (*path, name)) for name, one in known.items()}
        if any(is_never(properties[name]) for name in required):
            return NEVER
        for name in [name for name, one in properties.items() if is_never(one)]:
            del properties[name]
            if further is not False and not self._rules.closed:
                notes.append(f"do not give {name}")
        notes += [phrase(name, said[name]) for name in _UNSAID if said.get(name)]
        if self._rules.closed:
            return self._closed(made, properties, said, path)
        made = {
            **made,
            **({"properties": properties} if "properties" in said or properties else {}),
        }
        if required:
            made["required"] = required
        self._further(made, said, further, path)
        return made

    def _further(self, made: Schema, said: Schema, further: Any, path: Path) -> None:
        """What properties beyond the listed ones may be."""
        patterned = said.get("patternProperties")
        if patterned and (further is False or is_object(further)):
            some = [self._node(one, path) for one in patterned.values()]
            if is_object(further):
                some.append(self._node(further, path))
            some = [one for one in some if not is_never(one)]
            made["additionalProperties"] = either(some) if some else False
        elif is_object(further):
            lowered = self._node(further, path)
            made["additionalProperties"] = False if is_never(lowered) else lowered
        elif further is not _ABSENT:
            made["additionalProperties"] = further

    def _closed(self, made: Schema, properties: Schema, said: Schema, path: Path) -> Schema:
        further = said.get("additionalProperties", _ABSENT)
        open_ended = further not in (False, _ABSENT) or "patternProperties" in said
        if not properties and (open_ended or further is _ABSENT):
            raise Unfit(f"{where(path)}: any properties fit, which cannot be enforced")
        if open_ended:
            self._lose(path, "properties that are not listed cannot be given")
        required = list(said.get("required", []))
        if self._rules.all_required:
            for name in properties:
                if name not in required:
                    inner = said["properties"][name]
                    properties[name] = self._optional(inner, properties[name], (*path, name))
            required = list(properties)
        made["properties"] = properties
        if required or self._rules.all_required:
            made["required"] = required
        made["additionalProperties"] = False
        return made

    def _optional(self, inner: Schema, made: Schema, path: Path) -> Schema:
        """A property that may be left out, where every property must be given.

        Null stands for that: whoever checks the arguments reads it so where null does not fit.
        """
        if fits(inner, None, self._definitions) is not False:
            if "default" not in inner or inner["default"] is not None:
                self._lose(path, "cannot be left out")
            return made
        note = "null leaves it out"
        self._lose(path, note)
        words = {"description": sentences(made.get("description", ""), [note])}
        bare = {name: one for name, one in made.items() if name != "description"}
        kind = bare.get("type")
        if bare.keys() == {"type"} and kind in {"string", "number", "integer", "boolean"}:
            return {**bare, "type": [kind, "null"], **words}
        some = bare["anyOf"] if bare.keys() == {"anyOf"} else [bare]
        return {**words, "anyOf": [*some, {"type": "null"}]}


_UNSAID = (
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
)


def either(some: list[Schema]) -> Schema:
    """What fits any of several schemas, none of them twice and no union in a union."""
    flat = [inner for one in some for inner in (one["anyOf"] if one.keys() == {"anyOf"} else [one])]
    if {} in flat:
        return {}
    distinct = list({key(one): one for one in flat}.values())
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _plain(said: Schema, keyword: str, notes: list[str]) -> Schema:
    """The same with what is said of the unevaluated said of the rest, where that is the same."""
    if keyword not in said:
        return said
    made = dict(said)
    value = made.pop(keyword)
    plain, others = _EVALUATED[keyword]
    if plain not in made and not made.keys() & others:
        made[plain] = value
    elif plain not in made:
        notes.append(phrase(keyword, value))
    return made


_EVALUATED = {
    "unevaluatedProperties": ("additionalProperties", frozenset(("if", "dependentSchemas"))),
    "unevaluatedItems": ("items", frozenset(("if", "contains"))),
}
"""The keyword that says the same, but for what these others look at."""


def _inclusive(limits: Mapping[str, Any]) -> Schema:
    """Bounds of whole numbers, each with the number itself."""
    made = dict(limits)
    if "exclusiveMinimum" in made:
        least = math.floor(made.pop("exclusiveMinimum")) + 1
        made["minimum"] = max(least, made.get("minimum", least))
    if "exclusiveMaximum" in made:
        most = math.ceil(made.pop("exclusiveMaximum")) - 1
        made["maximum"] = min(most, made.get("maximum", most))
    return made
