"""Save values as JSON text with a version, and load them strictly. Loading runs no code."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from handrail._support import is_list, is_object
from handrail._values.strict_json import format_value

VERSION = 1

_T = TypeVar("_T")
_KINDS: Mapping[type[Any], str] = {
    bool: "true or false",
    int: "an integer",
    str: "a string",
}


def save(fields: Mapping[str, Any]) -> str:
    """Return JSON text in ASCII. Raises ValueError for values that JSON cannot represent."""
    try:
        return json.dumps(fields, allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"This cannot be written as JSON: {error}.") from None


def load(name: str, text: object, read: Callable[[object], _T]) -> _T:
    """Return the value of a saved text, read by a function. Raises ValueError with a reason."""
    try:
        return read(_parse(text))
    except RecursionError:
        raise ValueError(f"Not a saved {name}: it is nested too deeply.") from None
    except ValueError as error:
        raise ValueError(f"Not a saved {name}: {error}.") from None


def _parse(text: object) -> object:
    if not isinstance(text, str):
        raise ValueError(f"it must be a string, got {type(text).__name__}")  # noqa: TRY004
    try:
        return json.loads(
            text,
            object_pairs_hook=_make_object,
            parse_constant=_refuse_constant,
            parse_float=_read_float,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid JSON at line {error.lineno}, column {error.colno}") from None


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key occurs twice in one object")
    return made


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


class Fields:
    """The fields of a saved object: exactly the named ones, each of exactly one type."""

    def __init__(self, value: object, names: Iterable[str]) -> None:
        if not is_object(value):
            raise ValueError(f"an object is expected, got {format_value(value)}")
        expected = frozenset(names)
        if value.keys() != expected:
            for name in sorted(expected - value.keys()):
                raise ValueError(f"{name!r} is missing")
            [name, *_] = sorted(value.keys() - expected)
            raise ValueError(f"unknown field {format_value(name)}")
        self.value = value

    @classmethod
    def with_version(cls, value: object, names: Iterable[str]) -> Fields:
        """Return the fields of an object with a version. Raises ValueError for other versions."""
        version = value.get("v") if is_object(value) else VERSION
        if type(version) is not int or version != VERSION:
            raise ValueError(
                f"it has version {format_value(version)}, and this handrail reads {VERSION}"
            )
        return cls(value, ("v", *names))

    def get(self, name: str, kind: type[_T]) -> _T:
        """Return a field of exactly this type: a boolean is not an integer here."""
        value: Any = self.value[name]
        if type(value) is not kind:
            raise self._wrong(name, _KINDS[kind])
        return value

    def text(self, name: str) -> str:
        """Return a string."""
        return self.get(name, str)

    def number(self, name: str) -> float:
        """Return a number."""
        value = self.value[name]
        if type(value) not in (int, float):
            raise self._wrong(name, "a number")
        try:
            return float(value)
        except OverflowError:
            raise self._wrong(name, "a smaller number") from None

    def items(self, name: str) -> list[Any]:
        """Return a list."""
        value = self.value[name]
        if not is_list(value):
            raise self._wrong(name, "a list")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings."""
        values = self.items(name)
        if not all(type(value) is str for value in values):
            raise self._wrong(name, "a list of strings")
        return tuple(values)

    def get_object(self, name: str) -> dict[str, Any]:
        """Return an object with any fields."""
        value = self.value[name]
        if not is_object(value):
            raise self._wrong(name, "an object")
        return value

    def optional(self, name: str, read: Callable[[str], _T]) -> _T | None:
        """Return a field that may be null, read by another method."""
        return None if self.value[name] is None else read(name)

    def _wrong(self, name: str, expected: str) -> ValueError:
        return ValueError(f"{name!r} must be {expected}, got {format_value(self.value[name])}")
