"""Suggest an unknown field's meaning: a field with a close name, or one from all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from handrail._schema.json_schema import may_hold, property_names
from handrail._values.names import closest
from handrail._values.spec import Schema
from handrail._values.strict_json import JsonPath, clip

MAX_COMPARED_FIELDS = 100
"""Fields an unknown one is compared with."""
MAX_COMPARED_CHARS = 64
"""Limit on names compared with others."""
MAX_LISTED_CHARS = 200
"""Limit on a field list."""


class UnknownFields:
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
            return f"unknown field; known fields: {clip(', '.join(fields), MAX_LISTED_CHARS)}"
        return "unknown field" if owner else "unknown field; the tool takes no arguments"

    def _find_close(self, path: JsonPath, fields: Sequence[str]) -> str | None:
        """Return a field with a close name; empty if it was given, None if there is none."""
        name, given = _name(path), self._value_at(path[:-1])
        short = [field for field in fields if len(field) <= MAX_COMPARED_CHARS]
        if len(name) > MAX_COMPARED_CHARS:
            return None
        near = closest(name, short[:MAX_COMPARED_FIELDS])
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
