"""Argument text that is JSON but for one slip: it is read as it was meant, with a note."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Args, Call, Executor, Failure, Toolset, tool

FENCED = "the arguments: the code fence around them was removed"
COMMA = "the arguments: a comma before the end of a list or an object was removed"
NULL = "the arguments: null was read as no arguments"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="\0")), VALUES)


@tool
def take(value: Any = None, amount: int = 0) -> str:
    """Take anything."""
    return json.dumps([value, amount])


def parsed(text: str) -> tuple[dict[str, Any], tuple[str, ...]] | str:
    args = take.parse(text)
    return args.message if isinstance(args, Failure) else (dict(args.values), args.repairs)


@pytest.mark.parametrize(
    ("text", "values", "notes"),
    [
        ("null", {}, (NULL,)),
        ('{"amount": 1,}', {"amount": 1}, (COMMA,)),
        ('{"amount": 1 ,\n}', {"amount": 1}, (COMMA,)),
        ('{"value": [1, 2,], "amount": 1}', {"value": [1, 2], "amount": 1}, (COMMA,)),
        ('{"value": ",}",}', {"value": ",}"}, (COMMA,)),
        ('```json\n{"amount": 1}\n```', {"amount": 1}, (FENCED,)),
        (' ```\n{"amount": 1}```\n', {"amount": 1}, (FENCED,)),
        ('```JSON\n{"amount": "1",}\n```', {"amount": 1}, None),
    ],
)
def test_a_slip_with_one_reading_is_repaired(
    text: str, values: dict[str, Any], notes: tuple[str, ...] | None
) -> None:
    both = (FENCED, COMMA, "amount: the string was read as a number")

    assert parsed(text) == (values, both if notes is None else notes)


@pytest.mark.parametrize(
    "text",
    [
        '{"value": [1,],}',
        '{"value": [1,,]}',
        '{"value": [,]}',
        "{,}",
        ",}",
        ",",
        "",
        '{"amount": 1, "amount": 2,}',
        '{"amount": NaN,}',
        '{"amount": 1,',
        "``````",
        "```json\n```",
        '```json{"amount": 1}```',
        '```python\n{"amount": 1}\n```',
        'Here: ```json\n{"amount": 1}\n```',
        '```json\n{"amount": 1}\n```\n```json\n{"amount": 2}\n```',
        '{"value": "' + "x" * 100_000 + '",}',
        "[" * 99_000 + ",]",
        '{"value": ' + "9" * 5_000 + ",}",
    ],
    ids=range(19),
)
def test_any_other_text_is_refused(text: str) -> None:
    assert isinstance(take.parse(text), Failure)


@given(OBJECTS, st.sampled_from(["", " ", "\n\t"]))
def test_a_repaired_text_has_the_values_that_were_meant(value: dict[str, Any], space: str) -> None:
    plain = json.dumps({"value": value})
    meant = take.parse(plain)
    fenced = take.parse(f"```json\n{plain}\n```")
    longer = take.parse(f"{plain[:-1]}{space},{space}}}")

    if isinstance(meant, Args):
        assert isinstance(fenced, Args)
        assert isinstance(longer, Args)
        assert fenced.values == longer.values == meant.values
        assert fenced.canonical == longer.canonical == meant.canonical
        assert (fenced.repairs, longer.repairs) == ((FENCED,), (COMMA,))
    else:
        assert isinstance(fenced, Failure)
        assert isinstance(longer, Failure)


async def test_the_model_reads_a_note() -> None:
    [result] = await Executor(Toolset(take)).run_all([Call("take", '{"amount": 1,}', "c1")])

    assert result.text == f"[null, 1]\n[Note: {COMMA}.]"
