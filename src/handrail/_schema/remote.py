"""Validators for remote tools, from the JSON Schemas a server sent.

Arguments are checked by the keywords tool schemas use. Other keywords are left to the server, which
validates again. So are slow checks: a hostile schema can make the check weaker, but never make it
crash or hang.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

from handrail._schema.strictness import Core, Unsupported
from handrail._schema.translation import Translation
from handrail._schema.validator import Checker, compile_checker, pattern_works

MAX_MATCH_STEPS = 3_000_000
"""Characters times pattern steps, up to which patterns are matched here.

Time is linear in the characters, but each can cost as much as a pattern has steps.
"""
MIN_MATCHED_CHARS = 4 * 1024
"""Characters up to which all patterns are matched."""

_OBJECT: Core = {"type": "dict", "keys_schema": {"type": "str"}}
"""The schema of arguments if nothing else is known."""
_ANY: Core = {"type": "any"}


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
    translation = Translation(schema, closed=arguments, takes_pattern=takes_pattern)
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
