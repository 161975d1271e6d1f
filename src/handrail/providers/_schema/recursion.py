"""Find recursive definitions, and make every recursion optional."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from handrail._support import is_object
from handrail.providers._schema.keywords import MANY, NAMED, ONE
from handrail.providers._schema.neutral import Path, Schema, order_keywords, target, where
from handrail.providers._schema.phrases import sentences

_NESTED = "another value of the same type"


def below(schema: Any) -> Iterator[Schema]:
    """Yield a schema and every schema inside it. References are not followed."""
    if not is_object(schema):
        return
    yield schema
    for name, value in schema.items():
        for inner in _inside(name, value):
            yield from below(inner)


def _inside(name: str, value: Any) -> Iterable[Any]:
    if name in NAMED:
        return dict[str, Any](value).values()
    return value if name in MANY else [value] if name in ONE else ()


def references(schema: Schema) -> list[str]:
    """Return the definitions a schema refers to, in keyword order."""
    return list(dict.fromkeys(target(node) for node in below(schema) if "$ref" in node))


def reachable(definitions: Mapping[str, Schema], start: str) -> set[str]:
    """Return the definitions reachable from one."""
    names: set[str] = set()
    todo = references(definitions[start])
    while todo:
        name = todo.pop()
        if name not in names:
            names.add(name)
            todo += references(definitions[name])
    return names


def circles(definitions: Mapping[str, Schema]) -> dict[str, set[str]]:
    """Map each recursive definition to the definitions in its cycles."""
    ways = {name: reachable(definitions, name) for name in definitions}
    return {
        name: {other for other in way if name in ways[other]}
        for name, way in ways.items()
        if name in way
    }


def unroll(schema: Schema, losses: list[str]) -> Schema:
    """Rewrite a schema to recurse only through optional properties."""
    definitions = dict(schema.get("$defs", {}))
    for name in sorted(definitions):
        circle = circles(definitions).get(name)
        if circle is not None:
            breaker = _CircleBreaker(circle, losses)
            definitions[name] = breaker.cut(breaker.node(definitions[name], (name,)), (name,))
    return {**schema, "$defs": definitions} if definitions else schema


class _CircleBreaker:
    def __init__(self, circle: set[str], losses: list[str]) -> None:
        self._circle = circle
        self._losses = losses

    def node(self, schema: Schema, path: Path) -> Schema:
        """Make the required, recursive properties optional."""
        unrolled = _below(schema, path, self.node)
        known = unrolled.get("properties", {})
        needed = [name for name in unrolled.get("required", ()) if name in known]
        back = [name for name in needed if self._leads_back(known[name])]
        if not back:
            return unrolled
        unrolled["properties"] = {
            name: self._free(inner, (*path, name)) if name in back else inner
            for name, inner in known.items()
        }
        unrolled["required"] = [name for name in unrolled["required"] if name not in back]
        if not unrolled["required"]:
            del unrolled["required"]
        return unrolled

    def _free(self, schema: Schema, path: Path) -> Schema:
        note = "required"
        self._losses.append(f"{where(path)}: {note}")
        bare: Schema = {"anyOf": [schema]} if "$ref" in schema else schema
        return order_keywords(
            {**bare, "description": sentences(bare.get("description", ""), [note])}
        )

    def _leads_back(self, schema: Any) -> bool:
        """Whether a schema recurses without passing through an optional property."""
        if "$ref" in schema:
            return target(schema) in self._circle
        return any(self._leads_back(inner) for inner in _direct(schema))

    def cut(self, schema: Schema, path: Path) -> Schema:
        """Replace recursive references outside properties with a description."""
        if self._is_back(schema):
            self._losses.append(f"{where(path)}: {_NESTED}")
            beside = {
                name: value for name, value in schema.items() if name not in {"$ref", "anyOf"}
            }
            description = sentences(schema.get("description", ""), [_NESTED])
            return order_keywords({**beside, "description": description})
        known = schema.get("properties")
        rest = _below(
            {name: value for name, value in schema.items() if name != "properties"}, path, self.cut
        )
        return rest if known is None else order_keywords({**rest, "properties": known})

    def _is_back(self, schema: Schema) -> bool:
        """Whether a schema is a recursive reference, alone or as the only alternative."""
        options = schema.get("anyOf", ())
        alternative = options[0] if len(options) == 1 else schema
        return "$ref" in alternative and target(alternative) in self._circle


def _direct(schema: Schema) -> list[Schema]:
    """Return the schemas inside, which apply even if all optional properties are omitted."""
    direct = [*schema.get("anyOf", ()), *schema.get("prefixItems", ())]
    direct += [
        schema[name]
        for name in ("items", "additionalProperties")
        if isinstance(schema.get(name), dict)
    ]
    required = schema.get("required", ())
    return direct + [
        inner for name, inner in schema.get("properties", {}).items() if name in required
    ]


def _below(schema: Schema, path: Path, change: Any) -> Schema:
    changed = dict(schema)
    for name in ("anyOf", "prefixItems"):
        if name in changed:
            place = path if name == "anyOf" else (*path, "[]")
            changed[name] = [change(inner, place) for inner in changed[name]]
    for name in ("items", "additionalProperties"):
        if isinstance(changed.get(name), dict):
            changed[name] = change(changed[name], (*path, "[]") if name == "items" else path)
    if "properties" in changed:
        changed["properties"] = {
            name: change(inner, (*path, name)) for name, inner in changed["properties"].items()
        }
    return changed
