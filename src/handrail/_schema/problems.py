"""A validator's problems as data: at most as many as are reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from json import JSONDecoder
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from handrail._schema.validator import ValidationError

MAX_PROBLEMS = 200
"""Problems up to which all are read: creating them takes longer than validating."""
MAX_FIRST_PROBLEMS = 50
"""Problems read if there are more."""


class Problem(NamedTuple):
    """One validator problem."""

    kind: str
    path: tuple[str | int, ...]
    given: Any
    details: Mapping[str, Any]
    message: str


class Problems(NamedTuple):
    """One value's problems."""

    found: list[Problem]
    complete: bool
    """Whether there are no others."""


def problems(error: ValidationError) -> Problems:
    """Return a validator's problems as data, without links to its documentation."""
    if error.error_count() <= MAX_PROBLEMS:
        return Problems(
            [_problem(details) for details in error.errors(include_url=False)], complete=True
        )
    first = islice(_first_errors(error), MAX_FIRST_PROBLEMS)
    return Problems([_problem(details) for details in first], complete=False)


def few_problems(error: ValidationError) -> Problems:
    """Return a validator's problems if they are few; else none, as incomplete."""
    few = error.error_count() <= MAX_PROBLEMS
    return problems(error) if few else Problems([], complete=False)


def _first_errors(error: ValidationError) -> Iterator[Any]:
    """Yield the problems from their JSON. As Python objects, all would be created at once."""
    text = error.json(include_url=False, include_input=False)
    decoder, at = JSONDecoder(), 1
    while True:
        details, at = decoder.raw_decode(text, at)
        yield details
        at += 1


def _problem(details: Mapping[str, Any]) -> Problem:
    path, given = tuple(details["loc"]), details.get("input")
    return _about_the_tag(
        Problem(details["type"], path, given, details.get("ctx", {}), details["msg"])
    )


def _about_the_tag(problem: Problem) -> Problem:
    """Return a tagged union's problem as a problem of its tag."""
    if problem.kind not in ("union_tag_invalid", "union_tag_not_found"):
        return problem
    tag = str(problem.details["discriminator"])
    path = problem.path if tag.endswith("()") else (*problem.path, tag.strip("'"))
    if problem.kind == "union_tag_not_found":
        return problem._replace(kind="missing", path=path)
    expected = {"expected": str(problem.details["expected_tags"]).replace("', '", "' or '")}
    return problem._replace(kind="literal_error", path=path, details=expected)
