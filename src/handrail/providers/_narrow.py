"""A schema in the words of a wire that takes only a part of JSON Schema.

What the wire has no keyword for goes into a description, in words, and into the losses. What it
cannot say at all, so that a value which fits would be refused or one of a kind that nobody meant
be made, raises Unfit.
"""

from __future__ import annotations

from typing import Any

from handrail.providers._apart import all_apart
from handrail.providers._cycles import circles, references
from handrail.providers._fits import fits
from handrail.providers._meet import NoMeet, kinds, meet, opened, scoped, values
from handrail.providers._neutral import (
    NEVER,
    Definitions,
    Path,
    Schema,
    is_never,
    ordered,
    target,
    where,
)
from handrail.providers._phrases import also, phrase, sentences
from handrail.providers._references import Unfit
from handrail.providers._rules import Rules
from handrail.providers._shapes import FAMILIES, Shapes, either
from handrail.providers._values import listed

_ANNOTATIONS = frozenset("title description default examples deprecated".split())
_BESIDE = _ANNOTATIONS | {"$ref"}
_DEEPEST = 60
"""Schemas within schemas: what is read is less deep, but may unfold."""
_SOFT = ("default", "examples", "deprecated")
_LOOSE = frozenset(("not", "if", "then", "else"))
_SCALARS = frozenset("string number integer boolean null".split())


def narrowed(schema: Schema, rules: Rules) -> tuple[Schema, list[str]]:
    """The schema in a wire's own words, and its losses; raises Unfit where there are no words."""
    narrower = _Narrower(schema.get("$defs", Definitions()), rules)
    bare = {name: value for name, value in schema.items() if name != "$defs"}
    made = narrower.node(bare, ())
    if is_never(made):
        raise Unfit("no arguments can ever fit its schema")
    definitions: Schema = {}
    todo = references(made)
    while todo:
        name = todo.pop()
        if name not in definitions:
            definitions[name] = narrower.node(narrower.definitions[name], (name,))
            if is_never(definitions[name]):
                raise Unfit(f"nothing can ever fit its definition {name!r}")
            todo += references(definitions[name])
    if definitions:
        made["$defs"] = {name: definitions[name] for name in sorted(definitions)}
    return made, list(dict.fromkeys(narrower.losses))


class _Narrower:
    def __init__(self, definitions: Definitions, rules: Rules) -> None:
        self.definitions = definitions
        self.losses: list[str] = []
        self._rules = rules
        self._level = 0
        self._circular = set(circles(definitions))
        self._shapes = Shapes(rules, self.node, self.lose, definitions)

    def lose(self, path: Path, what: str) -> None:
        """Note a loss that no description needs to tell."""
        self.losses.append(f"{where(path)}: {what}")

    def node(self, schema: Schema, path: Path) -> Schema:
        """One schema."""
        self.definitions.spend()
        self._level += 1
        if self._level > _DEEPEST:
            raise Unfit("it unfolds without end")
        made = self._node(schema, path)
        self._level -= 1
        return made

    def _node(self, schema: Schema, path: Path) -> Schema:
        notes: list[str] = []
        said = self._opened(schema, notes)
        if is_never(said):
            return NEVER
        made = self._said(said, path, notes)
        if is_never(made):
            return NEVER
        soft = (name for name in _SOFT if said.get(name) not in (None, False, []))
        notes += [phrase(name, said[name]) for name in soft]
        for note in notes:
            self.lose(path, note)
        return ordered(_described(made, said, notes))

    def _opened(self, schema: Schema, notes: list[str]) -> Schema:
        """Without ``allOf``, and with a reference only where it stands alone."""
        schema = _single(schema)
        beside = {name: one for name, one in schema.items() if name not in _BESIDE}
        if "$ref" in schema and (not beside or target(schema) in self._circular):
            # what leads back to itself cannot be unfolded
            notes += also(beside) if beside else []
            return {name: one for name, one in schema.items() if name in _BESIDE}
        try:
            return opened(schema, self.definitions)
        except NoMeet:
            return self._partly(schema, notes)

    def _partly(self, schema: Schema, notes: list[str]) -> Schema:
        made = {name: value for name, value in schema.items() if name not in {"$ref", "allOf"}}
        parts = [self.definitions[target(schema)]] if "$ref" in schema else []
        for part in [*parts, *schema.get("allOf", ())]:
            try:
                made = meet(made, scoped(part), self.definitions)
            except NoMeet:
                notes += also(part)
        return made

    def _said(self, said: Schema, path: Path, notes: list[str]) -> Schema:
        if "$ref" in said:
            return {"$ref": said["$ref"]}
        if "anyOf" in said or "oneOf" in said:
            return self._union(said, path, notes)
        some = values(said)
        if some is not None:
            return self._values(said, some, path, notes)
        return self._typed(said, path, notes)

    def _union(self, said: Schema, path: Path, notes: list[str]) -> Schema:
        union = "anyOf" if "anyOf" in said else "oneOf"
        beside = {"oneOf", *_ANNOTATIONS} if union == "anyOf" else _ANNOTATIONS
        if union == "anyOf" and "oneOf" in said:
            notes.append(phrase("oneOf", said["oneOf"]))
        base = {name: one for name, one in said.items() if name not in {union, *beside}}
        try:
            met = [
                meet(base, scoped(one), self.definitions) if base else one for one in said[union]
            ]
        except NoMeet:
            notes.append(phrase(union, said[union]))
            return self._said(base, path, notes)
        some = [one for one in met if not is_never(one)]
        if union == "oneOf" and not all_apart(some, self.definitions):
            notes.append("must fit exactly one of its alternatives")
        return self._any(some, path)

    def _any(self, some: list[Schema], path: Path) -> Schema:
        made = [one for one in (self.node(each, path) for each in some) if not is_never(one)]
        return either(made) if made else NEVER

    def _values(self, said: Schema, some: list[Any], path: Path, notes: list[str]) -> Schema:
        rest = {name: one for name, one in said.items() if name not in {"enum", "const"}}
        fit = [value for value in some if fits(rest, value, self.definitions) is not False]
        if not fit:
            return NEVER
        if any(fits(rest, value, self.definitions) is None for value in fit):
            bare = {name: one for name, one in rest.items() if name not in {"type", *_ANNOTATIONS}}
            notes += also(bare)
        if self._rules.untyped and all(isinstance(one, dict) for one in fit):
            notes.append(phrase("enum", fit) if len(fit) > 1 else phrase("const", fit[0]))
            return self._typed({**rest, "type": "object"}, path, notes)
        return listed(fit, self._rules, path, notes)

    def _typed(self, said: Schema, path: Path, notes: list[str]) -> Schema:
        named = kinds(said) or self._inferred(said, path)
        for name in ("not", "if"):
            if name in said:
                whole = {one: said[one] for one in ("if", "then", "else") if one in said}
                notes.append(phrase(name, whole if name == "if" else said[name]))
        if not named:
            if not self._rules.untyped:
                raise Unfit(f"{where(path)}: any value fits, which cannot be enforced")
            return {}
        if len(named) == 1:
            return self._shapes.single(named[0], said, path, notes)
        scalar = set(named) <= _SCALARS
        if self._rules.type_lists and (scalar and not _says_more(said)):
            return {"type": named}
        made = [self._alone(kind, said, path) for kind in named]
        some = [one for one in made if not is_never(one)]
        return NEVER if not some else some[0] if len(some) == 1 else {"anyOf": some}

    def _alone(self, kind: str, said: Schema, path: Path) -> Schema:
        """One of several types, with the notes that are its own."""
        notes: list[str] = []
        made = self._shapes.single(kind, said, path, notes)
        for note in notes:
            self.lose(path, note)
        return made if is_never(made) else ordered(_described(made, {}, notes))

    def _inferred(self, said: Schema, path: Path) -> list[str]:
        """The types that keywords speak of, where no type is named."""
        found = [kind for kind, names in FAMILIES.items() if said.keys() & names]
        if found and found != ["object"]:
            self.lose(path, f"only {' and '.join(found)} can be given")
        return found


def _single(schema: Schema) -> Schema:
    """A reference that is wrapped in a list, as a reference."""
    parts = schema.get("allOf", ())
    if len(parts) != 1 or parts[0].keys() != {"$ref"} or "$ref" in schema:
        return schema
    return {"$ref": parts[0]["$ref"], **{n: one for n, one in schema.items() if n != "allOf"}}


def _says_more(said: Schema) -> bool:
    return any(said.keys() & names for names in FAMILIES.values())


def _described(made: Schema, said: Schema, notes: list[str]) -> Schema:
    """What a schema says in words: its own, and what its keywords could not."""
    if "$ref" in made and (notes or said.keys() & {"title", "description"}):
        made = {"anyOf": [made]}
    made = {**made, **{name: said[name] for name in ("title", "description") if name in said}}
    if notes:
        made["description"] = sentences(made.get("description", ""), notes)
    return made
