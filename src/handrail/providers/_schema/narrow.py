"""Write a schema for an API supporting only a part of JSON Schema.

A constraint without a keyword in the API goes into a description and into the losses. The module
raises UnsupportedSchema if the API would reject valid values or generate values with a wrong type.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from handrail.providers._schema.by_type import FAMILIES, Shapes, either
from handrail.providers._schema.data import type_of
from handrail.providers._schema.dialects import SchemaDialect
from handrail.providers._schema.neutral import (
    NEVER,
    Definitions,
    Path,
    Schema,
    is_never,
    order_keywords,
    target,
    where,
)
from handrail.providers._schema.phrases import also, phrase, sentences
from handrail.providers._schema.recursion import circles, references
from handrail.providers._schema.references import UnsupportedSchema
from handrail.providers._schema.relations import (
    are_exclusive,
    combine_each,
    fits,
    kinds,
    open_schema,
    values,
)

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


_ANNOTATIONS = frozenset("title description default examples deprecated".split())
_BESIDE = _ANNOTATIONS | {"$ref"}
_MAX_DEPTH = 60
"""Nested schemas. The input schema is less deep, but references expand."""
_SOFT = ("default", "examples", "deprecated")
_SCALARS = frozenset("string number integer boolean null".split())


def narrow_schema(schema: Schema, dialect: SchemaDialect) -> tuple[Schema, list[str]]:
    """Write a schema in a dialect, and return it with its losses. Raises UnsupportedSchema."""
    narrower = _Narrower(schema.get("$defs", Definitions()), dialect)
    bare = {name: value for name, value in schema.items() if name != "$defs"}
    narrow = narrower.node(bare, ())
    if is_never(narrow):
        raise UnsupportedSchema("no arguments can match the schema")
    definitions: Schema = {}
    todo = references(narrow)
    while todo:
        name = todo.pop()
        if name not in definitions:
            definitions[name] = narrower.node(narrower.definitions[name], (name,))
            if is_never(definitions[name]):
                raise UnsupportedSchema(f"no value can match the definition {name!r}")
            todo += references(definitions[name])
    if definitions:
        narrow["$defs"] = {name: definitions[name] for name in sorted(definitions)}
    return narrow, list(dict.fromkeys(narrower.losses))


class _Narrower:
    def __init__(self, definitions: Definitions, dialect: SchemaDialect) -> None:
        self.definitions = definitions
        self.losses: list[str] = []
        self._dialect = dialect
        self._level = 0
        self._circular = set(circles(definitions))
        self._shapes = Shapes(dialect, self.node, self.lose, definitions)

    def lose(self, path: Path, what: str) -> None:
        """Record a loss the description need not mention."""
        self.losses.append(f"{where(path)}: {what}")

    def node(self, schema: Schema, path: Path) -> Schema:
        """Write one schema."""
        self.definitions.spend()
        self._level += 1
        if self._level > _MAX_DEPTH:
            raise UnsupportedSchema("its references expand too deeply")
        narrow = self._node(schema, path)
        self._level -= 1
        return narrow

    def _node(self, schema: Schema, path: Path) -> Schema:
        notes: list[str] = []
        plain = self._open(schema, notes)
        narrow = NEVER if is_never(plain) else self._write(plain, path, notes)
        if is_never(narrow):
            return NEVER
        soft = (name for name in _SOFT if plain.get(name) not in (None, False, []))
        notes += [phrase(name, plain[name]) for name in soft]
        for note in notes:
            self.lose(path, note)
        return order_keywords(_describe(narrow, plain, notes))

    def _open(self, schema: Schema, notes: list[str]) -> Schema:
        """Return the schema without ``allOf``, and with a reference only if it is alone."""
        schema = self._lift_reference(schema)
        beside = {name: value for name, value in schema.items() if name not in _BESIDE}
        if "$ref" in schema and (not beside or target(schema) in self._circular):
            # a recursive definition cannot be expanded
            notes += also(beside) if beside else []
            return {name: value for name, value in schema.items() if name in _BESIDE}
        plain, unexpressed = open_schema(schema, self.definitions)
        for part in unexpressed:
            notes += also(part)
        return plain

    def _lift_reference(self, schema: Schema) -> Schema:
        """Move a reference out of ``allOf`` if it is alone there or recursive."""
        parts = schema.get("allOf", [])
        for part in parts if "$ref" not in schema else ():
            if part.keys() == {"$ref"} and (len(parts) == 1 or target(part) in self._circular):
                others = [other for other in parts if other is not part]
                rest = {**schema, "allOf": others} if others else _without(schema, {"allOf"})
                return {**part, **rest}
        return schema

    def _write(self, plain: Schema, path: Path, notes: list[str]) -> Schema:
        if "$ref" in plain:
            return {"$ref": plain["$ref"]}
        if "anyOf" in plain or "oneOf" in plain:
            return self._union(plain, path, notes)
        listed = values(plain)
        if listed is not None:
            return self._values(plain, listed, path, notes)
        return self._write_types(plain, path, notes)

    def _union(self, plain: Schema, path: Path, notes: list[str]) -> Schema:
        union = "anyOf" if "anyOf" in plain else "oneOf"
        beside = {"oneOf", *_ANNOTATIONS} if union == "anyOf" else _ANNOTATIONS
        if union == "anyOf" and "oneOf" in plain:
            notes.append(phrase("oneOf", plain["oneOf"]))
        base = {name: value for name, value in plain.items() if name not in {union, *beside}}
        if not base:
            branches, exact = plain[union], True
        else:
            branches, exact = combine_each(base, plain[union], self.definitions)
        possible = [branch for branch in branches if not is_never(branch)]
        if not exact:
            notes.append(phrase(union, plain[union]))
        elif union == "oneOf" and not are_exclusive(possible, self.definitions):
            notes.append("must match exactly one of the alternatives")
        return self._any(possible, path)

    def _any(self, branches: list[Schema], path: Path) -> Schema:
        written = (self.node(branch, path) for branch in branches)
        possible = [branch for branch in written if not is_never(branch)]
        return either(possible) if possible else NEVER

    def _values(self, plain: Schema, listed: list[Any], path: Path, notes: list[str]) -> Schema:
        rest = _without(plain, {"enum", "const"})
        fit = [value for value in listed if fits(rest, value, self.definitions) is not False]
        if not fit:
            return NEVER
        if any(fits(rest, value, self.definitions) is None for value in fit):
            notes += also(_without(rest, {"type", *_ANNOTATIONS}))
        if self._dialect.untyped and all(isinstance(value, dict) for value in fit):
            notes.append(phrase("enum", fit) if len(fit) > 1 else phrase("const", fit[0]))
            return self._write_types({**rest, "type": "object"}, path, notes)
        return write_values(fit, self._dialect, path, notes)

    def _write_types(self, plain: Schema, path: Path, notes: list[str]) -> Schema:
        named = kinds(plain) or self._infer_kinds(plain, path)
        for name in ("not", "if"):
            if name in plain:
                whole = {part: plain[part] for part in ("if", "then", "else") if part in plain}
                notes.append(phrase(name, whole if name == "if" else plain[name]))
        if not named:
            if not self._dialect.untyped:
                raise UnsupportedSchema(f"{where(path)}: arbitrary values cannot be enforced")
            return {}
        if len(named) == 1:
            return self._shapes.single(named[0], plain, path, notes)
        scalar = set(named) <= _SCALARS
        if self._dialect.type_lists and (scalar and not _says_more(plain)):
            return {"type": named}
        alternatives = [self._alone(kind, plain, path) for kind in named]
        possible = [schema for schema in alternatives if not is_never(schema)]
        return possible[0] if len(possible) == 1 else {"anyOf": possible}

    def _alone(self, kind: str, plain: Schema, path: Path) -> Schema:
        """Write one of several types, with its own notes."""
        notes: list[str] = []
        narrow = self._shapes.single(kind, plain, path, notes)
        for note in notes:
            self.lose(path, note)
        return narrow if is_never(narrow) else order_keywords(_describe(narrow, {}, notes))

    def _infer_kinds(self, plain: Schema, path: Path) -> list[str]:
        """Return the types the keywords imply if no type is named."""
        implied = [kind for kind, names in FAMILIES.items() if plain.keys() & names]
        if implied and implied != ["object"]:
            self.lose(path, f"only {' and '.join(implied)} values can be sent")
        return implied


def _without(schema: Schema, names: AbstractSet[str]) -> Schema:
    return {name: value for name, value in schema.items() if name not in names}


def _says_more(plain: Schema) -> bool:
    return any(plain.keys() & names for names in FAMILIES.values())


def _describe(narrow: Schema, plain: Schema, notes: list[str]) -> Schema:
    """Add the schema's title and description, and the notes."""
    if "$ref" in narrow and (notes or plain.keys() & {"title", "description"}):
        narrow = {"anyOf": [narrow]}
    texts: Schema = {name: plain[name] for name in ("title", "description") if name in plain}
    narrow = {**narrow, **texts}
    if notes:
        narrow["description"] = sentences(narrow.get("description", ""), notes)
    return narrow
