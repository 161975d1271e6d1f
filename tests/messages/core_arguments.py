"""Texts about names and arguments: the call was not run, or was run after a repair."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, make_dataclass
from datetime import date
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

from pydantic import AfterValidator, Field

from handrail import READ, Access, Call, Executor, Registry, Result, Tool, Toolset, tool
from messages.row import Row
from messages.stage import describe, run


@tool(effect=READ)
async def edit(file_path: str, old_string: str, new_string: str, limit: int = 1) -> str:
    """Change a file."""
    return f"Edited {file_path}."


@tool(effect=READ)
async def book(
    day: date,
    person: UUID,
    seats: Annotated[int, Field(ge=1, le=8)],
    *,
    room: Literal["small", "large"] = "small",
    code: Annotated[str, Field(pattern="^[A-Z]{3}$")] = "ABC",
) -> str:
    """Book a room."""
    return f"Booked for {day}, {person}, {seats}, {room}, {code}."


@tool(effect=READ)
async def ping() -> str:
    """Check that the server answers."""
    return "ok"


@tool(effect=READ)
async def total(numbers: list[int]) -> str:
    """Add numbers."""
    return str(sum(numbers))


@tool(effect=READ)
async def paint(colors: dict[Literal["red", "blue"], int], options: dict[str, Any]) -> str:
    """Paint."""
    return f"Painted {colors}, {options}."


@tool(effect=READ)
async def search(
    query: str, tags: list[str] | None = None, *, limit: int = 10, deep: bool = False
) -> str:
    """Search."""
    return f"Searched for {query}, {tags}, {limit}, {deep}."


@dataclass
class Left:
    """One way to nest."""

    arg: Alike


@dataclass
class Right:
    """Another way to nest, which looks alike."""

    arg: Alike


Alike: TypeAlias = "Left | Right | int"


@tool(effect=READ)
async def nest(value: Left | Right | int) -> str:
    """Take a nested value."""
    return str(value)


Form = make_dataclass("Form", [(f"f{n}", int) for n in range(50)])


@tool(effect=READ)
async def fill(form: Form) -> str:  # type: ignore[valid-type]
    """Fill in a form."""
    return str(form)


def _fail(_path: str) -> str:
    raise KeyError("path")


@tool(effect=READ)
async def broken_reader(path: Annotated[str, AfterValidator(_fail)]) -> str:
    """Read a path, with a validator that is broken."""
    return path


def _touch_badly(path: str) -> Access:
    raise KeyError(path)


@tool(effect=READ, touches=_touch_badly)
async def broken_touches(path: str) -> str:
    """Touch a path, and declare it badly."""
    return path


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"arg": value}
    return value


Given: TypeAlias = Mapping[str, Any] | str
REFUSED: list[tuple[str, Tool[..., Any], Given]] = [
    (
        "A field is misspelled, so that a required one is missing",
        edit,
        {"path": "a.py", "old_str": "1", "new_string": "2"},
    ),
    (
        "Unknown fields are not close to any other",
        edit,
        {"file_path": "a.py", "old_string": "1", "new_string": "2", "-A": 3, "verbose": True},
    ),
    (
        "The only missing field may have another name",
        edit,
        {"file_path": "a.py", "old_string": "1", "replacement": "2"},
    ),
    ("A tool without parameters gets an argument", ping, {"host": "example.org"}),
    (
        "Values have the wrong type",
        book,
        {"day": "tomorrow", "person": "me", "seats": 9, "room": "big", "code": "x"},
    ),
    ("A list is expected", edit, {"file_path": ["a", "b"], "old_string": {}, "new_string": None}),
    ("There are many mistakes", total, {"numbers": ["x"] * 12}),
    ("A long list has mistakes", total, {"numbers": [*range(1_000), "x", "y"]}),
    ("A key is not allowed", paint, {"colors": {"green": 1}, "options": {}}),
    ("The JSON was cut off", edit, '{"file_path": "a.py", "old_str'),
    ("The text is not JSON", edit, "{'file_path': 'a.py'}"),
    ("A key occurs twice", edit, '{"file_path": "a", "file_path": "b"}'),
    ("A number is not JSON", total, '{"numbers": [NaN]}'),
    ("A number is too large", paint, '{"colors": {}, "options": {"n": 1e999}}'),
    ("A number has thousands of digits", total, f'{{"numbers": [{"9" * 5_000}]}}'),
    ("A string has a NUL character", ping, '{"a": "\\u0000"}'),
    ("A string has half of a surrogate pair", ping, '{"a": "\\ud800"}'),
    ("The arguments are nested too deeply", ping, f'{{"a": {"[" * 70}{"]" * 70}}}'),
    ("The arguments are too large", ping, json.dumps({"a": "x" * (1 << 20)})),
    ("The arguments cannot be written as JSON", ping, {"a": object()}),
    ("Nested alternatives would take too long to check", nest, {"value": _nested(60)}),
    (
        "A large object has too many missing fields",
        fill,
        {"form": {"f0": 1, "more": ["x"] * 200_000}},
    ),
]
REPAIRED: list[tuple[str, Given]] = [
    (
        "A string is read as a number, another as a boolean",
        {"query": "a", "limit": "3", "deep": "true"},
    ),
    ("A whole number is read as an integer", '{"query": "a", "limit": 3.0}'),
    ("A single value is read as a list", {"query": "a", "tags": "x"}),
    ("A string is read as a JSON list", {"query": "a", "tags": '["x"]'}),
    ("A comma too many is removed", '{"query": "a",}'),
    ("A code fence is removed", '```json\n{"query": "a"}\n```'),
]


async def rows() -> list[Row]:
    """Return the texts about names and arguments."""
    refused = [describe(when, await run(tool, _call(tool, args))) for when, tool, args in REFUSED]
    repaired = [describe(when, await run(search, _call(search, args))) for when, args in REPAIRED]
    return [*refused, *repaired, await _renamed(), *await _unknown(), *await _broken()]


def _call(called: Tool[..., Any], args: Given) -> Call:
    return Call(called.spec.name, args, "c1")


async def _renamed() -> Row:
    @tool(effect=READ, aliases=["old_name"])
    async def new_name() -> str:
        """Have two names."""
        return "Done."

    return describe("A tool is called by an alias", await run(new_name, Call("old_name", "{}")))


async def _unknown() -> list[Row]:
    few = Toolset(edit, ping, search, total)
    many = Toolset(*_many())
    asked = [
        ("There is no such tool, and one has a close name", few, "Edits"),
        ("There is no such tool, and there are few others", few, "apply_patch"),
        ("There is no such tool among many, and some have a close name", many, "report"),
        ("There is no such tool among many", many, "xyz"),
    ]
    return [describe(when, await run(tools, Call(name, "{}"))) for when, tools, name in asked]


def _many() -> Iterator[Tool[..., Any]]:
    for n in range(60):

        @tool(name=f"report_{n:02}", effect=READ)
        async def report() -> str:
            """Report."""
            return ""

        yield report


async def _broken() -> list[Row]:
    return [
        describe("A tool has changed since the model received it", await _stale()),
        describe(
            "A validator of the tool is broken", await run(broken_reader, _path(broken_reader))
        ),
        describe(
            "A tool does not declare its accesses", await run(broken_touches, _path(broken_touches))
        ),
    ]


def _path(called: Tool[..., Any]) -> Call:
    return _call(called, {"path": "a"})


async def _stale() -> Result:
    registry = Registry()
    registry.add(edit)
    async with Executor(registry) as executor:

        @tool(name="edit", effect=READ)
        async def other(file_path: str) -> str:
            """Take other arguments."""
            return file_path

        registry.replace("edit", other)
        return await executor.run(
            _call(edit, {"file_path": "a", "old_string": "1", "new_string": "2"})
        )
