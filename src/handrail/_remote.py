"""A JSON Schema from elsewhere, as a validator: what a remote tool's own server would refuse.

Checks the keywords that tool schemas use; one that is not understood is left to the server, which
has the last word. A hostile schema can make the check weaker, never make it crash or hang: no
reference is fetched, no pattern runs long, no reference leads back to itself without end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from handrail._content import is_list, is_object
from handrail._core import Core, Unsupported
from handrail._schema import Checker, compiled, pattern_works

MAX_DEPTH = 64

_ANY: Core = {"type": "any"}
_NOTHING: frozenset[str] = frozenset()
_SCALARS = (str, int, float, bool)
_LARGEST = 2**63
_WIDENING = frozenset(
    "$dynamicRef $ref allOf anyOf dependentSchemas else if oneOf patternProperties then "
    "unevaluatedProperties".split()
)
"""Keywords that may add properties to those which a schema lists."""


def remote_checker(schema: Mapping[str, Any]) -> Checker:
    """A validator for the arguments that a remote tool's schema describes."""
    compiler = _Compiler(schema)
    core = compiler.node(schema, depth=0)
    if core["type"] != "typed-dict":  # the arguments are an object, whatever else is said
        core = {"type": "dict", "keys_schema": {"type": "str"}}
    try:
        return compiled(core, compiler.definitions)
    except Unsupported:  # nothing that we know of; the server's own check remains
        return compiled({"type": "dict", "keys_schema": {"type": "str"}}, {})


class _Compiler:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self.definitions: dict[str, Core] = {}

    def node(self, schema: Any, *, depth: int, within: frozenset[str] = _NOTHING) -> Core:
        """One schema; ``within`` are the references that led here without entering a value."""
        if not is_object(schema) or depth > MAX_DEPTH:
            return _ANY
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema["$ref"], depth, within)
        if "enum" in schema or "const" in schema:
            return _one_of(schema.get("enum", [schema.get("const")]))
        if is_list(kinds := schema.get("type")):
            return self._union([{**schema, "type": kind} for kind in kinds], depth, within)
        if "type" in schema or "properties" in schema:
            return self._typed(schema, depth)
        return self._union(schema.get("anyOf") or schema.get("oneOf"), depth, within)

    def _typed(self, schema: Mapping[str, Any], depth: int) -> Core:
        kind = schema.get("type")
        if isinstance(kind, str) and kind in _LIMITED:
            core, limits = _LIMITED[kind]
            return _limited(dict(core), schema, limits)
        if kind == "array":
            items = self.node(schema.get("items"), depth=depth + 1)
            return _limited({"type": "list", "items_schema": items}, schema, _LIST)
        return self._object(schema, depth) if kind in ("object", None) else _ANY

    def _object(self, schema: Mapping[str, Any], depth: int) -> Core:
        properties = schema.get("properties")
        listed: dict[str, Any] = properties if is_object(properties) else {}
        required = _names(schema.get("required"))
        core: Core = {
            "type": "typed-dict",
            "fields": {
                name: {
                    "type": "typed-dict-field",
                    "schema": self.node(listed.get(name), depth=depth + 1),
                    "required": name in required,
                }
                for name in dict.fromkeys([*listed, *required])
            },
        }
        # A schema that lists properties and says no more means these: a misspelt optional one
        # that a server quietly ignores is a call that did not do what the model meant.
        more = schema.get("additionalProperties", not listed or bool(schema.keys() & _WIDENING))
        core["extra_behavior"] = "forbid" if more is False else "allow"
        if is_object(more):
            core["extras_schema"] = self.node(more, depth=depth + 1)
        return core

    def _union(self, choices: Any, depth: int, within: frozenset[str]) -> Core:
        if not is_list(choices) or not choices:
            return _ANY
        nodes = [self.node(choice, depth=depth + 1, within=within) for choice in choices]
        some = [node for node in nodes if node["type"] != "none"]
        if not some:
            return {"type": "none"}
        core: Core = some[0] if len(some) == 1 else {"type": "union", "choices": some}
        return core if len(some) == len(nodes) else {"type": "nullable", "schema": core}

    def _reference(self, reference: str, depth: int, within: frozenset[str]) -> Core:
        target = self._target(reference)
        if target is None or reference in within:
            return _ANY
        if reference not in self.definitions:
            self.definitions[reference] = {**_ANY, "ref": reference}
            made = self.node(target, depth=depth + 1, within=within | {reference})
            self.definitions[reference] = {**_unnamed(made), "ref": reference}
        return {"type": "definition-ref", "schema_ref": reference}

    def _target(self, reference: str) -> dict[str, Any] | None:
        node: Any = self._root
        if not reference.startswith("#/"):
            return None
        for step in reference.removeprefix("#/").split("/"):
            node = node.get(step) if is_object(node) else None
        return node if is_object(node) else None


def _unnamed(core: Core) -> Core:
    """A definition that is only a reference, as a schema that can carry a name of its own."""
    return {"type": "chain", "steps": [core]} if core["type"] == "definition-ref" else core


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if is_list(value) else []


def _one_of(values: Any) -> Core:
    if not is_list(values) or not values:
        return _ANY
    some = [value for value in values if value is not None]
    if not all(isinstance(value, _SCALARS) for value in some):
        return _ANY
    core: Core = {"type": "literal", "expected": some} if some else {"type": "none"}
    return core if len(some) in (0, len(values)) else {"type": "nullable", "schema": core}


_STRING = {"minLength": "min_length", "maxLength": "max_length", "pattern": "pattern"}
_LIST = {"minItems": "min_length", "maxItems": "max_length"}
_NUMBER = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
}
_LIMITED: Mapping[str, tuple[Core, Mapping[str, str]]] = {
    "string": ({"type": "str"}, _STRING),
    "integer": ({"type": "int"}, _NUMBER),
    "number": ({"type": "float"}, _NUMBER),
    "boolean": ({"type": "bool"}, {}),
    "null": ({"type": "none"}, {}),
}


def _limited(core: Core, schema: Mapping[str, Any], limits: Mapping[str, str]) -> Core:
    for keyword, limit in limits.items():
        value: Any = schema.get(keyword)
        if keyword == "pattern":
            if isinstance(value, str) and pattern_works(value):
                core[limit] = value
        elif _is_usable(value, whole=core["type"] != "float", positive=keyword not in _SIGNED):
            core[limit] = value if core["type"] == "float" else int(value)
    return core


_SIGNED = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"))


def _is_usable(value: Any, *, whole: bool, positive: bool) -> bool:
    """Whether a limit is a number that the validator takes for this type."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    if abs(value) >= _LARGEST or (positive and value < 0):
        return False
    return not whole or value == int(value)
