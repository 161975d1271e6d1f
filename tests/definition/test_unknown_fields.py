"""Unknown fields: a model is offered the field that it meant, or all of them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from handrail import Failure, Spec, Tool, tool


class Empty(BaseModel):
    """Takes nothing."""


class Line(BaseModel):
    """One line of an order."""

    model_config = ConfigDict(extra="forbid")

    sku: str
    count: int = 1


@tool
def edit(file_path: str, old_string: str, new_string: str, *, replace_all: bool = False) -> None:
    """Change a file."""


@tool
def search(pattern: str, path: str = ".", limit: int = 10) -> None:
    """Search."""


@tool
def order(lines: list[Line], extras: Empty | None = None) -> None:
    """Order."""


@tool
def ping() -> None:
    """Take nothing."""


GOOD = {"file_path": "a", "old_string": "b", "new_string": "c"}
LONG = "x" * 100

OFFERED: list[tuple[Tool[..., Any], dict[str, Any], list[str]]] = [
    (
        edit,
        {"path": "a", "old_str": "b", "new_str": "c"},
        [
            "file_path: required, missing",
            "old_string: required, missing",
            "new_string: required, missing",
            "new_str: unknown field; did you mean new_string?",
            "old_str: unknown field; did you mean old_string?",
            "path: unknown field; did you mean file_path?",
        ],
    ),
    (edit, {**GOOD, "replaceAll": True}, ["replaceAll: unknown field; did you mean replace_all?"]),
    # the close one was given, so another one was meant
    (
        edit,
        {**GOOD, "old_str": "b"},
        ["old_str: unknown field; known fields: file_path, old_string, new_string, replace_all"],
    ),
    # the only one that is missing
    (
        search,
        {"regex": "a"},
        ["pattern: required, missing", "regex: unknown field; did you mean pattern?"],
    ),
    # it has another type than the only one that is missing
    (
        search,
        {"regex": ["a"]},
        ["pattern: required, missing", "regex: unknown field; known fields: pattern, path, limit"],
    ),
    (
        search,
        {"regex": "a", "-i": True},
        [
            "pattern: required, missing",
            "-i: unknown field; known fields: pattern, path, limit",
            "regex: unknown field",
        ],
    ),
    (
        search,
        {"pattern": "a", LONG: 1},
        [f"{'x' * 79}…: unknown field; known fields: pattern, path, limit"],
    ),
    (ping, {"host": "a"}, ["host: unknown field; the tool takes no arguments"]),
    (
        order,
        {"lines": [{"sku": "a", "counts": 1}, {"sku": "b", "size": 2}], "extras": {"a": 1}},
        [
            "lines[0].counts: unknown field; did you mean count?",
            "lines[1].size: unknown field; known fields: sku, count",
            "extras.a: unknown field",
        ],
    ),
]


def lines_of(parsed: object) -> list[str]:
    assert isinstance(parsed, Failure)
    return [line.removeprefix("- ") for line in parsed.message.splitlines()[1:-1]]


@pytest.mark.parametrize(("called", "given", "lines"), OFFERED, ids=lambda one: repr(one)[:40])
def test_an_unknown_field_comes_with_the_one_that_was_meant(
    called: Tool[..., Any], given: dict[str, Any], lines: list[str]
) -> None:
    assert lines_of(called.parse(given)) == lines


@pytest.mark.parametrize(
    ("kind", "given", "is_meant"),
    [
        ({"type": ["string", "null"]}, "a", True),
        ({"type": ["string", "null"]}, 1, False),
        ({"type": "number"}, 1, True),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, True, True),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, 1.5, False),
        ({"enum": ["a"]}, 1, True),
        ({"type": {}}, None, True),
    ],
    ids=repr,
)
def test_a_missing_field_is_offered_if_the_type_of_the_value_may_be_its_own(
    kind: dict[str, Any],
    given: object,
    is_meant: bool,  # noqa: FBT001
) -> None:
    async def send(_args: Any, _context: Any) -> None: ...

    schema = {"type": "object", "properties": {"wanted": kind}, "required": ["wanted"]}
    remote = Tool.remote(Spec(name="remote", description="", input_schema=schema), send)
    hint = "did you mean wanted?" if is_meant else "known fields: wanted"

    assert lines_of(remote.parse({"xyz": given})) == [
        "wanted: required, missing",
        f"xyz: unknown field; {hint}",
    ]


def test_of_a_tool_with_very_many_fields_some_are_compared_and_listed() -> None:
    async def send(_args: Any, _context: Any) -> None: ...

    names = [LONG, *(f"field_{n}" for n in range(2_000))]
    schema = {"type": "object", "properties": {name: {} for name in names}}
    remote = Tool.remote(Spec(name="remote", description="", input_schema=schema), send)

    [line] = lines_of(remote.parse({"fieldd_7": 1}))
    [last] = lines_of(remote.parse({"zzz": 1}))

    assert line == "fieldd_7: unknown field; did you mean field_7?"
    assert last.startswith(f"zzz: unknown field; known fields: {LONG}, field_0, field_1, ")
    assert len(last) == len("zzz: unknown field; known fields: ") + 200
