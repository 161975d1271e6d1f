"""Conditions on arguments, as rules write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from handrail._support import is_list, is_object
from handrail.policy._rules.errors import InvalidRule
from handrail.policy._rules.glob import name_glob, path_glob
from handrail.policy._rules.regex import compile_regex
from handrail.policy._rules.rule import Condition
from handrail.policy._rules.toml_text import format_value

_MAX_SHOWN_CHARS = 60
_MEANT = {
    **dict.fromkeys(("at_least", "ge", "gte", "from"), "min"),
    **dict.fromkeys(("at_most", "le", "lte", "up_to"), "max"),
    **dict.fromkeys(("over", "gt", "more_than"), "above"),
    **dict.fromkeys(("under", "lt", "less_than"), "below"),
}
"""What people write for a bound."""


def read_conditions(table: object) -> dict[str, Condition]:
    """Return a rule's conditions, by argument."""
    if not is_object(table):
        raise InvalidRule(f"args must be a table, {format_got(table)}")
    if not table:
        raise InvalidRule("args is empty; add a value or remove the key")
    return {name: _read_condition(name, wanted) for name, wanted in table.items()}


def _read_condition(name: str, wanted: Any) -> Condition:
    if not is_object(wanted):
        return lambda value: _is_same(value, wanted)
    tests = [_read_test(name, str(kind), bound) for kind, bound in wanted.items()]
    return lambda value: all(test(value) for test in tests)


def _read_test(name: str, kind: str, bound: Any) -> Condition:
    text: dict[str, Callable[[str], Callable[[str], bool]]] = {
        "glob": path_glob,
        "like": name_glob,
        "regex": compile_regex,
    }
    numbers: dict[str, Callable[[Any, Any], bool]] = {
        "min": lambda value, limit: value >= limit,
        "max": lambda value, limit: value <= limit,
        "above": lambda value, limit: value > limit,
        "below": lambda value, limit: value < limit,
    }
    if kind in text and isinstance(bound, str):
        fits = text[kind](bound)
        return lambda value: isinstance(value, str) and fits(value)
    if kind in numbers and _is_number(bound):
        compare = numbers[kind]
        return lambda value: _is_number(value) and compare(value, bound)
    if kind == "in" and is_list(bound):
        return lambda value: any(_is_same(value, choice) for choice in bound)
    meant = f"did you mean {_MEANT[kind]}? Write" if kind in _MEANT else "write"
    raise InvalidRule(
        f"args.{name}: invalid condition {kind} = {format_value(bound)}; {meant} a value, or a "
        "table with glob, like, regex, in, min, max, above or below"
    )


def _is_same(value: Any, wanted: Any) -> bool:
    """Return whether two JSON values are equal: 5 equals 5.0, but true is not a number."""
    return value == wanted and (
        type(value) is type(wanted) or (_is_number(value) and _is_number(wanted))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def format_got(value: Any) -> str:
    """Return a wrong value for an error message, shortened if it is long."""
    text = format_value(value)
    return f"got {text}" if len(text) <= _MAX_SHOWN_CHARS else f"got {text[:_MAX_SHOWN_CHARS]}…"
