"""Arguments by other names that models know are read if they have one reading, with a note."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from handrail import (
    Allow,
    Args,
    Call,
    CheckedCall,
    DefinitionError,
    Executor,
    Failure,
    Toolset,
    tool,
)


def read_seconds(args: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Read a time only if it is a whole number of seconds."""
    return {"wait_ms": args["wait"] * 1000} if type(args["wait"]) is int else None


@tool(
    synonyms={
        "path": "file_path",
        "file": "file_path",
        "max": "limit",
        "wait": read_seconds,
        "why": lambda _: {},
        "both": lambda args: {"limit": args["both"][0], "wait_ms": args["both"][1]},
    }
)
def look(file_path: str, limit: int = 10, wait_ms: int = 0) -> str:
    """Look at a file."""
    return f"{file_path} {limit} {wait_ms}"


def parsed(args: Any) -> tuple[Any, ...]:
    """The arguments and the notes on them, or what is wrong with them."""
    found = look.parse(args)
    if isinstance(found, Args):
        return json.loads(found.text), *found.repairs
    return tuple(found.message.split("\n")[1:-1])


ALL = "known fields: file_path, limit, wait_ms"
AS_PATH = "path: was read as file_path"
CASES: list[tuple[Any, tuple[Any, ...]]] = [
    ({"file_path": "a"}, ({"file_path": "a"},)),
    ({"path": "a"}, ({"file_path": "a"}, AS_PATH)),
    (
        {"path": "a", "max": "5"},
        (
            {"file_path": "a", "limit": 5},
            AS_PATH,
            "max: was read as limit",
            "limit: the string was read as a number",
        ),
    ),
    (
        {"file_path": "a", "wait": 2},
        ({"file_path": "a", "wait_ms": 2000}, "wait: was read as wait_ms=2000"),
    ),
    ({"file_path": "a", "why": "since"}, ({"file_path": "a"}, "why: was ignored")),
    (
        {"file_path": "a", "both": [1, 2]},
        ({"file_path": "a", "limit": 1, "wait_ms": 2}, "both: was read as limit, wait_ms"),
    ),
    ({"file_path": "a", "path": "b"}, (f"- path: unknown field; {ALL}",)),
    ({"file": "a", "path": "b"}, (f"- file: unknown field; {ALL}",)),
    ({"file_path": "a", "wait": 0.5}, ("- wait: unknown field; did you mean wait_ms?",)),
    ({"path": 5}, ("- file_path: expected a string, got 5",)),
    ([], ("- the arguments: expected an object, got a list of 0",)),
]


@pytest.mark.parametrize(("given", "expected"), CASES, ids=str)
def test_a_synonym_is_read_if_it_has_one_reading(given: Any, expected: tuple[Any, ...]) -> None:
    assert parsed(given) == expected


def test_the_result_has_a_note_and_the_call_its_own_names() -> None:
    seen = list[Any]()

    def allow(call: CheckedCall) -> Allow:
        seen.append(call.call.args)
        return Allow()

    executor = Executor(Toolset(look), policy=allow)
    result = executor.run_sync(Call("look", {"path": "a"}, "c1"))

    assert (result.text, seen) == (
        "a 10 0\n[Note: path: was read as file_path.]",
        ['{"file_path":"a"}'],
    )


def test_null_for_an_omitted_field_needs_no_note() -> None:
    executor = Executor(Toolset(look))
    calls = [{"file_path": "a", "limit": None}, {"path": "a", "limit": None}]

    assert [executor.run_sync(Call("look", args, "c1")).text for args in calls] == [
        "a 10 0",
        "a 10 0\n[Note: path: was read as file_path.]",
    ]


def test_a_tool_without_synonyms_reads_none() -> None:
    @tool
    def plain(file_path: str) -> str:
        """Look at a file."""
        return file_path

    assert isinstance(plain.parse({"path": "a"}), Failure)


@pytest.mark.parametrize(
    ("synonyms", "message"),
    [
        ({"path": "file"}, "the synonym 'path' means 'file', which is not a parameter"),
        ({"limit": "file_path"}, "the synonym 'limit' is the name of a parameter"),
        ({"path": 5}, "the synonym 'path' must be the name of a parameter, or a function"),
    ],
)
def test_synonyms_that_mean_nothing_are_refused(synonyms: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=re.escape(message)):

        @tool(synonyms=synonyms)
        def wrong(file_path: str, limit: int = 1) -> str:
            """Look at a file."""
            return f"{file_path}{limit}"
