"""Write single-type schemas for an API: objects, arrays, strings and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any

from handrail._support import is_object
from handrail.providers._schema.data import is_portable, key
from handrail.providers._schema.dialects import SchemaDialect
from handrail.providers._schema.neutral import (
    NEVER,
    Definitions,
    Path,
    Schema,
    is_never,
    schema_of,
    where,
)
from handrail.providers._schema.phrases import phrase, sentences
from handrail.providers._schema.references import UnsupportedSchema
from handrail.providers._schema.relations import fits

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
"""The keywords for each type."""
_ABSENT = object()


class Shapes:
    """Writes single-type schemas. Constraints without a keyword become notes."""

    def __init__(
        self,
        dialect: SchemaDialect,
        node: Callable[[Schema, Path], Schema],
        lose: Callable[[Path, str], None],
        definitions: Definitions,
    ) -> None:
        self._dialect = dialect
        self._node = node
        self._lose = lose
        self._definitions = definitions

    def single(self, kind: str, schema: Schema, path: Path, notes: list[str]) -> Schema:
        """Write a single-type schema."""
        match kind:
            case "object":
                return self._object(schema, path, notes)
            case "array":
                return self._array(schema, path, notes)
            case "integer" | "number":
                return self._number(kind, schema, notes)
            case "string":
                return self._string(schema, notes)
            case _:
                return {"type": kind}

    def _string(self, schema: Schema, notes: list[str]) -> Schema:
        written: Schema = {"type": "string"}
        for name in schema:
            if name not in FAMILIES["string"]:
                continue
            value = schema[name]
            known = name in self._dialect.keywords and is_portable(value, plain=True)
            if known or (name == "format" and value in self._dialect.formats):
                written[name] = value
            elif value:  # a minimum of 0 characters always holds
                notes.append(phrase(name, value))
        return written

    def _number(self, kind: str, schema: Schema, notes: list[str]) -> Schema:
        limits = {name: schema[name] for name in schema if name in _NUMBER}
        if kind == "integer" and "exclusiveMinimum" not in self._dialect.keywords:
            limits = _inclusive(limits)
        written: Schema = {"type": kind}
        for name, value in limits.items():
            if name in self._dialect.keywords:
                written[name] = value
            else:
                notes.append(phrase(name, value))
        if "format" in schema:
            notes.append(phrase("format", schema["format"]))
        return written

    def _array(self, schema: Schema, path: Path, notes: list[str]) -> Schema:
        schema = _plain(schema, "unevaluatedItems", notes)
        places = schema.get("prefixItems", [])
        lowered = (self._node(place, (*path, "[]")) for place in places)
        first = list(takewhile(lambda place: not is_never(place), lowered))
        further = schema.get("items", True) if len(first) == len(places) else False
        more = NEVER if further is False else self._item(further, schema, first, path)
        if is_never(more):
            schema = {**schema, "maxItems": min(len(first), schema.get("maxItems", len(first)))}
        written: Schema = {"type": "array"}
        if first and "prefixItems" in self._dialect.keywords:
            written["prefixItems"] = first
            if not is_never(more):
                written["items"] = more
        else:
            options = [option for option in [*first, more] if not is_never(option)]
            written["items"] = either(options) if options else {"type": "string"}
            if first and "anyOf" in written["items"]:
                notes.append(phrase("prefixItems", places[: len(first)]))
        self._counts(written, schema, notes)
        unexpressed = ("uniqueItems", "contains", "minContains", "maxContains")
        notes += [phrase(name, schema[name]) for name in unexpressed if schema.get(name)]
        return written

    def _item(self, further: Any, schema: Schema, first: list[Schema], path: Path) -> Schema:
        """Write the schema for the items after the tuple, or NEVER if there are none."""
        if further is True and first and len(first) >= schema.get("maxItems", math.inf):
            return NEVER
        return self._node(schema_of(further), (*path, "[]"))

    def _counts(self, written: Schema, schema: Schema, notes: list[str]) -> None:
        for name in ("minItems", "maxItems"):
            if name not in schema or (name == "minItems" and not schema[name]):
                continue
            known = name in self._dialect.keywords
            most = self._dialect.least_items if name == "minItems" else math.inf
            if known:
                written[name] = min(schema[name], most)
            if not known or schema[name] > most:
                notes.append(phrase(name, schema[name]))

    def _object(self, schema: Schema, path: Path, notes: list[str]) -> Schema:
        schema = _plain(schema, "unevaluatedProperties", notes)
        further = schema.get("additionalProperties", _ABSENT)
        known = dict(schema.get("properties", {}))
        required = list(schema.get("required", []))
        for name in required:
            if name not in known:
                free = further is _ABSENT or "patternProperties" in schema
                known[name] = {} if free else schema_of(further)
        written: Schema = {"type": "object"}
        properties = {name: self._node(inner, (*path, name)) for name, inner in known.items()}
        if any(is_never(properties[name]) for name in required):
            return NEVER
        for name in [name for name, inner in properties.items() if is_never(inner)]:
            del properties[name]
            if further is not False and not self._dialect.closed:
                notes.append(f"do not set {name}")
        notes += [phrase(name, schema[name]) for name in _UNEXPRESSED if schema.get(name)]
        if self._dialect.closed:
            return self._close(written, properties, schema, path)
        written = {
            **written,
            **({"properties": properties} if "properties" in schema or properties else {}),
        }
        if required:
            written["required"] = required
        self._further(written, schema, further, path)
        return written

    def _further(self, written: Schema, schema: Schema, further: Any, path: Path) -> None:
        """Write ``additionalProperties``."""
        patterned = schema.get("patternProperties")
        if patterned and (further is False or is_object(further)):
            options = [self._node(inner, path) for inner in patterned.values()]
            if is_object(further):
                options.append(self._node(further, path))
            options = [inner for inner in options if not is_never(inner)]
            written["additionalProperties"] = either(options) if options else False
        elif is_object(further):
            lowered = self._node(further, path)
            written["additionalProperties"] = False if is_never(lowered) else lowered
        elif further is not _ABSENT:
            written["additionalProperties"] = further

    def _close(self, written: Schema, properties: Schema, schema: Schema, path: Path) -> Schema:
        further = schema.get("additionalProperties", _ABSENT)
        open_ended = further not in (False, _ABSENT) or "patternProperties" in schema
        if not properties and (open_ended or further is _ABSENT):
            raise UnsupportedSchema(f"{where(path)}: arbitrary properties cannot be enforced")
        if open_ended:
            self._lose(path, "unlisted properties cannot be sent")
        required = list(schema.get("required", []))
        if self._dialect.all_required:
            for name in properties:
                if name not in required:
                    inner = schema["properties"][name]
                    properties[name] = self._optional(inner, properties[name], (*path, name))
            required = list(properties)
        written["properties"] = properties
        if required or self._dialect.all_required:
            written["required"] = required
        written["additionalProperties"] = False
        return written

    def _optional(self, inner: Schema, written: Schema, path: Path) -> Schema:
        """Write an optional property for an API where every property is required.

        Null omits the property. The argument check removes it if null is not a valid value.
        """
        if fits(inner, None, self._definitions) is not False:
            if "default" not in inner or inner["default"] is not None:
                self._lose(path, "cannot be omitted")
            return written
        note = "use null to omit it"
        self._lose(path, note)
        description = {"description": sentences(written.get("description", ""), [note])}
        bare = {name: value for name, value in written.items() if name != "description"}
        kind = bare.get("type")
        if bare.keys() == {"type"} and kind in ("string", "number", "integer", "boolean"):
            return {**bare, "type": [kind, "null"], **description}
        options = bare["anyOf"] if bare.keys() == {"anyOf"} else [bare]
        return {**description, "anyOf": [*options, {"type": "null"}]}


_UNEXPRESSED = (
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
)


def either(options: list[Schema]) -> Schema:
    """Return a union of schemas, flat and without duplicates."""
    flat = [
        inner
        for option in options
        for inner in (option["anyOf"] if option.keys() == {"anyOf"} else [option])
    ]
    if {} in flat:
        return {}
    distinct = list({key(option): option for option in flat}.values())
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _plain(schema: Schema, keyword: str, notes: list[str]) -> Schema:
    """Replace an ``unevaluated`` keyword with the equivalent plain one, if any."""
    if keyword not in schema:
        return schema
    written = dict(schema)
    value = written.pop(keyword)
    plain, others = _EVALUATED[keyword]
    if plain not in written and not written.keys() & others:
        written[plain] = value
    elif plain not in written:
        notes.append(phrase(keyword, value))
    return written


_EVALUATED = {
    "unevaluatedProperties": ("additionalProperties", frozenset(("if", "dependentSchemas"))),
    "unevaluatedItems": ("items", frozenset(("if", "contains"))),
}
"""The plain keyword, and the keywords beside which it means something else."""


def _inclusive(limits: Mapping[str, Any]) -> Schema:
    """Convert exclusive integer bounds to inclusive ones."""
    bounds = dict(limits)
    if "exclusiveMinimum" in bounds:
        least = math.floor(bounds.pop("exclusiveMinimum")) + 1
        bounds["minimum"] = max(least, bounds.get("minimum", least))
    if "exclusiveMaximum" in bounds:
        most = math.ceil(bounds.pop("exclusiveMaximum")) - 1
        bounds["maximum"] = min(most, bounds.get("maximum", most))
    return bounds
