"""Validators for remote tools, from the JSON Schemas a server sent.

Arguments are checked by the keywords tool schemas use. Other keywords are left to the server, which
validates again. So are slow checks: a hostile schema can make the check weaker, but never make it
crash or hang.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

from handrail._schema.strictness import Core, Unsupported
from handrail._schema.validator import Checker, compile_checker, pattern_works
from handrail._support import is_list, is_object

MAX_MATCH_STEPS = 3_000_000
"""Characters times pattern steps, up to which patterns are matched here.

Time is linear in the characters, but each can cost as much as a pattern has steps.
"""
MIN_MATCHED_CHARS = 4 * 1024
"""Characters up to which all patterns are matched."""

_OBJECT: Core = {"type": "dict", "keys_schema": {"type": "str"}}
"""The schema of arguments if nothing else is known."""
_ANY: Core = {"type": "any"}
_MAX_DEPTH = 64
_MAX_NODES = 3_000
"""Schemas translated. Those after them are skipped."""
_MAX_CHOICE_CHARS = 4_000
"""Limit on an enum's values: every error has them all."""
_CHARS_PER_NODE = 40
_MAX_PATTERN_COST = 5_000
"""Steps in the automata for all patterns together."""
_COSTLY_STEP = 10
"""Steps for a character class with all Unicode characters."""

_NOTHING: frozenset[str] = frozenset()
_SCALARS = (str, int, float, bool)
_MAX_LIMIT = 2**63
_WIDENING = frozenset(
    "$dynamicRef $ref allOf anyOf dependentSchemas else if oneOf patternProperties then "
    "unevaluatedProperties".split()
)
"""Keywords adding properties to a schema's listed ones."""


def remote_checker(schema: Mapping[str, Any]) -> Checker:
    """Return a validator for a remote tool's arguments.

    A schema with listed properties allows no others by default. If a server ignored a misspelled
    optional one, the call would not do what the model meant.
    """
    return _checker(schema, arguments=True)


def output_checker(schema: Mapping[str, Any]) -> Checker:
    """Return a validator for a remote tool's output, for supported keywords."""
    return _checker(schema, arguments=False)


def _checker(schema: Mapping[str, Any], *, arguments: bool, patterns: bool = True) -> Checker:
    takes_pattern = pattern_works if patterns else None
    # not a JSON Schema library: it would be strict about other things: decision 005
    translation = _Translation(schema, closed=arguments, takes_pattern=takes_pattern)
    core = translation.core
    if arguments and core["type"] != "typed-dict":
        core = _OBJECT  # arguments are always an object
    knows_nothing = cache(partial(_know_nothing, _OBJECT if arguments else _ANY))
    try:
        checker = compile_checker(core, translation.definitions)
    except Unsupported:  # only the server checks it
        return knows_nothing()
    if not translation.pattern_cost:
        return replace(checker, lighter=knows_nothing)
    max_chars = max(MIN_MATCHED_CHARS, MAX_MATCH_STEPS // translation.pattern_cost)
    short_chars = min(max_chars, checker.short_chars)
    lighter = cache(partial(_checker, schema, arguments=arguments, patterns=False))
    return replace(checker, short_chars=short_chars, max_chars=max_chars, lighter=lighter)


def _know_nothing(core: Core) -> Checker:
    return replace(compile_checker(core, {}), visits_if_long=lambda: None)


class _Translation:
    """One JSON Schema and its definitions, as schemas for the validator.

    ``closed`` means objects with listed properties allow no others. ``takes_pattern`` returns
    whether the linear-time engine supports a pattern; None skips all patterns.
    """

    def __init__(
        self,
        root: Mapping[str, Any],
        *,
        closed: bool,
        takes_pattern: Callable[[str], bool] | None,
    ) -> None:
        self._root = root
        self._closed = closed
        self._takes_pattern = takes_pattern
        self._nodes_left = _MAX_NODES
        self.pattern_cost = 0
        """Steps in the automata for all used patterns."""
        self.definitions: dict[str, Core] = {}
        self.core = self.translate(root, depth=0)

    def translate(self, schema: Any, *, depth: int, within: frozenset[str] = _NOTHING) -> Core:
        """Translate one schema. ``within`` are the references that led here in the same value."""
        self._nodes_left -= 1
        if not is_object(schema) or depth > _MAX_DEPTH or self._nodes_left < 0:
            return _ANY
        if isinstance(schema.get("$ref"), str):
            return self._translate_reference(schema["$ref"], depth, within)
        if "enum" in schema or "const" in schema:
            return self._translate_choices(schema.get("enum", [schema.get("const")]))
        if is_list(kinds := schema.get("type")):
            known = dict.fromkeys(kind for kind in kinds if isinstance(kind, str))
            return self._translate_union(
                [{**schema, "type": kind} for kind in known], depth, within
            )
        if "type" in schema or "properties" in schema:
            return self._translate_type(schema, depth)
        return self._translate_union(schema.get("anyOf") or schema.get("oneOf"), depth, within)

    def _translate_type(self, schema: Mapping[str, Any], depth: int) -> Core:
        kind = schema.get("type")
        if isinstance(kind, str) and kind in _LIMITED:
            core, limits = _LIMITED[kind]
            return self._add_limits(dict(core), schema, limits)
        if kind == "array":
            items = self.translate(schema.get("items"), depth=depth + 1)
            return self._add_limits({"type": "list", "items_schema": items}, schema, _LIST)
        return self._translate_object(schema, depth) if kind in ("object", None) else _ANY

    def _translate_object(self, schema: Mapping[str, Any], depth: int) -> Core:
        properties = schema.get("properties")
        listed: dict[str, Any] = properties if is_object(properties) else {}
        required = dict.fromkeys(_names(schema.get("required")))
        names = [*listed, *(name for name in required if name not in listed)]
        taken = names[: max(0, self._nodes_left)]
        core: Core = {
            "type": "typed-dict",
            "fields": {
                name: {
                    "type": "typed-dict-field",
                    "schema": self.translate(listed.get(name), depth=depth + 1),
                    "required": name in required,
                }
                for name in taken
            },
        }
        is_open = not self._closed or not listed or bool(schema.keys() & _WIDENING)
        more = schema.get("additionalProperties", is_open)
        is_closed = more is False and len(taken) == len(names)
        core["extra_behavior"] = "forbid" if is_closed else "allow"
        if is_object(more):
            core["extras_schema"] = self.translate(more, depth=depth + 1)
        return core

    def _translate_union(self, choices: Any, depth: int, within: frozenset[str]) -> Core:
        if not is_list(choices) or not choices:
            return _ANY
        nodes = [self.translate(choice, depth=depth + 1, within=within) for choice in choices]
        # each once: equal choices need not be tried twice
        some = list({repr(node): node for node in nodes if node["type"] != "none"}.values())
        if not some:
            return {"type": "none"}
        if _ANY in some:
            return _ANY
        core: Core = some[0] if len(some) == 1 else {"type": "union", "choices": some}
        null = any(node["type"] == "none" for node in nodes)
        return {"type": "nullable", "schema": core} if null else core

    def _translate_choices(self, values: Any) -> Core:
        if not is_list(values) or not values:
            return _ANY
        some = [value for value in values if value is not None]
        if not all(isinstance(value, _SCALARS) for value in some):
            return _ANY
        size = sum(len(repr(value)) for value in some)
        self._nodes_left -= size // _CHARS_PER_NODE
        if size > _MAX_CHOICE_CHARS:
            return _ANY
        core: Core = {"type": "literal", "expected": some} if some else {"type": "none"}
        return core if len(some) in (0, len(values)) else {"type": "nullable", "schema": core}

    def _translate_reference(self, reference: str, depth: int, within: frozenset[str]) -> Core:
        target = self._target(reference)
        if target is None or reference in within:
            return _ANY
        if reference not in self.definitions:
            self.definitions[reference] = {**_ANY, "ref": reference}
            made = self.translate(target, depth=depth + 1, within=within | {reference})
            self.definitions[reference] = {**_wrap_reference(made), "ref": reference}
        return {"type": "definition-ref", "schema_ref": reference}

    def _target(self, reference: str) -> dict[str, Any] | None:
        node: Any = self._root
        if not reference.startswith("#/"):
            return None
        for step in reference.removeprefix("#/").split("/"):
            node = node.get(step) if is_object(node) else None
        return node if is_object(node) else None

    def _add_limits(self, core: Core, schema: Mapping[str, Any], limits: Mapping[str, str]) -> Core:
        for keyword, limit in limits.items():
            value: Any = schema.get(keyword)
            if keyword == "pattern":
                if isinstance(value, str) and self._can_match(value):
                    core[limit] = value
            elif _is_usable(value, whole=core["type"] != "float", positive=keyword not in _SIGNED):
                core[limit] = value if core["type"] == "float" else int(value)
        return core

    def _can_match(self, pattern: str) -> bool:
        if self._takes_pattern is None:
            return False
        cost = _pattern_cost(pattern)
        if self.pattern_cost + cost > _MAX_PATTERN_COST or not self._takes_pattern(pattern):
            return False
        self.pattern_cost += cost
        return True


def _pattern_cost(pattern: str) -> int:
    """Return about how many steps a pattern's automaton has, rather too many than too few."""
    braces = re.findall(r"\{[, ]*+[0-9][0-9, ]*+\}", pattern)
    counts = [max(1, *map(int, re.findall("[0-9]+", numbers))) for numbers in braces]
    times = math.prod(counts) if "){" in pattern else sum(counts)
    is_wide = any(sign in pattern for sign in ("\\", ".", "[^", "(?"))
    return len(pattern) + times * (_COSTLY_STEP if is_wide else 1)


def _wrap_reference(core: Core) -> Core:
    """Wrap a definition consisting only of a reference, so it can have its own name."""
    return {"type": "chain", "steps": [core]} if core["type"] == "definition-ref" else core


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if is_list(value) else []


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


_SIGNED = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"))


def _is_usable(value: Any, *, whole: bool, positive: bool) -> bool:
    """Return whether a limit is a number the validator accepts for this type."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    if abs(value) >= _MAX_LIMIT or (positive and value < 0):
        return False
    return not whole or value == int(value)
