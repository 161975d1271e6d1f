"""What holds for every schema: nothing raises, what is sent is taken, and it means the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from handrail import Spec
from handrail.providers._compiled import Compiled, Dialect, Quarantined, compiled

from .instances import accepts, samples
from .schemas import JSON, WILD, tools
from .validators import VALIDATORS

DIALECTS: tuple[Dialect, ...] = ("anthropic", "openai_chat", "openai_responses", "gemini")
dialects = pytest.mark.parametrize("dialect", DIALECTS)
NARROWER = (
    "can be given",
    "cannot be given",
    "the arguments must",
    "cannot be left out",
    "is malformed",
)
"""What a loss says where the wire takes less than the tool; all others are where it takes more."""


def made(schema: Any, dialect: Dialect, **options: Any) -> Compiled | Quarantined:
    return compiled(Spec(name="t", description="Do.", input_schema=schema, **options), dialect)


def sent(one: Compiled) -> Any:
    wire = one.wire.get("function", one.wire)
    return wire.get("input_schema") or wire.get("parameters") or wire["parametersJsonSchema"]


def is_strict(one: Compiled) -> bool:
    return bool(one.wire.get("function", one.wire).get("strict"))


def taken(schema: Any, value: Any) -> bool:
    try:
        return accepts(schema, value)
    except RecursionError:
        assume(condition=False)
        raise


@dialects
@given(schema=WILD, strict=st.sampled_from(["auto", "on", "off"]))
def test_whatever_the_schema_is_the_tool_is_sent_or_quarantined(
    dialect: Dialect, schema: Any, strict: Any
) -> None:
    one = made(
        schema,
        dialect,
        strict=strict,
        examples=({"a": 1},),
        output_schema=schema if isinstance(schema, Mapping) else None,
    )

    if isinstance(one, Compiled):
        assert VALIDATORS[dialect](json.loads(json.dumps(one.wire))) == []


@dialects
@given(schema=tools(), strict=st.sampled_from(["auto", "on", "off"]))
def test_what_is_sent_is_taken(dialect: Dialect, schema: Any, strict: Any) -> None:
    one = made(schema, dialect, strict=strict)

    assert one == made(schema, dialect, strict=strict)
    if isinstance(one, Compiled):
        assert VALIDATORS[dialect](one.wire) == []


TOLD_AGAIN = {"description": "Said.", "$ref": "#/$defs/A"}
AGAIN = {"A": {"type": "object", "additionalProperties": TOLD_AGAIN}}


@dialects
@example(schema={"$ref": "#/$defs/A", "$defs": AGAIN}, strict="auto")
@given(schema=tools(), strict=st.sampled_from(["auto", "on", "off"]))
def test_what_was_sent_is_sent_again_unchanged(dialect: Dialect, schema: Any, strict: Any) -> None:
    one = made(schema, dialect, strict=strict)
    assume(isinstance(one, Compiled))
    assert isinstance(one, Compiled)

    again = made(sent(one), dialect, strict="on" if is_strict(one) else "off")

    assert again == Compiled(one.wire, again.losses if dialect == "gemini" else ())  # type: ignore[union-attr]


NO_PATTERNS = {"required": ["a"], "patternProperties": {}, "additionalProperties": False}


@dialects
@example(schema={"type": "object", **NO_PATTERNS}, seed=0, strict="off")
@given(schema=tools(), seed=st.integers(0, 2**32), strict=st.sampled_from(["auto", "off"]))
def test_without_losses_a_wire_takes_only_what_the_tool_takes(
    dialect: Dialect, schema: Any, seed: int, strict: Any
) -> None:
    one = made(schema, dialect, strict=strict)
    assume(isinstance(one, Compiled) and not one.losses)
    wire = sent(one)  # type: ignore[arg-type]

    wrong = [
        value for value in samples(wire, seed) if taken(wire, value) and not taken(schema, value)
    ]

    assert wrong == []


@dialects
@given(schema=tools(), seed=st.integers(0, 2**32))
def test_a_wire_that_does_not_enforce_takes_all_that_the_tool_takes(
    dialect: Dialect, schema: Any, seed: int
) -> None:
    one = made(schema, dialect, strict="off")
    assume(
        isinstance(one, Compiled)
        and not any(word in loss for loss in one.losses for word in NARROWER)
    )
    wire = sent(one)  # type: ignore[arg-type]

    wrong = [
        value for value in samples(schema, seed) if taken(schema, value) and not taken(wire, value)
    ]

    assert wrong == []


@given(value=JSON)
def test_words_around_a_schema_never_raise(value: Any) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "default": value, "enum": [value, "x"], "examples": [value]}
        },
    }

    assert all(
        isinstance(made(schema, one, examples=(schema,)), Compiled | Quarantined)
        for one in DIALECTS
    )
