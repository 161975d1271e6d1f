"""Repairs that lose nothing: each has one reading, and the schema must then have no complaint."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple, TypeAlias

from handrail._complaint import Located, located
from handrail._json import NotJson, Path, place, read
from handrail._schema import Problem

MAX_REPAIRS = 32
"""Each repair is tried on a copy of everything, so their number must not grow with the input."""

Check: TypeAlias = Callable[[Any], tuple[Any, list[Problem]]]
"""Validates a JSON value: the typed values, or None and the problems."""
Optional: TypeAlias = Callable[[Path], bool]
"""Whether the schema lists what stands at a path as a property."""

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,99})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][+-]?[0-9]{1,3})?")
_EXACT_FLOAT = 2**53

_LISTS = frozenset(("list_type", "set_type", "frozen_set_type", "tuple_type"))
_OBJECTS = frozenset(("dict_type", "model_type", "model_attributes_type", "dataclass_type"))

_ABSENT = object()
"""Stands for: take the key away."""


class Mended(NamedTuple):
    """A JSON value after some repairs, what it validates to, and what is still wrong with it."""

    value: Any
    values: Any
    left: list[Problem]
    repairs: tuple[str, ...] = ()


class _Reading(NamedTuple):
    value: Any
    how: str
    inside_later: bool = False
    """Whether what lies inside may need repairs of its own."""


def mended(value: Any, found: list[Problem], check: Check, listed: Optional) -> Mended:
    """Mend what can be mended, one place at a time; not at all, where too much is wrong."""
    now = Mended(value, None, found)
    while 0 < len(now.left) <= MAX_REPAIRS and len(now.repairs) < MAX_REPAIRS:
        step = next(_steps(now, check, listed), None)
        if step is None:
            break
        now = step
    return now


def _steps(now: Mended, check: Check, listed: Optional) -> Iterator[Mended]:
    """Each repair of one problem after which there is no more complaint at that place."""
    for problem in now.left:
        where = located(problem, now.value)
        if where.union is not None:
            continue  # one branch of a union says so; another may read it differently
        for reading in _readings(where, listed):
            value = _with(now.value, where.path, reading.value)
            values, left = check(value)
            if _settled(where.path, [located(one, value).path for one in left], reading):
                how = f"{place(where.path)}: {reading.how}"
                yield Mended(value, values, left, (*now.repairs, how))


def _settled(path: Path, complaints: list[Path], reading: _Reading) -> bool:
    if reading.inside_later:
        return path not in complaints
    return all(one[: len(path)] != path for one in complaints)


def _readings(where: Located, listed: Optional) -> Iterator[_Reading]:
    """Other readings of what was given, best first."""
    kind, given = where.problem.kind, where.problem.given
    if given is None:
        if listed(where.path):
            yield _Reading(_ABSENT, "null was read as left out")
    elif kind in _OBJECTS:
        yield from _decoded(given, dict, "an object")
    elif kind in _LISTS:
        yield from _decoded(given, list, "a list")
        if _is_single(given, where.path):
            yield _Reading([given], "the single value was read as a list of one")
            for scalar in _scalars(given):
                yield _Reading([scalar.value], "the single value was read as a list of one")
    elif kind in _SCALARS:
        yield from (one for one in _scalars(given) if type(one.value) in _SCALARS[kind])


_SCALARS: dict[str, tuple[type, ...]] = {
    "int_type": (int,),
    "float_type": (int, float),
    "bool_type": (bool,),
}


def _is_single(given: Any, path: Path) -> bool:
    """Whether a list of one is the only list this can mean.

    Inside a list, several single values may be one list; an empty text may be an empty list; a
    text that starts like JSON is JSON that was cut off.
    """
    if path and isinstance(path[-1], int):
        return False
    return given != "" and not (isinstance(given, str) and given.lstrip()[:1] in ("[", "{"))


def _decoded(given: Any, wanted: type, noun: str) -> Iterator[_Reading]:
    if isinstance(given, str):
        try:
            inside = read(given)
        except NotJson:
            return
        if isinstance(inside, wanted):
            yield _Reading(inside, f"the string was read as the JSON of {noun}", inside_later=True)


def _scalars(given: Any) -> Iterator[_Reading]:
    if isinstance(given, float) and given.is_integer() and abs(given) <= _EXACT_FLOAT:
        yield _Reading(int(given), "the whole number was read as an integer")
    if not isinstance(given, str):
        return
    if _INTEGER.fullmatch(given):
        yield _Reading(int(given), "the string was read as a number")
    elif _NUMBER.fullmatch(given) and math.isfinite(float(given)):
        yield _Reading(float(given), "the string was read as a number")
    elif given in ("true", "false"):
        yield _Reading(given == "true", "the string was read as a boolean")


def _with(value: Any, path: Path, part: Any) -> Any:
    """A copy of a JSON value with one place changed or taken away."""
    if not path:
        return part
    copy = deepcopy(value)
    node = copy
    for step in path[:-1]:
        node = node[step]
    if part is _ABSENT:
        del node[path[-1]]
    else:
        node[path[-1]] = part
    return copy
