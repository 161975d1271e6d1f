"""A result as JSON: what was written comes back, and nothing else is taken for one."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import Failure, FailureKind, File, Image, Result, Text
from saved_values import JSON, RESULTS

RICH = Result(
    "c1",
    "one\ntwo",
    (Text("one"), Image(b"\0\1", "image/png"), File(b"x", "text/plain", "x.txt"), Text("two")),
    '{"a":1}',
    Failure(FailureKind.DENIED, "no", "rule 3"),
    None,
    {"cost": [1, 0.5, None]},
    ("invoices_send",),
    seconds=1.25,
)
PLAIN: dict[str, Any] = json.loads(RICH.to_json())


@given(RESULTS)
def test_what_was_written_comes_back(result: Result) -> None:
    text = result.to_json()
    back = Result.from_json(text)

    assert (back, back.seconds) == (result, result.seconds)
    assert back.to_json() == text
    text.encode("ascii")  # it can be stored anywhere


def test_what_it_looks_like() -> None:
    assert json.loads(RICH.to_json()) == snapshot(
        {
            "v": 1,
            "call_id": "c1",
            "text": "one\ntwo",
            "parts": [
                {"text": "one"},
                {"image": "AAE=", "media_type": "image/png"},
                {"file": "eA==", "media_type": "text/plain", "name": "x.txt"},
                {"text": "two"},
            ],
            "data": '{"a":1}',
            "failure": {"kind": "denied", "message": "no", "detail": "rule 3"},
            "pending": None,
            "metadata": {"cost": [1, 0.5, None]},
            "found": ["invoices_send"],
            "seconds": 1.25,
        }
    )


def deep() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(100_000):
        made = {"a": made}
    return made


@pytest.mark.parametrize(
    "result",
    [
        Result("c1", "", metadata={"a": {1}}),  # type: ignore[dict-item]
        Result("c1", "", metadata={"a": math.inf}),
        Result("c1", "", metadata=deep()),
        Result("c1", "", seconds=math.nan),
    ],
    ids=["set", "infinity", "deep", "nan"],
)
def test_what_json_cannot_represent_is_refused_when_it_is_written(result: Result) -> None:
    with pytest.raises(ValueError, match=r"cannot be written as JSON|not JSON compliant"):
        result.to_json()


def test_what_is_not_a_part_cannot_be_written() -> None:
    with pytest.raises(AssertionError):
        Result("c1", "", (5,)).to_json()  # type: ignore[arg-type]


WRONG: list[tuple[str, Any, str]] = [
    ("v", 2, "it has version 2, and this handrail reads 1"),
    ("more", 1, 'unknown field "more"'),
    ("call_id", 1, "'call_id' must be a string, got 1"),
    ("data", {}, "'data' must be a string, got {}"),
    ("parts", None, "'parts' must be a list, got null"),
    ("parts", ["one"], 'an object is expected, got "one"'),
    ("parts", [{}], "'file' is missing"),
    ("parts", [{"text": "a", "name": "b"}], 'unknown field "name"'),
    ("parts", [{"image": "?", "media_type": "a"}], "'image' must be bytes in base64"),
    ("parts", [{"image": "é", "media_type": "a"}], "'image' must be bytes in base64"),
    ("parts", [{"file": 1, "media_type": "a", "name": "b"}], "'file' must be bytes in base64"),
    ("failure", "denied", 'an object is expected, got "denied"'),
    (
        "failure",
        {"kind": "sulking", "message": "", "detail": ""},
        "'sulking' is not a kind of failure",
    ),
    ("failure", {"kind": "denied", "message": ""}, "'detail' is missing"),
    ("pending", {}, "it has version null, and this handrail reads 1"),
    ("pending", False, "an object is expected, got false"),
    ("metadata", None, "'metadata' must be an object, got null"),
    ("seconds", "1", "'seconds' must be a number, got \"1\""),
]


@pytest.mark.parametrize(("key", "value", "why"), WRONG, ids=str)
def test_any_other_shape_is_refused_in_plain_words(key: str, value: Any, why: str) -> None:
    with pytest.raises(ValueError, match="Not a saved Result") as refused:
        Result.from_json(json.dumps({**PLAIN, key: value}))

    assert str(refused.value) == f"Not a saved Result: {why}."


@given(st.text() | JSON.map(json.dumps))
def test_nothing_but_a_value_error_comes_of_any_text(text: str) -> None:
    with pytest.raises(ValueError, match="Not a saved Result"):
        Result.from_json(text)
