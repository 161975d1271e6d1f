"""What a validator complains of, in words that a model can act on: bounded, no library talk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from handrail._content import is_list, is_object
from handrail._json import Path, clipped, has, place, shown
from handrail._schema import Problem

MAX_LINES = 8

_EXPECTED: Mapping[str, str] = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "decimal_type": "a number, or a string with one",
    "decimal_parsing": "a number, or a string with one",
    "bool_type": "true or false",
    "bool_for_number": "a number, not a boolean",
    "number_for_bool": "true or false",
    "none_required": "null",
    "list_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "bytes_type": "a string",
    "date_type": "a date such as 2026-01-31",
    "date_from_datetime_parsing": "a date such as 2026-01-31",
    "date_parsing": "a date such as 2026-01-31",
    "datetime_type": "a date and time such as 2026-01-31T10:30:00Z",
    "datetime_parsing": "a date and time such as 2026-01-31T10:30:00Z",
    "datetime_from_date_parsing": "a date and time such as 2026-01-31T10:30:00Z",
    "time_type": "a time such as 10:30:00",
    "time_parsing": "a time such as 10:30:00",
    "time_delta_type": "a duration such as PT1H30M",
    "time_delta_parsing": "a duration such as PT1H30M",
    "uuid_type": "a UUID",
    "uuid_parsing": "a UUID",
    "url_type": "a URL",
    "url_parsing": "a URL",
    "finite_number": "a finite number",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number of at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "string_too_short": "{min_length} or more characters",
    "string_too_long": "{max_length} or fewer characters",
    "too_short": "{min_length} or more items",
    "too_long": "{max_length} or fewer items",
    "string_pattern_mismatch": "text that matches {pattern}",
}
_KEY = "[key]"
"""What pydantic adds to a path where the complaint is of a key."""
_ABOUT_A_KEY = frozenset(("missing", "missing_argument", "missing_keyword_only_argument"))


class Located(NamedTuple):
    """A problem, and where in the JSON it lies."""

    problem: Problem
    path: Path
    union: Path | None = None
    """Where the union stands of which only one branch complains, if it is one's."""
    branch: str = ""


def located(problem: Problem, value: Any) -> Located:
    """Find a problem's place: what is a step into the JSON, and what the name of a branch."""
    path: list[str | int] = []
    union: Path | None = None
    branch = ""
    for step in problem.path:
        if has(value, step):
            value = value[step]
        elif problem.kind in _ABOUT_A_KEY and step == problem.path[-1]:
            value = None
        elif step == _KEY:
            continue
        else:
            union, branch = (tuple(path), str(step)) if union is None else (union, branch)
            continue
        path.append(step)
    return Located(problem, tuple(path), union, branch)


def lines(found: list[Problem], value: Any) -> str:
    """One line a place: what was expected there and what came. At most eight, then a count."""
    expected: dict[Path, list[str]] = {}
    for one in _likely([located(problem, value) for problem in found]):
        told = expected.setdefault(one.path, [])
        if (words := _words(one.problem)) not in told:
            told.append(words)
    rows = [
        f"- {place(path)}: {_joined(told, _at(value, path))}" for path, told in expected.items()
    ]
    more = len(rows) - MAX_LINES
    return "\n".join(rows[:MAX_LINES] + ([f"- and {more} more"] if more > 0 else []))


def _likely(found: list[Located]) -> list[Located]:
    """Of a union, what was most likely meant: the branches with the least to complain of.

    A branch that wanted another kind of value altogether was not meant, unless all of them did.
    """
    kept = list(found)
    for union in dict.fromkeys(one.union for one in found if one.union is not None):
        branches: dict[str, list[Located]] = {}
        for one in found:
            if one.union == union:
                branches.setdefault(one.branch, []).append(one)
        inside = [group for group in branches.values() if all(one.path != union for one in group)]
        fewest = min(map(len, inside), default=0)
        meant = [one for group in inside if len(group) == fewest for one in group]
        if meant:
            kept = [one for one in kept if one.union != union or one in meant]
    return kept


def _words(problem: Problem) -> str:
    kind = problem.kind
    if problem.path[-1:] == (_KEY,):
        return "is no key that is allowed here"
    if kind in _ABOUT_A_KEY:
        return "is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return "is not a known field; leave it out"
    if kind in _EXPECTED:
        return "expected " + clipped(_EXPECTED[kind].format_map(_numbers(problem.details)))
    # A message by the author of a type, or a rare one by pydantic: keep what it says.
    said = problem.message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return clipped(said.replace("Input should be", "expected", 1))


def _numbers(details: Mapping[str, Any]) -> dict[str, Any]:
    """Limits as they were written: 1, where the validator says 1.0."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in details.items()
    }


def _joined(told: list[str], given: Any) -> str:
    expected = [words.removeprefix("expected ") for words in told if words.startswith("expected ")]
    other = [words for words in told if not words.startswith("expected ")]
    if expected:
        other.insert(0, f"expected {' or '.join(expected)}, got {_kind(given)}")
    return "; ".join(other)


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step] if has(value, step) else None
    return value


def _kind(given: Any) -> str:
    if is_list(given):
        return f"a list of {len(given)}"
    if is_object(given):
        return f"an object with {clipped(', '.join(given)) or 'no fields'}"
    return f"the string {shown(given)}" if isinstance(given, str) else shown(given)
