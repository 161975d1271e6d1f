"""Describe a validator's problems for a model: bounded, and in the tool's terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, cast

from handrail._schema.json_schema import may_hold, property_names
from handrail._schema.problems import Problem, Problems
from handrail._support import is_list, is_object
from handrail._values.names import closest
from handrail._values.spec import Schema
from handrail._values.strict_json import JsonPath, clip, format_path, format_value, has, replace_at

MAX_LINES = 8

_PHRASES: Mapping[str, str] = {
    "a string": "string_type bytes_type",
    "an integer": "int_type int_from_float",
    "a number": "float_type",
    "a number, or a string with one": "decimal_type decimal_parsing",
    "true or false": "bool_type",
    "null": "none_required",
    "a list": "list_type set_type frozen_set_type tuple_type",
    "an object": "dict_type model_type model_attributes_type dataclass_type",
    "a date such as 2026-01-31": "date_type date_from_datetime_parsing date_parsing",
    "a date and time such as 2026-01-31T10:30:00Z": (
        "datetime_type datetime_parsing datetime_from_date_parsing"
    ),
    "a time such as 10:30:00": "time_type time_parsing",
    "a duration such as PT1H30M": "time_delta_type time_delta_parsing",
    "a UUID": "uuid_type uuid_parsing",
    "a URL": "url_type url_parsing",
    "a finite number": "finite_number",
    "{expected}": "literal_error enum",
    "a number above {gt}": "greater_than",
    "a number of at least {ge}": "greater_than_equal",
    "a number below {lt}": "less_than",
    "a number of at most {le}": "less_than_equal",
    "a multiple of {multiple_of}": "multiple_of",
    "{min_length} or more characters": "string_too_short",
    "{max_length} or fewer characters": "string_too_long",
    "{min_length} or more items": "too_short",
    "{max_length} or fewer items": "too_long",
    "text that matches {pattern}": "string_pattern_mismatch",
}
_EXPECTED = {kind: phrase for phrase, kinds in _PHRASES.items() for kind in kinds.split()}
"""The expected value for each problem kind."""
_KEY = "[key]"
"""The step pydantic adds to the path of a problem with a key."""
_MISSING = frozenset(("missing", "missing_argument", "missing_keyword_only_argument"))
_UNKNOWN = frozenset(("extra_forbidden", "unexpected_keyword_argument"))
_MAX_COMPARED_FIELDS = 100
"""Fields an unknown one is compared with."""
_MAX_COMPARED_CHARS = 64
"""Limit on names compared with others."""
_MAX_LISTED_CHARS = 200
"""Limit on a field list."""


class LocatedProblem(NamedTuple):
    """A problem, and its path in the JSON."""

    problem: Problem
    path: JsonPath
    branches: tuple[tuple[int, int], ...] = ()
    """The path's steps naming a union branch, and the depth of each."""


def locate(problem: Problem, value: Any) -> LocatedProblem:
    """Separate the steps of a problem's path into the JSON from the names of branches."""
    path: list[str | int] = []
    branches: list[tuple[int, int]] = []
    for at, step in enumerate(problem.path):
        if has(value, step):
            value = value[step]
        elif problem.kind in _MISSING and step == problem.path[-1]:
            value = None
        elif step == _KEY:
            continue
        else:
            branches.append((at, len(path)))
            continue
        path.append(step)
    return LocatedProblem(problem, tuple(path), tuple(branches))


class Window(NamedTuple):
    """Arguments with only a few items from a long list, so all can be validated."""

    value: Any
    list_path: JsonPath
    start: int

    def back(self, path: JsonPath) -> JsonPath:
        """Return a path into these arguments as a path into the whole ones."""
        at = len(self.list_path)
        if len(path) <= at or path[:at] != self.list_path:
            return path
        return *path[:at], cast("int", path[at]) + self.start, *path[at + 1 :]

    def has_mistake(self, problem: Problem) -> bool:
        """Return whether a problem is the model's mistake: the shortened list is not."""
        return locate(problem, self.value).path != self.list_path


def find_window(left: Problems, value: Any) -> Window | None:
    """Return a list's first mistake, with some items after it."""
    for problem in left.found:
        path = locate(problem, value).path
        for at, step in enumerate(path):
            if isinstance(step, int):
                items = _value_at(value, path[:at])[step : step + _MAX_WINDOW_ITEMS]
                return Window(replace_at(value, path[:at], items), path[:at], step)
    return None


_MAX_WINDOW_ITEMS = 3 * MAX_LINES


def format_lines(
    left: Problems,
    value: Any,
    schema: Schema,
    *,
    stopped: bool,
    window: Window | None = None,
) -> str:
    """Return a line for each path: the expected and the given value. At most eight, then a count.

    ``stopped`` means that lists were validated only up to their first mistake.
    """
    problems: dict[JsonPath, list[Problem]] = {}
    for located in _likely_problems([locate(problem, value) for problem in left.found]):
        problems.setdefault(located.path, []).append(located.problem)
    unknown = _UnknownFields(
        [path for path, here in problems.items() if _is_any(here, _UNKNOWN)],
        [path for path, here in problems.items() if _is_any(here, _MISSING)],
        schema,
        partial(_value_at, value),
    )
    rows: list[str] = []
    for path, here in islice(problems.items(), MAX_LINES):
        name = format_path(window.back(path) if window else path)
        phrases = dict.fromkeys(_describe_problem(problem, path, unknown) for problem in here)
        rows.append(f"- {name}: {_join_phrases([*phrases], _value_at(value, path))}")
    more = len(problems) - len(rows)
    if not left.complete or (stopped and more):
        rows.append("- and more")
    elif stopped and any(isinstance(step, int) for path in problems for step in path):
        rows.append(_STOPPED)
    elif more:
        rows.append(f"- and {more} more")
    return "\n".join(rows)


_STOPPED = "- and perhaps more: a long list is not checked to its end"


def _likely_problems(found: list[LocatedProblem]) -> list[LocatedProblem]:
    """Return each union's problems from the most likely intended branches.

    These have the fewest problems. A branch expecting another value type was not meant, unless all
    branches do.
    """
    known: dict[tuple[int, str | int], int] = {}
    unions: dict[int, dict[int, _Branch]] = {}
    choices = [_choices(located, known) for located in found]
    for located, chosen in zip(found, choices, strict=True):
        for (union, branch), (_, depth) in zip(chosen, located.branches, strict=True):
            group = unions.setdefault(union, {}).setdefault(branch, _Branch())
            group.problems += 1
            group.is_likely &= len(located.path) > depth
    meant = {union: _likely_branches(branches) for union, branches in unions.items()}
    return [
        located
        for located, chosen in zip(found, choices, strict=True)
        if all(branch in meant[union] for union, branch in chosen)
    ]


@dataclass(slots=True)
class _Branch:
    problems: int = 0
    is_likely: bool = True
    """Whether all problems are inside the value."""


def _choices(
    located: LocatedProblem, known: dict[tuple[int, str | int], int]
) -> list[tuple[int, int]]:
    """Return the unions and branches on a problem's path, with equal numbers for equal prefixes."""
    chosen: list[tuple[int, int]] = []
    names = {at for at, _ in located.branches}
    here = 0
    for at, step in enumerate(located.problem.path):
        below = known.setdefault((here, step), len(known) + 1)
        if at in names:
            chosen.append((here, below))
        here = below
    return chosen


def _likely_branches(branches: Mapping[int, _Branch]) -> frozenset[int]:
    """Return a union's most likely intended branches, or all if none is likely."""
    likely = {name: branch.problems for name, branch in branches.items() if branch.is_likely}
    fewest = min(likely.values(), default=0)
    return frozenset(name for name, count in likely.items() if count == fewest) or frozenset(
        branches
    )


def _is_any(problems: list[Problem], kinds: frozenset[str]) -> bool:
    return any(problem.kind in kinds for problem in problems)


def _describe_problem(problem: Problem, path: JsonPath, unknown: _UnknownFields) -> str:
    kind = problem.kind
    if problem.path[-1:] == (_KEY,):
        return "this key is not allowed"
    if kind in _MISSING:
        return "required, missing"
    if kind in _UNKNOWN:
        return unknown.describe(path)
    if kind in _EXPECTED:
        with suppress(KeyError):  # an author's own error may have a known kind's name
            return "expected " + clip(_EXPECTED[kind].format_map(_numbers(problem.details)))
    # a message by a type's author, or a rare one of pydantic's own
    message = problem.message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return clip(message.replace("Input should be", "expected", 1))


def _numbers(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return limits as the author wrote them: 1, not the validator's 1.0."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in details.items()
    }


def _join_phrases(phrases: list[str], given: Any) -> str:
    prefix = "expected "
    expected = [phrase.removeprefix(prefix) for phrase in phrases if phrase.startswith(prefix)]
    other = [phrase for phrase in phrases if not phrase.startswith(prefix)]
    if expected:
        other.insert(0, f"expected {' or '.join(expected)}, got {_describe_value(given)}")
    return "; ".join(other)


def _value_at(value: Any, path: JsonPath) -> Any:
    for step in path:
        value = value[step] if has(value, step) else None
    return value


def _describe_value(given: Any) -> str:
    if is_list(given):
        return f"a list of {len(given)}"
    if is_object(given):
        return f"an object with {clip(', '.join(given)) or 'no fields'}"
    return f"the string {format_value(given)}" if isinstance(given, str) else format_value(given)


class _UnknownFields:
    """Unknown fields in some arguments, with a suggestion for each."""

    def __init__(
        self,
        unknown: Iterable[JsonPath],
        missing: Iterable[JsonPath],
        schema: Schema,
        value_at: Callable[[JsonPath], Any],
    ) -> None:
        self._unknown = _by_object(unknown)
        self._missing = _by_object(missing)
        self._schema = schema
        self._value_at = value_at
        self._listed: set[JsonPath] = set()
        """The objects whose fields a line has listed already."""

    def describe(self, path: JsonPath) -> str:
        """Return the line for one field."""
        owner = path[:-1]
        fields = property_names(self._schema, owner)
        meant = self._find_close(path, fields)
        if meant is None:
            meant = self._find_missing(path)
        if meant:
            return f"unknown field; did you mean {meant}?"
        if owner in self._listed:
            return "unknown field"
        self._listed.add(owner)
        if fields:
            return f"unknown field; known fields: {clip(', '.join(fields), _MAX_LISTED_CHARS)}"
        return "unknown field" if owner else "unknown field; the tool takes no arguments"

    def _find_close(self, path: JsonPath, fields: Sequence[str]) -> str | None:
        """Return a field with a close name; empty if it was given, None if there is none."""
        name, given = _name(path), self._value_at(path[:-1])
        short = [field for field in fields if len(field) <= _MAX_COMPARED_CHARS]
        if len(name) > _MAX_COMPARED_CHARS:
            return None
        near = closest(name, short[:_MAX_COMPARED_FIELDS])
        return next((field for field in near if field not in given), "") if near else None

    def _find_missing(self, path: JsonPath) -> str:
        """Return the only missing field, if this is the only unknown one, and has its type."""
        owner = path[:-1]
        missing = self._missing.get(owner, [])
        if len(missing) != 1 or len(self._unknown[owner]) != 1:
            return ""
        fits = may_hold(self._schema, (*owner, missing[0]), self._value_at(path))
        return clip(missing[0]) if fits else ""


def _by_object(paths: Iterable[JsonPath]) -> dict[JsonPath, list[str]]:
    """Return field names, by their object."""
    names: dict[JsonPath, list[str]] = {}
    for path in dict.fromkeys(paths):
        names.setdefault(path[:-1], []).append(_name(path))
    return names


def _name(path: JsonPath) -> str:
    return str(path[-1]) if path else ""
