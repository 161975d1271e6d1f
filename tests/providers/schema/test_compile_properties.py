"""For every schema: nothing raises, the compiled tool is valid, and it means the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from handrail import Spec
from handrail.providers import CompiledTool, UnsupportedTool
from providers.apis import APIS
from providers.schema.instances import accepts, samples
from providers.schema.schemas import JSON, WILD, tools
from providers.schema.validators import VALIDATORS

dialects = pytest.mark.parametrize("dialect", APIS)
NARROWER = (
    "can be sent",
    "cannot be sent",
    "does not accept this name",
    "the arguments must",
    "cannot be omitted",
    "is omitted",
)
"""Losses that say that the API accepts less than the tool. With all others it accepts more."""


def made(schema: Any, dialect: str, **options: Any) -> CompiledTool | UnsupportedTool:
    spec = Spec(name="t", description="Do.", input_schema=schema, **options)
    tool: CompiledTool | UnsupportedTool = APIS[dialect].compile(spec)
    return tool


def sent(one: CompiledTool) -> Any:
    api = one.definition.get("function", one.definition)
    return api.get("input_schema") or api.get("parameters") or api["parametersJsonSchema"]


def is_strict(one: CompiledTool) -> bool:
    return bool(one.definition.get("function", one.definition).get("strict"))


def taken(schema: Any, value: Any) -> bool:
    try:
        return accepts(schema, value)
    except RecursionError:
        assume(condition=False)
        raise


@dialects
@given(schema=WILD, strict=st.sampled_from(["auto", "on", "off"]))
def test_any_schema_compiles_or_is_unsupported(dialect: str, schema: Any, strict: Any) -> None:
    one = made(
        schema,
        dialect,
        strict=strict,
        examples=({"a": 1},),
        output_schema=schema if isinstance(schema, Mapping) else None,
    )

    if isinstance(one, CompiledTool):
        assert VALIDATORS[dialect](json.loads(json.dumps(one.definition))) == []


@dialects
@given(schema=tools(), strict=st.sampled_from(["auto", "on", "off"]))
def test_a_compiled_tool_is_valid(dialect: str, schema: Any, strict: Any) -> None:
    one = made(schema, dialect, strict=strict)

    assert one == made(schema, dialect, strict=strict)
    if isinstance(one, CompiledTool):
        assert VALIDATORS[dialect](one.definition) == []


TOLD_AGAIN = {"description": "Said.", "$ref": "#/$defs/A"}
AGAIN = {"A": {"type": "object", "additionalProperties": TOLD_AGAIN}}


@dialects
@example(schema={"$ref": "#/$defs/A", "$defs": AGAIN}, strict="auto")
@given(schema=tools(), strict=st.sampled_from(["auto", "on", "off"]))
def test_compiling_a_compiled_schema_changes_nothing(
    dialect: str, schema: Any, strict: Any
) -> None:
    one = made(schema, dialect, strict=strict)
    assume(isinstance(one, CompiledTool))
    assert isinstance(one, CompiledTool)

    again = made(sent(one), dialect, strict="on" if is_strict(one) else "off")

    assert again == CompiledTool(one.definition, again.losses if dialect == "gemini" else ())  # type: ignore[union-attr]


NO_PATTERNS = {"required": ["a"], "patternProperties": {}, "additionalProperties": False}


@dialects
@example(schema={"type": "object", **NO_PATTERNS}, seed=0, strict="off")
@given(schema=tools(), seed=st.integers(0, 2**32), strict=st.sampled_from(["auto", "off"]))
def test_without_losses_an_api_accepts_only_what_the_tool_accepts(
    dialect: str, schema: Any, seed: int, strict: Any
) -> None:
    one = made(schema, dialect, strict=strict)
    assume(isinstance(one, CompiledTool) and not one.losses)
    api = sent(one)  # type: ignore[arg-type]

    wrong = [
        value for value in samples(api, seed) if taken(api, value) and not taken(schema, value)
    ]

    assert wrong == []


@dialects
@given(schema=tools(), seed=st.integers(0, 2**32))
def test_an_api_that_does_not_enforce_accepts_everything_the_tool_accepts(
    dialect: str, schema: Any, seed: int
) -> None:
    one = made(schema, dialect, strict="off")
    assume(
        isinstance(one, CompiledTool)
        and not any(phrase in loss for loss in one.losses for phrase in NARROWER)
    )
    api = sent(one)  # type: ignore[arg-type]

    wrong = [
        value for value in samples(schema, seed) if taken(schema, value) and not taken(api, value)
    ]

    assert wrong == []


@given(value=JSON)
def test_texts_in_a_schema_never_raise(value: Any) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "default": value, "enum": [value, "x"], "examples": [value]}
        },
    }

    assert all(
        isinstance(made(schema, one, examples=(schema,)), CompiledTool | UnsupportedTool)
        for one in APIS
    )
