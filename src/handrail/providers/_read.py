"""Reading what a provider sent: tolerant of what is missing, of another type, or unknown."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

from handrail.messages import Usage

Names: TypeAlias = Mapping[str, str]
"""From the name that a provider was given to the tool's own."""
Wire: TypeAlias = Mapping[str, Any]
"""An object as it came over a wire: unlike values, none of which is certain to be there."""

NO_NAMES: Names = MappingProxyType({})
NOTHING: Wire = MappingProxyType({})

_HALF = re.compile("[\ud800-\udfff]")


def text_at(value: Wire, key: str) -> str:
    """The text at a key, or none."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def count_at(value: Wire, key: str) -> int:
    """The number at a key, or 0."""
    found = value.get(key)
    return found if isinstance(found, int) and found > 0 else 0


def object_at(value: Wire, key: str) -> Wire:
    """The object at a key, or an empty one."""
    found = value.get(key)
    return cast("Wire", found) if isinstance(found, Mapping) else NOTHING


def objects_at(value: Wire, key: str) -> Iterator[Wire]:
    """The objects in the list at a key; what is no object is passed over."""
    found = value.get(key)
    if isinstance(found, list | tuple):
        yield from (one for one in cast("list[Any]", found) if isinstance(one, Mapping))


def args_at(value: Wire, key: str) -> str:
    """Arguments at a key: JSON text as it stands, an object as JSON text."""
    found = value.get(key)
    if isinstance(found, str):
        return found
    return "" if found is None else dumped(found)


def most(one: Usage, other: Usage) -> Usage:
    """Of counts that grow while a reply comes in, the last ones: each the larger of two."""
    return Usage(
        sent=max(one.sent, other.sent),
        received=max(one.received, other.received),
        cached=max(one.cached, other.cached),
    )


def dumped(value: object) -> str:
    """A value as JSON text, in few characters."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def complete(text: str) -> bool:
    """Whether this is an object, a list or a string of JSON to its very end.

    Only these show where they end; of a number or a word there could be more to come.
    """
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def broken_off(text: str) -> bool:
    """Whether this is the beginning of some JSON, and only its end is missing."""
    try:
        json.loads(text or "{}")
    except json.JSONDecodeError as error:
        return error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    except RecursionError:
        return False
    return False


def paired(text: str) -> str:
    """Text in which two halves of a character that came apart are one again."""
    if not _HALF.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def sayable(text: str) -> str:
    """Text that can be sent: half a character, which UTF-8 has no bytes for, becomes a sign."""
    return _HALF.sub("\ufffd", paired(text))


class Arguments(NamedTuple):
    """What arguments say."""

    value: dict[str, Any]
    exact: bool
    """Whether the very text says so, and not one that had to be changed before it could be sent."""


def arguments(args: Mapping[str, Any] | str) -> Arguments | None:
    """The object that arguments say in JSON, also where they say it as JSON within a string."""
    try:
        value, exact = _loaded(args if isinstance(args, str) else dumped(dict(args)))
        if isinstance(value, str):
            value, exact = _loaded(value)[0], False
    except (TypeError, ValueError, RecursionError):
        return None
    return Arguments(cast("dict[str, Any]", value), exact) if isinstance(value, dict) else None


def _loaded(text: str) -> tuple[Any, bool]:
    value = json.loads(text, object_pairs_hook=_pairs, parse_float=_number, parse_constant=_no)
    again = dumped(value)
    if _HALF.search(again) or _HALF.search(text):
        return json.loads(sayable(again)), False
    return value, True


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key stands twice")
    return made


def _number(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError("too large")
    return number


def _no(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
