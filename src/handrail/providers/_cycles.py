"""Definitions that lead to themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from handrail.providers._data import is_object
from handrail.providers._keywords import MANY, NAMED, ONE
from handrail.providers._neutral import Schema, target


def below(schema: Any) -> Iterator[Schema]:
    """Every schema in a schema, itself included; a reference is not followed."""
    if not is_object(schema):
        return
    yield schema
    for name, value in schema.items():
        for one in _inside(name, value):
            yield from below(one)


def _inside(name: str, value: Any) -> Iterable[Any]:
    if name in NAMED:
        return dict[str, Any](value).values()
    return value if name in MANY else [value] if name in ONE else ()


def references(schema: Schema) -> list[str]:
    """The definitions that a schema refers to, in the order of its keywords."""
    return list(dict.fromkeys(target(node) for node in below(schema) if "$ref" in node))


def reached(definitions: Mapping[str, Schema], start: str) -> set[str]:
    """The definitions that one leads to."""
    found: set[str] = set()
    todo = references(definitions[start])
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += references(definitions[name])
    return found


def circles(definitions: Mapping[str, Schema]) -> dict[str, set[str]]:
    """For each definition that leads to itself, those that it leads to and that lead back."""
    ways = {name: reached(definitions, name) for name in definitions}
    return {
        name: {other for other in way if name in ways[other]}
        for name, way in ways.items()
        if name in way
    }
