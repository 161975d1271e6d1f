"""Schemas from elsewhere: what they forbid is refused here, what is not understood is let through."""

from __future__ import annotations

import time
from typing import Any

import pytest

from handrail import Args, Failure, Spec, Tool


async def _nowhere(_args: object, _context: object) -> None: ...


def verdict(schema: dict[str, Any], args: Any) -> str:
    """``ok``, or the lines of complaint."""
    far = Tool.remote(Spec(name="far", description="", input_schema=schema), _nowhere)
    parsed = far.parse(args)
    if isinstance(parsed, Args):
        return "; ".join(["ok", *parsed.repairs])
    return "; ".join(line[2:] for line in parsed.message.splitlines()[1:-1])


def one(schema: object) -> dict[str, Any]:
    """An object with one required property ``x``."""
    return {"type": "object", "properties": {"x": schema}, "required": ["x"]}


TREE = {
    "type": "object",
    "properties": {"x": {"$ref": "#/$defs/node"}},
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["value"],
        }
    },
}

CASES: list[tuple[str, dict[str, Any], Any, str]] = [
    ("no schema at all", {}, {"anything": [1]}, "ok"),
    ("no schema, no object", {}, "[1]", "the arguments: expected an object, got a list of 1"),
    ("a boolean schema", {"type": "object", "properties": {"x": True}}, {"x": [1]}, "ok"),
    ("string", one({"type": "string"}), {"x": 1}, "x: expected a string, got 1"),
    ("minLength", one({"type": "string", "minLength": 2}), {"x": "a"}, 'x: expected 2 or more characters, got the string "a"'),
    ("maxLength", one({"type": "string", "maxLength": 2}), {"x": "abc"}, 'x: expected 2 or fewer characters, got the string "abc"'),
    ("pattern", one({"type": "string", "pattern": "^a+$"}), {"x": "b"}, 'x: expected text that matches ^a+$, got the string "b"'),
    ("a pattern that cannot run in linear time is left to the server", one({"type": "string", "pattern": "(?=a)b"}), {"x": "b"}, "ok"),
    ("a pattern that is no pattern", one({"type": "string", "pattern": 7}), {"x": "b"}, "ok"),
    ("integer", one({"type": "integer"}), {"x": "3"}, "ok; x: the string was read as a number"),
    ("no boolean for an integer", one({"type": "integer"}), {"x": True}, "x: expected an integer, got true"),
    ("minimum", one({"type": "integer", "minimum": 1}), {"x": 0}, "x: expected a number of at least 1, got 0"),
    ("maximum", one({"type": "number", "maximum": 1}), {"x": 1.5}, "x: expected a number of at most 1, got 1.5"),
    ("exclusiveMinimum", one({"type": "number", "exclusiveMinimum": 0}), {"x": 0}, "x: expected a number above 0, got 0"),
    ("exclusiveMaximum", one({"type": "integer", "exclusiveMaximum": 9}), {"x": 9}, "x: expected a number below 9, got 9"),
    ("multipleOf", one({"type": "integer", "multipleOf": 5}), {"x": 7}, "x: expected a multiple of 5, got 7"),
    ("a limit that is no number", one({"type": "integer", "minimum": True}), {"x": -1}, "ok"),
    ("boolean", one({"type": "boolean"}), {"x": 1}, "x: expected true or false, got 1"),
    ("null", one({"type": "null"}), {"x": 1}, "x: expected null, got 1"),
    ("array", one({"type": "array", "items": {"type": "integer"}}), {"x": [1, "a"]}, 'x[1]: expected an integer, got the string "a"'),
    ("minItems", one({"type": "array", "minItems": 1}), {"x": []}, "x: expected 1 or more items, got a list of 0"),
    ("enum", one({"enum": ["a", "b"]}), {"x": "c"}, "x: expected 'a' or 'b', got the string \"c\""),
    ("enum of numbers takes no boolean", one({"enum": [0, 1]}), {"x": True}, "x: expected a number, not a boolean, got true"),
    ("enum of objects is left to the server", one({"enum": [{"a": 1}]}), {"x": 3}, "ok"),
    ("const", one({"const": "a"}), {"x": "b"}, "x: expected 'a', got the string \"b\""),
    ("anyOf", one({"anyOf": [{"type": "string"}, {"type": "null"}]}), {"x": 1}, "x: expected a string, got 1"),
    ("an empty anyOf", one({"anyOf": []}), {"x": 1}, "ok"),
    ("oneOf", one({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}), {"x": "q"}, 'x: expected an integer or true or false, got the string "q"'),
    ("types", one({"type": ["string", "null"]}), {"x": None}, "ok"),
    ("types with null are mended", one({"type": ["integer", "null"]}), {"x": "3"}, "ok; x: the string was read as a number"),
    ("only null", one({"type": ["null"]}), {"x": 1}, "x: expected null, got 1"),
    ("const null", one({"const": None}), {"x": 1}, "x: expected null, got 1"),
    ("enum with null", one({"enum": ["a", None]}), {"x": None}, "ok"),
    ("allOf may add properties", {**one({"type": "string"}), "allOf": [{"properties": {"y": {}}}]}, {"x": "a", "y": 1}, "ok"),
    ("missing", one({"type": "string"}), {}, "x: required, missing"),
    ("unlisted but required", {"type": "object", "required": ["y"]}, {}, "y: required, missing"),
    ("listed properties are all there are", one({"type": "string"}), {"x": "a", "y": 1}, "y: unknown field; known fields: x"),
    ("unless the schema says otherwise", {**one({"type": "string"}), "additionalProperties": True}, {"x": "a", "y": 1}, "ok"),
    ("extra properties have a type", {**one({"type": "string"}), "additionalProperties": {"type": "integer"}}, {"x": "a", "y": "z"}, 'y: expected an integer, got the string "z"'),
    ("patterns of names leave it open", {**one({"type": "string"}), "patternProperties": {"^y": {}}}, {"x": "a", "y": 1}, "ok"),
    ("properties without a type", {"properties": {"x": {"type": "integer"}}}, {"x": "q"}, 'x: expected an integer, got the string "q"'),
    ("nested", one({"type": "object", "properties": {"y": {"type": "integer"}}}), {"x": {"y": "q"}}, 'x.y: expected an integer, got the string "q"'),
    ("null in a list of objects", one({"type": "array", "items": {"type": "object", "properties": {"y": {"type": "integer"}}}}), {"x": [{"y": None}]}, "ok; x[0].y: null was read as omitted"),
    ("null behind a reference", {**one({"$ref": "#/$defs/a"}), "$defs": {"a": {"type": "object", "properties": {"y": {"type": "integer"}}}}}, {"x": {"y": None}}, "ok; x.y: null was read as omitted"),
    ("null behind nothing", {**one({"type": "object", "properties": {"y": {"type": "integer"}}}), "anyOf": [5]}, {"x": {"y": None}}, "ok; x.y: null was read as omitted"),
    ("null as an item", one({"type": "array", "items": {"type": "integer"}}), {"x": [None]}, "x[0]: expected an integer, got null"),
    ("recursion", TREE, {"x": {"value": 1, "kids": [{"value": 2, "kids": [{"value": "q"}]}]}}, 'x.kids[0].kids[0].value: expected an integer, got the string "q"'),
    ("a reference to nowhere", one({"$ref": "#/$defs/none"}), {"x": 1}, "ok"),
    ("a reference through a scalar", {**one({"$ref": "#/type/none"})}, {"x": 1}, "ok"),
    ("a reference to itself", {"$ref": "#"}, {"x": 1}, "ok"),
    ("a reference elsewhere is never fetched", one({"$ref": "http://127.0.0.1:1/schema.json"}), {"x": 1}, "ok"),
    ("a hint is no promise", {**one({"type": "string"}), "annotations": {"readOnlyHint": True}}, {"x": 1}, "x: expected a string, got 1"),
    ("a default is not filled in", {"type": "object", "properties": {"x": {"type": "string", "default": 7}}}, {}, "ok"),
    ("duplicate keys", {}, '{"x": 1, "x": 2}', 'the key "x" occurs twice in one object.'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "args", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_what_a_schema_forbids_is_refused(schema: dict[str, Any], args: Any, expected: str) -> None:
    assert verdict(schema, args) == expected


A, B = "#/$defs/A", "#/$defs/B"
HOSTILE: dict[str, dict[str, Any]] = {
    "a reference to itself": {**one({"$ref": A}), "$defs": {"A": {"$ref": A}}},
    "two that refer to one another": {**one({"$ref": A}), "$defs": {"A": {"$ref": B}, "B": {"$ref": A}}},
    "a union of itself": {**one({"$ref": A}), "$defs": {"A": {"anyOf": [{"$ref": A}, {"type": "string"}]}}},
    "a union with only itself": {**one({"$ref": A}), "$defs": {"A": {"oneOf": [{"$ref": A}]}}},
    "unions of one another": {**one({"$ref": B}), "$defs": {"A": {"anyOf": [{"$ref": B}]}, "B": {"anyOf": [{"$ref": A}]}}},
    "a literal by reference": {**one({"$ref": A}), "$defs": {"A": {"enum": [1, 2]}}},
    "a union of itself beside a number": {**one({"$ref": A}), "$defs": {"A": {"anyOf": [{"$ref": A}, {"type": "integer"}]}}},
    "nested unions that are numbers": one({"type": "object", "properties": {"x": {"type": "integer"}}, "anyOf": 5, "oneOf": 7}),
    "half a minimum": one({"type": "integer", "minimum": 0.5}),
    "a large maximum": one({"type": "integer", "maximum": 1e30}),
    "an infinite maximum": one({"type": "number", "maximum": float("inf")}),
    "half a multiple": one({"type": "integer", "multipleOf": 0.5}),
    "no multiple": one({"type": "integer", "multipleOf": 0}),
    "a length that is a float": one({"type": "string", "minLength": 1.0}),
    "a length below zero": one({"type": "string", "minLength": -1}),
    "properties that are a list": {"type": "object", "properties": ["x"]},
    "a property that is a number": {"type": "object", "properties": {"x": 5}},
    "required that is a number": {"type": "object", "required": 5},
    "required of numbers": {"type": "object", "required": [5]},
    "anyOf that is a number": one({"anyOf": 5}),
    "a type that is an object": one({"type": {"a": 1}}),
    "a type that is unknown": one({"type": "integre"}),
    "types that are no list of types": one({"type": [5, None]}),
    "an empty enum": one({"enum": []}),
    "an enum that is a number": one({"enum": 5}),
    "a reference that is a number": one({"$ref": 5}),
    "definitions that are a list": {**one({"$ref": A}), "$defs": [1]},
    "items that are a list": one({"type": "array", "items": [{"type": "string"}]}),
}  # fmt: skip


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_schema_can_only_weaken_the_check(schema: dict[str, Any]) -> None:
    far = Tool.remote(Spec(name="far", description="", input_schema=schema), _nowhere)

    for value in (1, "a", None, [1], [None], {"x": 1}, {"x": None}, 1.5):
        assert isinstance(far.parse({"x": value}), Args | Failure)
    assert isinstance(far.parse("5"), Failure)


def test_what_a_remote_tool_is_sent_is_what_came() -> None:
    far = Tool.remote(
        Spec(name="far", description="", input_schema=one({"type": "number"})), _nowhere
    )

    parsed = far.parse('{"x": 9007199254740993}')

    assert isinstance(parsed, Args)
    assert (parsed.values, parsed.canonical) == ({"x": 9007199254740993}, b'{"x":9007199254740993}')


def test_a_schema_of_any_depth_is_survived() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(500):
        schema = {"type": "array", "items": schema}

    assert verdict(one(schema), {"x": []}) == "ok"


def test_a_pattern_that_would_run_for_ages_elsewhere_ends_at_once() -> None:
    far = Tool.remote(
        Spec(
            name="far", description="", input_schema=one({"type": "string", "pattern": "^(a+)+$"})
        ),
        _nowhere,
    )
    text = "a" * 50_000 + "!"
    started = time.process_time()

    assert isinstance(far.parse({"x": text}), Failure)
    assert (
        time.process_time() - started < 20
    )  # Python's own engine would need longer than the universe has
