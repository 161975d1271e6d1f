"""Tools in the format of each API: golden data for awkward schemas, and other rules."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from handrail import Exposure, Spec, tool
from handrail.providers import CompiledTool, UnsupportedTool, anthropic, gemini, openai_responses
from providers.apis import APIS
from providers.schema.validators import VALIDATORS, raw
from providers.schema.zoo import DATA, ZOO, golden, of, spec, text

STRING = {"type": "string"}
dialects = pytest.mark.parametrize("dialect", APIS)


def made(schema: Any, dialect: str, **options: Any) -> CompiledTool:
    one = APIS[dialect].compile(
        Spec(**{"name": "t", "description": "Do.", "input_schema": schema, **options})
    )
    assert isinstance(one, CompiledTool), one
    return one


@dialects
def test_awkward_schemas_compile_to_the_reviewed_output(dialect: str) -> None:
    assert len(ZOO) >= 60

    assert text(golden(dialect)) == (DATA / f"{dialect}.json").read_text(encoding="utf-8")


@dialects
@pytest.mark.parametrize("strict", ["auto", "on", "off"])
def test_every_golden_tool_is_valid_for_the_provider(dialect: str, strict: Any) -> None:
    sent = {name: APIS[dialect].compile(spec(name, strict=strict)) for name in ZOO}

    assert {
        name: found
        for name, one in sent.items()
        if isinstance(one, CompiledTool) and (found := VALIDATORS[dialect](one.definition))
    } == {}


@pytest.mark.parametrize(
    ("dialect", "loose", "strict"),
    [
        ("anthropic", 43, 164),
        ("openai_chat", 56, 178),
        ("openai_responses", 56, 178),
        ("gemini", 157, 157),
    ],
)
def test_unconverted_schemas_would_fail(dialect: str, loose: int, strict: int) -> None:
    def refused(*, enforced: bool) -> int:
        return sum(
            bool(VALIDATORS[dialect](raw(dialect, schema, strict=enforced)))
            for schema in ZOO.values()
        )

    assert (refused(enforced=False), refused(enforced=True)) == (loose, strict)


@dialects
def test_most_of_the_zoo_can_be_sent(dialect: str) -> None:
    kept = [name for name in ZOO if isinstance(APIS[dialect].compile(spec(name)), CompiledTool)]

    assert len(kept) >= 160


@dialects
def test_the_tool_block_does_not_depend_on_the_order_of_tools(dialect: str) -> None:
    tools = [
        Spec(name=f"t{place}", description="Do.", input_schema=schema)
        for place, schema in enumerate(list(ZOO.values())[::3])
    ]
    blocks = set()
    for seed in range(3):
        random.Random(seed).shuffle(tools)  # noqa: S311
        blocks.add(repr(APIS[dialect].encode_tools(tools)))

    assert len(blocks) == 1


@dialects
def test_an_unsupported_tool_does_not_affect_the_others(dialect: str) -> None:
    good = Spec(name="good", description="Do.", input_schema=of(a=STRING))
    bad = Spec(name="bad", description="Do.", input_schema={"$ref": "https://example.org"})

    api = APIS[dialect]

    assert api.encode_tools([good, bad]) == [api.compile(good).definition]
    assert api.compile(bad) == UnsupportedTool(
        "bad",
        "unsupported schema: the external reference 'https://example.org' is not fetched",
    )


@dialects
def test_a_typed_tool_has_no_losses(dialect: str) -> None:
    @tool
    def grep(pattern: str, path: str, lines: list[int]) -> str:
        """Search.

        Args:
            pattern: What to look for.
            path: Where.
            lines: Which.
        """
        return ""

    one = APIS[dialect].compile(grep.spec)

    assert isinstance(one, CompiledTool)
    assert one.losses == ()
    assert json.loads(json.dumps(grep.spec.input_schema)) in (
        one.definition.get("input_schema"),
        one.definition.get("parameters"),
        one.definition.get("parametersJsonSchema"),
        one.definition.get("function", {}).get("parameters"),
    )


@dialects
@pytest.mark.parametrize("name", ["a b/c", "1st", "x" * 200, "späti", "a.b"])
def test_any_name_becomes_valid_for_the_provider(dialect: str, name: str) -> None:
    assert VALIDATORS[dialect](made(of(a=STRING), dialect, name=name).definition) == []


@dialects
def test_a_hidden_tool_is_not_sent(dialect: str) -> None:
    hidden = Spec(name="t", description="Do.", input_schema={}, exposure=Exposure.HIDDEN)

    assert APIS[dialect].compile(hidden) == UnsupportedTool("t", "the tool is hidden from models")
    assert APIS[dialect].encode_tools([hidden]) == []


@dialects
def test_a_deferred_tool_that_nothing_finds_is_sent_like_any_other(dialect: str) -> None:
    deferred = made(of(a=STRING), dialect, exposure=Exposure.DEFERRED)
    loss = "exposure: sent in every request, because nothing is sent that could find the tool"

    assert deferred == replace(made(of(a=STRING), dialect), losses=(loss,))


@dialects
def test_a_tool_that_finds_others_is_sent_only_with_deferred_ones(dialect: str) -> None:
    finder, direct, deferred = (
        Spec(name=one.value, description="Do.", input_schema={}, exposure=one)
        for one in (Exposure.SEARCH, Exposure.DIRECT, Exposure.DEFERRED)
    )
    encode = APIS[dialect].encode_tools

    assert encode([finder, direct]) == encode([direct])
    assert len(encode([finder, direct, deferred])) == 2


def test_examples_go_into_their_field_or_into_the_description() -> None:
    examples = ({"a": "x"}, {"a": 1}, {"a": "y", "b": float("nan")})
    sent = {
        one: made(of(["a"], a=STRING), one, examples=examples) for one in ("anthropic", "gemini")
    }

    assert sent["anthropic"].definition["input_examples"] == [{"a": "x"}]
    assert sent["anthropic"].losses == (
        "examples: number 2 is omitted: it may not match the schema",
        "examples: number 3 is omitted: it may not match the schema",
    )
    assert "description" not in sent["gemini"].definition["parametersJsonSchema"]
    assert made(of(a=STRING), "gemini", examples=examples[:2]) == CompiledTool(
        {
            "name": "t",
            "description": "Do.",
            "parametersJsonSchema": {
                "type": "object",
                "description": 'For example {"a":"x"}. For example {"a":1}.',
                "properties": {"a": STRING},
                "required": ["a"],
                "additionalProperties": False,
            },
        },
        ("examples: moved to the description",),
    )
    assert "input_examples" not in made(of(a=STRING), "anthropic", examples=examples[1:]).definition


@pytest.mark.parametrize(
    ("schema", "value", "kept"),
    [
        ({"type": "string", "minLength": 2}, "ab", True),
        ({"type": "string", "minLength": 2}, "a", False),
        ({"type": "number", "exclusiveMinimum": 1, "maximum": 3}, 2, True),
        ({"type": "number", "exclusiveMaximum": 2, "minimum": 1}, 2, False),
        ({"type": "string", "pattern": "^a"}, "a", False),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1, False),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, 1, True),
        ({"oneOf": [{"pattern": "x"}, {"type": "string"}]}, "x", False),
        ({"anyOf": [{"pattern": "x"}, {"type": "integer"}]}, "x", False),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, None, False),
        ({"not": {"type": "string"}}, 1, True),
        ({"not": {"pattern": "x"}}, "x", False),
        ({"allOf": [{"type": "string"}, {"maxLength": 1}]}, "ab", False),
        (
            {
                "type": "array",
                "prefixItems": [STRING],
                "items": {"type": "integer"},
                "uniqueItems": True,
            },
            ["a", 1, 2],
            True,
        ),
        ({"type": "array", "items": False}, [1], False),
        ({"type": "array", "minItems": 2, "maxItems": 3}, [1], False),
        ({"type": "array", "uniqueItems": True}, [1, 1.0], False),
        (
            {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": STRING,
            },
            {"x": "y"},
            True,
        ),
        ({"type": "object", "required": ["x"]}, {}, False),
        ({"enum": ["a", {"x": [1]}]}, {"x": [1.0]}, True),
        ({"enum": ["a", 1]}, True, False),
        ({"$ref": "#/$defs/A"}, "x", True),
        ({"const": 1.5}, 1.5, True),
    ],
)
def test_an_example_is_sent_if_it_certainly_matches(schema: Any, value: Any, kept: bool) -> None:  # noqa: FBT001
    whole = {**of(a=schema), "$defs": {"A": STRING}}

    assert made(whole, "anthropic", strict="off", examples=({"a": value},)).definition.get(
        "input_examples", []
    ) == ([{"a": value}] if kept else [])


def test_the_output_schema_is_sent_if_the_api_has_a_field_for_it() -> None:
    def promised(schema: Any) -> tuple[Any, tuple[str, ...]]:
        one = made(of(a=STRING), "openai_responses", output_schema=schema)
        return one.definition.get("output_schema"), one.losses

    assert promised({"type": "object"}) == ({"type": "object", "properties": {}}, ())
    assert promised({"type": "array", "items": {"pattern": "("}}) == (
        {"type": "array", "items": {"description": "Must match the regular expression `(`."}},
        ("output_schema: []: must match the regular expression `(`",),
    )
    assert promised({"type": "string"}) == (None, ())
    assert promised({"type": "object", "$ref": "http://x"}) == (
        None,
        ("output_schema: omitted: the external reference 'http://x' is not fetched",),
    )


def test_a_long_description_continues_in_the_schema_for_chat_completions() -> None:
    description = "word " * 300
    one = made(of(a=STRING), "openai_chat", description=description)
    function = one.definition["function"]

    assert (
        f"{function['description']} {function['parameters']['description']}" == description.strip()
    )
    assert (len(function["description"]), one.losses) == (1019, ())
    solid = made(
        {**of(a=STRING), "description": "Args."}, "openai_chat", description="x" * 1500
    ).definition["function"]
    assert (len(solid["description"]), solid["parameters"]["description"]) == (
        1024,
        "x" * 476 + "\n\nArgs.",
    )


@dialects
def test_a_tool_without_a_description_has_none(dialect: str) -> None:
    api = made(of(a=STRING), dialect, description="").definition

    assert "description" not in api.get("function", api)


def test_strict_follows_the_spec() -> None:
    def strict(**options: Any) -> list[Any]:
        return [
            made(of(a={"type": "string", "minLength": 1}), one, **options).definition.get("strict")
            for one in ("anthropic", "openai_responses")
        ]

    assert (strict(), strict(strict="on"), strict(strict="off")) == (
        [None, False],
        [True, True],
        [None, False],
    )


def test_a_tool_that_must_be_strict_and_cannot_be_is_unsupported() -> None:
    free = Spec(name="t", description="Do.", input_schema=of(a={"type": "object"}), strict="on")

    assert anthropic.compile(free) == UnsupportedTool(
        "t",
        "unsupported schema: a: arbitrary properties cannot be enforced; use strict='auto' to send the tool without enforcing its schema",
    )


def strict_names(tools: list[Spec]) -> list[str]:
    return [api["name"] for api in anthropic.encode_tools(tools) if api.get("strict")]


def test_the_number_of_strict_tools_in_a_request_is_limited() -> None:
    def tools(strict: Any, count: int, schema: Any = None) -> list[Spec]:
        return [
            Spec(
                name=f"t{place:02}",
                description="Do.",
                input_schema=schema or of(a=STRING),
                strict=strict,
            )
            for place in range(count)
        ]

    asked = anthropic.encode_tools(tools("on", 22))

    assert strict_names(tools("auto", 22)) == [f"t{place:02}" for place in range(8)]
    assert len(strict_names(tools("on", 22))) == 20
    assert asked[21] == {"name": "t21", "description": "Do.", "input_schema": of(a=STRING)}
    assert len(strict_names(tools("auto", 8, of([], **{f"p{n}": STRING for n in range(5)})))) == 2
    assert (
        len(
            strict_names(
                tools(
                    "auto",
                    8,
                    of(
                        a={"anyOf": [STRING, {"type": "integer"}]},
                        b={"anyOf": [STRING, {"type": "null"}]},
                    ),
                )
            )
        )
        == 4
    )
    assert strict_names([spec("huge enum")]) == []
    assert strict_names(
        [
            *tools("auto", 9),
            Spec(name="z", description="Do.", input_schema=of(a=STRING), strict="on"),
        ]
    ) == [*(f"t{place:02}" for place in range(7)), "z"]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (of(**{f"p{n}": STRING for n in range(5_001)}), "more than 5,000 properties"),
        (
            of(a={"enum": [f"{n:0100}" for n in range(300)]}),
            "more than 15,000 characters in one enum",
        ),
        (of(a={"const": "x" * 130_000}), "more than 120,000 characters of names and values"),
        (
            of(a={"$ref": "#/$defs/A"}) | {"$defs": {"A": of(again={"$ref": "#/$defs/A"})}},
            "every value would have to contain another one, without end",
        ),
        (
            of(a={"$ref": "#/$defs/A"})
            | {"$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}, "minItems": 1}}},
            "every value would have to contain another one, without end",
        ),
    ],
)
def test_a_schema_too_large_to_enforce_is_sent_without_strict(schema: Any, reason: str) -> None:
    asked = openai_responses.compile(
        Spec(name="t", description="Do.", input_schema=schema, strict="on")
    )

    assert made(schema, "openai_responses").definition["strict"] is False
    assert isinstance(asked, UnsupportedTool)
    assert reason in asked.reason


def bomb(levels: int, joined: str) -> dict[str, Any]:
    """A short schema with too many paths to visit."""
    names = [f"D{level}" for level in range(levels)]
    defs: dict[str, Any] = {
        one: {
            joined: [
                {"$ref": f"#/$defs/{two}"},
                {"type": "object", "properties": {"x": {"$ref": f"#/$defs/{two}"}}},
            ]
        }
        for one, two in pairwise(names)
    }
    return {
        "type": "object",
        "properties": {
            "a": {joined: [{"$ref": "#/$defs/D0"}, {"$ref": "#/$defs/D0", "minProperties": 1}]}
        },
        "$defs": {**defs, names[-1]: {"type": "object", "properties": {"y": STRING}}},
    }


def doubling(levels: int) -> dict[str, Any]:
    """Each definition is used twice in the one before, and cannot stay a reference."""
    made: dict[str, Any] = {"D0": {"type": "object", "properties": {"z": STRING}}}
    for level in range(levels):
        inner = [{"$ref": f"#/$defs/D{level}", "minProperties": least} for least in (1, 2)]
        made[f"D{level + 1}"] = {
            "type": "object",
            "properties": dict(zip("xy", inner, strict=True)),
        }
    return {"type": "object", "properties": {"a": {"$ref": f"#/$defs/D{levels}"}}, "$defs": made}


def loop() -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object"}
    made["properties"] = {"a": made, "b": made}
    return made


@dialects
@pytest.mark.parametrize(
    "schema",
    [
        bomb(40, "allOf"),
        bomb(40, "anyOf"),
        bomb(20, "oneOf"),
        doubling(18),
        loop(),
        {"anyOf": [{"type": "object"}] * 21_000},
    ],
)
def test_a_schema_designed_to_take_forever_does_not(dialect: str, schema: Any) -> None:
    assert isinstance(
        APIS[dialect].compile(Spec(name="t", description="Do.", input_schema=schema, strict="on")),
        CompiledTool | UnsupportedTool,
    )


def test_a_tool_whose_required_field_nothing_fits_is_not_sent() -> None:
    def compiled(field: Any) -> object:
        schema = of(["a"], a=field)
        return gemini.compile(Spec(name="t", description="Do.", input_schema=schema))

    assert compiled({"allOf": [STRING, {"not": {}}]}) == UnsupportedTool(
        "t", "unsupported schema: no arguments can match the schema"
    )
    assert isinstance(compiled({"allOf": [STRING, {"maxLength": 1}]}), CompiledTool)
