"""Repair arguments without loss: each repair has one reading, and must satisfy the schema."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from handrail._definition.argument_errors import LocatedProblem, locate
from handrail._schema.json_reader import NotJson, read
from handrail._schema.problems import Problems
from handrail._values.strict_json import JsonPath, format_path, replace_at

MAX_REPAIRS = 32
"""Each repair is tried by validating everything, so their number must not grow with the input."""

MAX_DECODED_CHARS = 256 * 1024
"""Limit on strings parsed as JSON: validating the content costs more than parsing."""

Check: TypeAlias = Callable[[Any], tuple[Any, Problems]]
"""Validates a JSON value. Returns the typed values, or None and the problems."""
ListsProperty: TypeAlias = Callable[[JsonPath], bool]
"""Returns whether the schema lists the value at a path as a property."""

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,99})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][+-]?[0-9]{1,3})?")
_MAX_EXACT_FLOAT = 2**53

_LISTS = frozenset(("list_type", "set_type", "frozen_set_type", "tuple_type"))
_OBJECTS = frozenset(("dict_type", "model_type", "model_attributes_type", "dataclass_type"))

OMITTED = "null was read as omitted"
"""A repair without a note: some APIs have no other way to omit a field."""

_ABSENT = object()
"""Marks a key for removal."""


class RepairState(NamedTuple):
    """A JSON value after some repairs, its validated values, and the remaining problems."""

    value: Any
    values: Any
    left: Problems
    repairs: tuple[str, ...] = ()


class _Reading(NamedTuple):
    value: Any
    how: str
    inside_later: bool = False
    """Whether the values inside may need repairs too."""


def repair(
    value: Any, found: Problems, check: Check, listed: ListsProperty, *, tries: int
) -> RepairState:
    """Repair values one at a time, where possible. Does nothing if too much is wrong.

    ``tries`` is how many times everything may be validated for this.
    """
    now = RepairState(value, None, found)
    left = iter(range(tries))
    while _is_worth_repairing(now):
        step = next(_steps(now, check, listed, left), None)
        if step is None:
            break
        now = step
    return now


def _is_worth_repairing(now: RepairState) -> bool:
    few = now.left.complete and 0 < len(now.left.found) <= MAX_REPAIRS
    return few and len(now.repairs) < MAX_REPAIRS


def _steps(
    now: RepairState, check: Check, listed: ListsProperty, tries: Iterator[int]
) -> Iterator[RepairState]:
    """Yield each repair of one problem after which its path has none."""
    for problem in now.left.found:
        where = locate(problem, now.value)
        if where.branches:
            continue  # a problem in one union branch; another branch may read it differently
        for _, reading in zip(tries, _readings(where, listed), strict=False):
            value = _change_at(now.value, where.path, reading.value)
            values, left = check(value)
            remaining = [locate(problem, value).path for problem in left.found]
            if left.complete and _is_settled(where.path, remaining, reading):
                how = f"{format_path(where.path)}: {reading.how}"
                yield RepairState(value, values, left, (*now.repairs, how))


def _is_settled(path: JsonPath, remaining: list[JsonPath], reading: _Reading) -> bool:
    if reading.inside_later:
        return path not in remaining
    return all(other[: len(path)] != path for other in remaining)


def _readings(where: LocatedProblem, listed: ListsProperty) -> Iterator[_Reading]:
    """Yield other readings for the given value, best first."""
    kind, given = where.problem.kind, where.problem.given
    if given is None:
        if listed(where.path):
            yield _Reading(_ABSENT, OMITTED)
    elif kind in _OBJECTS:
        yield from _decode(given, dict, "a JSON object")
    elif kind in _LISTS:
        yield from _decode(given, list, "a JSON list")
        if _is_single(given, where.path):
            yield _Reading([given], "the single value was read as a list of one item")
            for scalar in _scalars(given):
                yield _Reading([scalar.value], "the single value was read as a list of one item")
    elif kind in _SCALARS:
        yield from (reading for reading in _scalars(given) if type(reading.value) in _SCALARS[kind])


_SCALARS: dict[str, tuple[type, ...]] = {
    "int_type": (int,),
    "float_type": (int, float),
    "bool_type": (bool,),
}


def _is_single(given: Any, path: JsonPath) -> bool:
    """Return whether a list with one item is the only list this can mean.

    Inside a list, several single values may be one list. An empty text may be an empty list. A text
    starting like JSON is JSON cut off.
    """
    if path and isinstance(path[-1], int):
        return False
    return given != "" and not (isinstance(given, str) and given.lstrip()[:1] in ("[", "{"))


def _decode(given: Any, wanted: type, noun: str) -> Iterator[_Reading]:
    if isinstance(given, str) and len(given) <= MAX_DECODED_CHARS:
        try:
            inside = read(given)
        except NotJson:
            return
        if isinstance(inside, wanted):
            yield _Reading(inside, f"the string was read as {noun}", inside_later=True)


def _scalars(given: Any) -> Iterator[_Reading]:
    if isinstance(given, float) and given.is_integer() and abs(given) <= _MAX_EXACT_FLOAT:
        yield _Reading(int(given), "the whole number was read as an integer")
    if not isinstance(given, str):
        return
    if _INTEGER.fullmatch(given):
        yield _Reading(int(given), "the string was read as a number")
    elif _NUMBER.fullmatch(given) and math.isfinite(float(given)):
        yield _Reading(float(given), "the string was read as a number")
    elif given in ("true", "false"):
        yield _Reading(given == "true", "the string was read as a boolean")


def _change_at(value: Any, path: JsonPath, part: Any) -> Any:
    """Return a JSON value with one part changed or removed."""
    if part is not _ABSENT:
        return replace_at(value, path, part)
    *above, last = path
    owner = value
    for step in above:
        owner = owner[step]
    rest = {key: item for key, item in owner.items() if key != last}
    return replace_at(value, tuple(above), rest)
