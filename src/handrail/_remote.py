"""A JSON Schema from elsewhere, as a validator: what a remote tool's own server would refuse.

Checks the keywords that tool schemas use; one that is not understood is left to the server, which
has the last word. Never fetches a reference, never runs a pattern that could take long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handrail._content import is_list, is_object
from handrail._core import Core
from handrail._schema import Checker, compiled, pattern_works

MAX_DEPTH = 64

_ANY: Core = {"type": "any"}
_SCALARS = (str, int, float, bool, type(None))


def remote_checker(schema: Mapping[str, Any]) -> Checker:
    """A validator for the arguments that a remote tool's schema describes."""
    compiler = _Compiler(schema)
    core = compiler.node(schema, depth=0)
    if core["type"] != "typed-dict":  # the arguments are an object, whatever else is said
        core = {"type": "dict", "keys_schema": {"type": "str"}}
    return compiled(core, compiler.definitions)


class _Compiler:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self.definitions: dict[str, Core] = {}

    def node(self, schema: Any, *, depth: int) -> Core:
        if not is_object(schema) or depth > MAX_DEPTH:
            return _ANY
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]), depth)
        if "enum" in schema or "const" in schema:
            return _one_of(schema.get("enum", [schema.get("const")]))
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                return self._union(schema[keyword], depth)
        if is_list(kinds := schema.get("type")):
            return self._union([{**schema, "type": kind} for kind in kinds], depth)
        return self._typed(schema, depth)

    def _typed(self, schema: Mapping[str, Any], depth: int) -> Core:
        kind = schema.get("type")
        if kind in _LIMITED:
            core, limits = _LIMITED[kind]
            return _limited(dict(core), schema, limits)
        if kind == "array":
            items = self.node(schema.get("items"), depth=depth + 1)
            return _limited({"type": "list", "items_schema": items}, schema, _LIST)
        if kind == "object" or "properties" in schema:
            return self._object(schema, depth)
        return _ANY

    def _object(self, schema: Mapping[str, Any], depth: int) -> Core:
        properties: Mapping[str, Any] = schema.get("properties") or {}
        required = set(schema.get("required", ()))
        core: Core = {
            "type": "typed-dict",
            "fields": {
                name: {
                    "type": "typed-dict-field",
                    "schema": self.node(one, depth=depth + 1),
                    "required": name in required,
                }
                for name, one in {**dict.fromkeys(sorted(required)), **properties}.items()
            },
        }
        # A schema that lists properties and says no more means these: a misspelt optional one
        # that a server quietly ignores is a call that did not do what the model meant.
        more = schema.get("additionalProperties", not properties or "patternProperties" in schema)
        core["extra_behavior"] = "forbid" if more is False else "allow"
        if is_object(more):
            core["extras_schema"] = self.node(more, depth=depth + 1)
        return core

    def _union(self, choices: Any, depth: int) -> Core:
        nodes = [self.node(choice, depth=depth + 1) for choice in choices]
        return {"type": "union", "choices": nodes} if nodes else _ANY

    def _reference(self, reference: str, depth: int) -> Core:
        target: Any = self._root
        for step in reference.removeprefix("#/").split("/") if reference.startswith("#/") else ():
            target = target.get(step) if is_object(target) else None
        if target is self._root or not is_object(target):
            return _ANY
        if reference not in self.definitions:
            self.definitions[reference] = _ANY  # a reference to itself must end somewhere
            self.definitions[reference] = {**self.node(target, depth=depth + 1), "ref": reference}
        return {"type": "definition-ref", "schema_ref": reference}


def _one_of(values: Any) -> Core:
    if is_list(values) and values and all(isinstance(one, _SCALARS) for one in values):
        return {"type": "literal", "expected": values}
    return _ANY


_STRING = {"minLength": "min_length", "maxLength": "max_length", "pattern": "pattern"}
_LIST = {"minItems": "min_length", "maxItems": "max_length"}
_NUMBER = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
}
_LIMITED: Mapping[Any, tuple[Core, Mapping[str, str]]] = {
    "string": ({"type": "str"}, _STRING),
    "integer": ({"type": "int"}, _NUMBER),
    "number": ({"type": "float"}, _NUMBER),
    "boolean": ({"type": "bool"}, {}),
    "null": ({"type": "none"}, {}),
}


def _limited(core: Core, schema: Mapping[str, Any], limits: Mapping[str, str]) -> Core:
    for keyword, limit in limits.items():
        value = schema.get(keyword)
        if keyword == "pattern":
            if isinstance(value, str) and pattern_works(value):
                core[limit] = value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            core[limit] = value
    return core
