"""Tools as each provider takes them: golden data for awkward schemas, and the rules around them."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest

from handrail import Exposure, Spec, tool
from handrail.providers._compiled import Compiled, Dialect, Quarantined, compiled, compiled_all

from .validators import VALIDATORS, raw
from .zoo import DATA, DIALECTS, ZOO, golden, of, spec, text

STRING = {"type": "string"}
dialects = pytest.mark.parametrize("dialect", DIALECTS)


def made(schema: Any, dialect: Dialect, **options: Any) -> Compiled:
    one = compiled(
        Spec(**{"name": "t", "description": "Do.", "input_schema": schema, **options}), dialect
    )
    assert isinstance(one, Compiled), one
    return one


@dialects
def test_awkward_schemas_compile_to_what_was_reviewed(dialect: Dialect) -> None:
    assert len(ZOO) >= 60

    assert text(golden(dialect)) == (DATA / f"{dialect}.json").read_text(encoding="utf-8")


@dialects
@pytest.mark.parametrize("strict", ["auto", "on", "off"])
def test_every_golden_tool_is_one_that_the_provider_takes(dialect: Dialect, strict: Any) -> None:
    sent = {name: compiled(spec(name, strict=strict), dialect) for name in ZOO}

    assert {
        name: found
        for name, one in sent.items()
        if isinstance(one, Compiled) and (found := VALIDATORS[dialect](one.wire))
    } == {}


@pytest.mark.parametrize(
    ("dialect", "loose", "strict"),
    [
        ("anthropic", 43, 156),
        ("openai_chat", 56, 170),
        ("openai_responses", 56, 170),
        ("gemini", 152, 152),
    ],
)
def test_schemas_that_are_sent_as_they_are_would_fail(
    dialect: Dialect, loose: int, strict: int
) -> None:
    def refused(*, enforced: bool) -> int:
        return sum(
            bool(VALIDATORS[dialect](raw(dialect, schema, strict=enforced)))
            for schema in ZOO.values()
        )

    assert (refused(enforced=False), refused(enforced=True)) == (loose, strict)


@dialects
def test_most_of_the_zoo_can_be_sent(dialect: Dialect) -> None:
    kept = [name for name in ZOO if isinstance(compiled(spec(name), dialect), Compiled)]

    assert len(kept) >= 160


@dialects
def test_the_tool_block_is_the_same_whatever_order_the_tools_came_in(dialect: Dialect) -> None:
    tools = [
        Spec(name=f"t{place}", description="Do.", input_schema=schema)
        for place, schema in enumerate(list(ZOO.values())[::3])
    ]
    blocks = set()
    for seed in range(3):
        random.Random(seed).shuffle(tools)  # noqa: S311
        blocks.add(repr(compiled_all(tools, dialect)))

    assert len(blocks) == 1


@dialects
def test_one_tool_that_cannot_be_sent_leaves_the_others_alone(dialect: Dialect) -> None:
    good = Spec(name="good", description="Do.", input_schema=of(a=STRING))
    bad = Spec(name="bad", description="Do.", input_schema={"$ref": "https://example.org"})

    both = compiled_all([good, bad], dialect)

    assert both == (
        Quarantined(
            "bad",
            "its schema cannot be sent: it refers to 'https://example.org', which is elsewhere and is not fetched",
        ),
        compiled(good, dialect),
    )


@dialects
def test_a_tool_of_ours_goes_out_without_losses(dialect: Dialect) -> None:
    @tool
    def grep(pattern: str, path: str, lines: list[int]) -> str:
        """Search.

        Args:
            pattern: What to look for.
            path: Where.
            lines: Which.
        """
        return ""

    one = compiled(grep.spec, dialect)

    assert isinstance(one, Compiled)
    assert one.losses == ()
    assert json.loads(json.dumps(grep.spec.input_schema)) in (
        one.wire.get("input_schema"),
        one.wire.get("parameters"),
        one.wire.get("parametersJsonSchema"),
        one.wire.get("function", {}).get("parameters"),
    )


@dialects
@pytest.mark.parametrize("name", ["a b/c", "1st", "x" * 200, "späti", "a.b"])
def test_any_name_becomes_one_that_the_provider_takes(dialect: Dialect, name: str) -> None:
    assert VALIDATORS[dialect](made(of(a=STRING), dialect, name=name).wire) == []


@dialects
def test_a_hidden_tool_is_not_sent(dialect: Dialect) -> None:
    hidden = Spec(name="t", description="Do.", input_schema={}, exposure=Exposure.HIDDEN)

    assert compiled(hidden, dialect) == Quarantined("t", "it is hidden from models")
    assert compiled_all([hidden], dialect) == ()


def test_a_deferred_tool_is_deferred_where_the_wire_can() -> None:
    made_ = {one: made(of(a=STRING), one, exposure=Exposure.DEFERRED) for one in DIALECTS}

    assert {one: (each.wire.get("defer_loading"), each.losses) for one, each in made_.items()} == {
        "anthropic": (True, ()),
        "openai_chat": (None, ("exposure: this wire cannot defer a tool; it is in every request",)),
        "openai_responses": (True, ()),
        "gemini": (None, ("exposure: this wire cannot defer a tool; it is in every request",)),
    }


def test_examples_go_where_they_have_a_place_and_into_words_elsewhere() -> None:
    examples = ({"a": "x"}, {"a": 1}, {"a": "y", "b": float("nan")})
    sent = {
        one: made(of(["a"], a=STRING), one, examples=examples) for one in ("anthropic", "gemini")
    }

    assert sent["anthropic"].wire["input_examples"] == [{"a": "x"}]
    assert sent["anthropic"].losses == (
        "examples: number 2 is left out, since it may not fit the schema",
        "examples: number 3 is left out, since it may not fit the schema",
    )
    assert "description" not in sent["gemini"].wire["parametersJsonSchema"]
    assert made(of(a=STRING), "gemini", examples=examples[:2]) == Compiled(
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
        ("examples: they are only described",),
    )
    assert "input_examples" not in made(of(a=STRING), "anthropic", examples=examples[1:]).wire


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
def test_an_example_is_sent_where_it_fits_for_sure(schema: Any, value: Any, kept: bool) -> None:  # noqa: FBT001
    whole = {**of(a=schema), "$defs": {"A": STRING}}

    assert made(whole, "anthropic", strict="off", examples=({"a": value},)).wire.get(
        "input_examples", []
    ) == ([{"a": value}] if kept else [])


def test_what_a_tool_gives_back_is_told_where_the_wire_has_a_place() -> None:
    def promised(schema: Any) -> tuple[Any, tuple[str, ...]]:
        one = made(of(a=STRING), "openai_responses", output_schema=schema)
        return one.wire.get("output_schema"), one.losses

    assert promised({"type": "object"}) == ({"type": "object", "properties": {}}, ())
    assert promised({"type": "array", "items": {"pattern": "("}}) == (
        {"type": "array", "items": {"description": "Must match the regular expression `(`."}},
        ("output_schema: []: must match the regular expression `(`",),
    )
    assert promised({"type": "string"}) == (None, ())
    assert promised({"type": "object", "$ref": "http://x"}) == (
        None,
        (
            "output_schema: left out, since it refers to 'http://x', which is elsewhere and is not fetched",
        ),
    )


def test_a_long_description_goes_on_where_chat_completions_still_reads_it() -> None:
    words = "word " * 300
    one = made(of(a=STRING), "openai_chat", description=words)
    function = one.wire["function"]

    assert f"{function['description']} {function['parameters']['description']}" == words.strip()
    assert (len(function["description"]), one.losses) == (1019, ())
    solid = made(
        {**of(a=STRING), "description": "Args."}, "openai_chat", description="x" * 1500
    ).wire["function"]
    assert (len(solid["description"]), solid["parameters"]["description"]) == (
        1024,
        "x" * 476 + "\n\nArgs.",
    )


@dialects
def test_a_tool_without_a_description_has_none(dialect: Dialect) -> None:
    wire = made(of(a=STRING), dialect, description="").wire

    assert "description" not in wire.get("function", wire)


def test_strict_is_what_was_asked_for() -> None:
    def strict(**options: Any) -> list[Any]:
        return [
            made(of(a={"type": "string", "minLength": 1}), one, **options).wire.get("strict")
            for one in ("anthropic", "openai_responses")
        ]

    assert (strict(), strict(strict="on"), strict(strict="off")) == (
        [None, False],
        [True, True],
        [None, False],
    )


def test_a_tool_that_must_be_strict_and_cannot_is_not_sent() -> None:
    free = Spec(name="t", description="Do.", input_schema=of(a={"type": "object"}), strict="on")

    assert compiled(free, "anthropic") == Quarantined(
        "t",
        "its schema cannot be sent: a: any properties fit, which cannot be enforced; strict='auto' would send it without that",
    )


def strict_names(tools: list[Spec]) -> list[str]:
    return [
        one.wire["name"]
        for one in compiled_all(tools, "anthropic")
        if isinstance(one, Compiled) and one.wire.get("strict")
    ]


def test_a_request_has_room_for_so_many_strict_tools() -> None:
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

    asked = compiled_all(tools("on", 22), "anthropic")

    assert strict_names(tools("auto", 22)) == [f"t{place:02}" for place in range(8)]
    assert len(strict_names(tools("on", 22))) == 20
    assert isinstance(asked[21], Compiled)
    assert asked[21].losses == ("strict: this request has no room for another strict tool",)
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
        (of(**{f"p{n}": STRING for n in range(5_001)}), "it has more than 5,000 properties"),
        (
            of(a={"enum": [f"{n:0100}" for n in range(300)]}),
            "it has more than 15,000 characters in one list of values",
        ),
        (of(a={"const": "x" * 130_000}), "it has more than 120,000 characters of names and values"),
        (
            of(a={"$ref": "#/$defs/A"}) | {"$defs": {"A": of(again={"$ref": "#/$defs/A"})}},
            "its values would have to contain themselves without end",
        ),
        (
            of(a={"$ref": "#/$defs/A"})
            | {"$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}, "minItems": 1}}},
            "its values would have to contain themselves without end",
        ),
    ],
)
def test_what_is_too_much_to_enforce_is_sent_without(schema: Any, reason: str) -> None:
    asked = compiled(
        Spec(name="t", description="Do.", input_schema=schema, strict="on"), "openai_responses"
    )

    assert made(schema, "openai_responses").wire["strict"] is False
    assert isinstance(asked, Quarantined)
    assert reason in asked.reason


def bomb(levels: int, joined: str) -> dict[str, Any]:
    """A short schema with more ways through it than anybody can walk."""
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
    """Each definition is twice in the one before, and cannot be only referred to."""
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
def test_a_schema_made_to_take_for_ever_does_not(dialect: Dialect, schema: Any) -> None:
    assert isinstance(
        compiled(Spec(name="t", description="Do.", input_schema=schema, strict="on"), dialect),
        Compiled | Quarantined,
    )
