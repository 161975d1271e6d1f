"""What a tool gives back fits its output schema, bounds and required keys included, or is withheld.

The control is the serializer alone, which sees types and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from handrail import Call, Executor, FailureKind, Image, Result, Spec, Text, Tool, Toolset, tool


class Named(TypedDict):
    name: str


class Point(BaseModel):
    x: int = Field(ge=0)
    label: str = Field(default="", serialization_alias="the label", max_length=5)


@dataclass
class Size:
    width: Annotated[int, Field(gt=0)]


def refuse(_value: int) -> int:
    raise ValueError("not as an argument")


def giving(annotation: Any, value: Any) -> Tool[..., Any]:
    async def act() -> Any:
        """Act."""
        return value

    act.__annotations__ = {"return": annotation}
    return tool(act)


def ran(asked: Tool[..., Any]) -> Result:
    return Executor(Toolset(asked)).run_sync(Call(asked.spec.name, {}, "c1"))


def outcome(asked: Tool[..., Any]) -> tuple[FailureKind | None, str | None]:
    """The kind of failure and the data."""
    result = ran(asked)
    return result.failure and result.failure.kind, result.data


BROKEN: list[tuple[str, Any, Any, str]] = [
    ("a number below its bound", Annotated[int, Field(ge=0)], -1, "the arguments: Input should be greater than or equal to 0"),
    ("a required key left out", Named, {}, "name: Field required"),
    ("a text too long", Annotated[str, Field(max_length=2)], "long text", "the arguments: String should have at most 2 characters"),
    ("a text that does not match", Annotated[str, Field(pattern="^a+$")], "b", "the arguments: String should match pattern '^a+$'"),
    ("too few items", Annotated[list[int], Field(min_length=1)], [], "the arguments: List should have at least 1 item after validation, not 0"),
    ("inside a list", list[Named], [{"name": "a"}, {}], "[1].name: Field required"),
    ("inside a dictionary", dict[str, Annotated[int, Field(multiple_of=2)]], {"a": 3}, "a: Input should be a multiple of 2"),
    ("a data class, which checks nothing", Size, Size(0), "width: Input should be greater than 0"),
    ("a model that was made without a check, inside", list[Point], [Point.model_construct(x=-1)], "[0].x: Input should be greater than or equal to 0"),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value", "why"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])  # fmt: skip
def test_what_does_not_fit_its_schema_is_withheld(annotation: Any, value: Any, why: str) -> None:
    asked = giving(annotation, value)
    words = "Result withheld: the tool 'act' ran, but did not return what it declares. It may have taken effect: check before you call it again."

    why = why.replace("the arguments: ", "the result: ")
    assert ran(asked) == Result.fail(
        "c1", FailureKind.BUG, words, f"{asked.origin}: {ValueError(why)!r}"
    )
    TypeAdapter(annotation).dump_json(value, warnings="error")  # the control has no complaint


FITTING: list[tuple[str, Any, Any, str]] = [
    ("a number", Annotated[int, Field(ge=0)], 0, "0"),
    ("a dictionary with its keys", Named, {"name": "a"}, '{"name":"a"}'),
    ("a model, by the names that it has outside", Point, Point(x=1), '{"x":1,"the label":""}'),
    ("models in a list", list[Point], [Point(x=1)], '[{"x":1,"the label":""}]'),
    ("a model that was made without a check", Point, Point.model_construct(x=-1), '{"x":-1,"the label":""}'),
    ("a plain number", int, 3, "3"),
    ("no bounds at all", list[float], [float("nan")], "[null]"),
    ("what a validator of arguments would refuse", Annotated[int, AfterValidator(refuse), Field(ge=0)], 1, "1"),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value", "data"), [row[1:] for row in FITTING], ids=[row[0] for row in FITTING])  # fmt: skip
def test_what_fits_its_schema_is_shown(annotation: Any, value: Any, data: str) -> None:
    assert ran(giving(annotation, value)) == Result("c1", data, (), data)


FEWER = settings(max_examples=max(8, settings.default.max_examples // 3))  # type: ignore[union-attr]


@FEWER
@given(st.integers(-3, 3), st.integers(-3, 3), st.integers(-4, 4))
def test_a_number_is_shown_exactly_where_it_is_within_its_bounds(
    low: int, high: int, value: int
) -> None:
    bounded = Annotated[int, Field(ge=low, lt=high)]
    both = ran(giving(bounded, value)), ran(giving(list[bounded], [value]))

    assert [one.failure is None for one in both] == [low <= value < high] * 2


@FEWER
@given(
    st.dictionaries(st.sampled_from(["a", "b"]), st.text(max_size=4)), st.sampled_from([0, 2, 3])
)
def test_an_object_is_shown_exactly_where_it_has_its_keys(value: dict[str, str], most: int) -> None:
    text = Annotated[str, Field(max_length=most)]

    class Keys(TypedDict):
        a: text  # type: ignore[valid-type]
        b: text  # type: ignore[valid-type]

    fits = value.keys() == {"a", "b"} and all(len(item) <= most for item in value.values())
    Keys.__annotations__ = {"a": text, "b": text}
    assert (ran(giving(Keys, value)).failure is None) == fits


OBJECT = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0}},
    "required": ["n"],
}


def far(schema: dict[str, Any] | None, value: Any) -> Tool[..., Any]:
    async def send(_args: object, _context: object) -> Any:
        return value

    spec = Spec(name="far", description="", input_schema={"type": "object"}, output_schema=schema)
    return Tool.remote(spec, send)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"n": "1"},
        {"n": -1},
        {"n": True},
        [],
        None,
        "words",
        7,
        Result("", "", data='{"n": -1}'),
        object(),
    ],
    ids=repr,
)
def test_data_from_elsewhere_that_does_not_fit_is_withheld(value: Any) -> None:
    assert outcome(far(OBJECT, value)) == (FailureKind.BUG, None)


@pytest.mark.parametrize(
    ("schema", "value", "data"),
    [
        (OBJECT, {"n": 1}, '{"n":1}'),
        (OBJECT, {"n": 1, "more": [1]}, '{"n":1,"more":[1]}'),
        (OBJECT, Result("", "one", data='{"n": 1}'), '{"n": 1}'),
        ({"type": "string"}, "words", '"words"'),
        ({"type": "string", "pattern": "(?=a)b"}, "words", '"words"'),
        ({"$ref": "https://elsewhere"}, 7, "7"),
        (None, {"n": -1}, '{"n":-1}'),
        (None, "words", None),
    ],
    ids=repr,
)
def test_data_from_elsewhere_that_fits_is_shown(schema: Any, value: Any, data: str | None) -> None:
    assert outcome(far(schema, value)) == (None, data)


def test_words_and_pictures_from_elsewhere_promise_nothing() -> None:
    image = Image(b"png")

    assert ran(far(OBJECT, [Text("a"), image])).parts == (Text("a"), image)
    assert ran(far(OBJECT, Result("", "a"))) == Result("c1", "a")
    assert ran(far(OBJECT, image)).parts == (image,)
    refused = Result.fail("", FailureKind.FAILED, "no")
    assert ran(far(OBJECT, refused._replace(data="{}"))).failure == refused.failure


@pytest.mark.parametrize("depth", [1, 30, 400, 3_000])
def test_a_result_that_nobody_can_check_in_time_is_shown(depth: int) -> None:
    array = {"type": "array", "items": {"$ref": "#/$defs/nest"}}
    choices = [{**array, "minItems": 1}, {**array, "maxItems": 2}, array, {"type": "integer"}]
    schema = {
        "type": "object",
        "properties": {"inside": {"$ref": "#/$defs/nest"}},
        "required": ["kind"],
        "$defs": {"nest": {"anyOf": choices}},
    }
    data = f'{{"inside":{"[" * depth}1{"]" * depth},"kind":"a"}}'

    assert outcome(far(schema, Result("", "deep", data=data))) == (None, data)


def test_patterns_are_not_matched_against_a_long_result() -> None:
    schema = {"type": "string", "pattern": "[ab]*a[ab]{100}c"}

    assert outcome(far(schema, "ab" * 100))[0] is FailureKind.BUG
    assert outcome(far(schema, "ab" * 50_000))[0] is None
