"""From a signature to a schema and back to typed values: one table, one test for each aspect."""

from __future__ import annotations

import functools
import inspect
import json
import random
from collections.abc import Awaitable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, create_model

import future_annotations_samples
import signature_samples
from handrail import Args, Context, Failure, FailureKind, Image, Spec, Text, Tool, tool
from signature_cases import CONTEXT, INTEGER, NUMBER, STRING, Case, array, closed, kinds

# ---------------------------------------------------------------- callables of other kinds


class Notes:
    """Keeps a prefix, so that a test can tell which object a method was bound to."""

    prefix = "class"

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def add(self, text: str, *, times: int = 1) -> Any:
        return {"text": text, "times": times, "self": self.prefix}

    async def add_later(self, text: str) -> Any:
        return {"text": text, "self": self.prefix}

    @classmethod
    def shared(cls, text: str) -> Any:
        return {"text": text, "self": cls.prefix}

    @staticmethod
    def free(text: str) -> Any:
        return {"text": text}


def _three(a: int, b: str, c: float = 0.5) -> Any:
    """Take three things.

    Args:
        a: The first.
        b: The second.
    """
    return {"a": a, "b": b, "c": c}


def _logged(fn: Any) -> Any:
    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return inner


@_logged
def _decorated(a: int, b: str = "x") -> Any:
    return {"a": a, "b": b}


OTHERS = [
    Case(
        id="partial_by_position",
        fn=functools.partial(_three, 1),
        options={"name": "two_of_three"},
        schema=closed(
            "b",
            b={"type": "string", "description": "The second."},
            c={"type": "number", "default": 0.5},
        ),
        sent={"b": "x"},
        values={"b": "x"},
    ),
    Case(
        id="partial_by_keyword",
        fn=functools.partial(_three, b="fixed"),
        options={"name": "one_of_three"},
        schema=closed(
            "a",
            a={"type": "integer", "description": "The first."},
            b={"type": "string", "description": "The second.", "default": "fixed"},
            c={"type": "number", "default": 0.5},
        ),
        sent={"a": 1, "b": "other"},
        values={"a": 1, "b": "other"},
    ),
    Case(
        id="bound_method",
        fn=Notes("n1").add,
        schema=closed("text", text=STRING, times={"type": "integer", "default": 1}),
        sent={"text": "x"},
        values={"text": "x"},
    ),
    Case(
        id="bound_async_method",
        fn=Notes("n1").add_later,
        schema=closed("text", text=STRING),
        sent={"text": "x"},
        values={"text": "x"},
    ),
    Case(
        id="class_method",
        fn=Notes.shared,
        schema=closed("text", text=STRING),
        sent={"text": "x"},
        values={"text": "x"},
    ),
    Case(
        id="static_method",
        fn=Notes.free,
        schema=closed("text", text=STRING),
        sent={"text": "x"},
        values={"text": "x"},
    ),
    Case(
        id="decorated_function",
        fn=_decorated,
        schema=closed("a", a=INTEGER, b={"type": "string", "default": "x"}),
        sent={"a": 1},
        values={"a": 1},
    ),
]

CASES = [*signature_samples.CASES, *future_annotations_samples.CASES, *OTHERS]

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def parsed(made: Tool[..., Any], args: dict[str, Any] | str) -> Args:
    taken = made.parse(args)
    assert isinstance(taken, Args), taken.message
    return taken


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def shuffled(value: object, by: random.Random) -> object:
    """The same JSON, with the keys of every object in another order."""
    if isinstance(value, dict):
        keys = list(value)
        by.shuffle(keys)
        return {key: shuffled(value[key], by) for key in keys}
    return [shuffled(item, by) for item in value] if isinstance(value, list) else value


def test_the_table_has_at_least_a_hundred_signatures_with_different_names() -> None:
    assert len({case.id for case in CASES}) == len(CASES) >= 100


@every_case
def test_a_model_is_told_exactly_this_schema(case: Case) -> None:
    schema = case.made().spec.input_schema

    assert schema == case.schema
    assert json.dumps(schema, allow_nan=False) == json.dumps(case.schema)  # the order of keys, too


@every_case
def test_json_text_becomes_typed_values(case: Case) -> None:
    text = json.dumps(case.sent)

    taken = parsed(case.made(), text)

    assert taken == Args(case.values, text)
    assert kinds(taken.values) == kinds(case.values)


@every_case
def test_a_mapping_becomes_typed_values(case: Case) -> None:
    taken = parsed(case.made(), case.sent)

    assert taken == Args(case.values, compact(case.sent))
    assert kinds(taken.values) == kinds(case.values)


@every_case
def test_canonical_bytes_depend_on_no_spelling(case: Case) -> None:
    made = case.made()
    other = json.dumps(shuffled(case.sent, random.Random(case.id)), indent=3)  # noqa: S311  no secret

    expected = json.dumps(
        case.sent, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode()

    assert parsed(made, other).canonical == parsed(made, case.sent).canonical == expected


@every_case
async def test_the_function_receives_the_values_its_defaults_and_the_context(case: Case) -> None:
    made = case.made()

    result = made.invoke(parsed(made, case.sent), CONTEXT)
    received = await result if isinstance(result, Awaitable) else result

    expected = case.received()
    assert {name: received[name] for name in expected} == expected


@every_case
async def test_the_tool_stays_callable_as_the_function_is(case: Case) -> None:
    made = case.made()
    listed = inspect.signature(case.fn).parameters.values()
    filled = case.received()
    first = [filled.pop(one.name) for one in listed if one.kind is one.POSITIONAL_ONLY]

    by_tool, by_function = made(*first, **filled), case.fn(*first, **filled)
    if isinstance(by_tool, Awaitable) and isinstance(by_function, Awaitable):
        by_tool, by_function = await by_tool, await by_function

    assert by_tool == by_function
    assert inspect.signature(made) == inspect.signature(case.fn)


@every_case
def test_what_is_not_in_the_schema_cannot_be_sent(case: Case) -> None:
    extra = case.context or "unheard_of"
    known = ", ".join(case.schema.get("properties", {}))
    hint = f"known fields: {known}" if known else "the tool takes no arguments"

    assert case.made().parse({**case.sent, extra: None}) == Failure(
        FailureKind.BAD_ARGS,
        f"Not run: invalid arguments.\n- {extra}: unknown field; {hint}\nFix these and call again.",
    )


@every_case
def test_what_is_required_cannot_be_left_out(case: Case) -> None:
    required = case.schema.get("required", [])
    missing = [f"- {name}: required, missing" for name in required]

    taken = case.made().parse({})

    if not required:
        assert taken == Args({}, "{}")
    else:
        assert taken == Failure(
            FailureKind.BAD_ARGS,
            "\n".join(
                [
                    "Not run: invalid arguments.",
                    *missing,
                    "Fix these and call again.",
                ]
            ),
        )


@every_case
def test_the_schema_alone_lets_the_same_arguments_pass(case: Case) -> None:
    async def send(args: Any, context: Context) -> None: ...

    copy = json.loads(json.dumps(case.made().spec.input_schema))
    remote = Tool.remote(Spec(name="copy", description="", input_schema=copy), send)

    assert parsed(remote, case.sent).values == case.sent


@every_case
def test_no_reference_in_a_schema_dangles(case: Case) -> None:
    schema = case.made().spec.input_schema

    assert _targets(schema) == {f"#/$defs/{name}" for name in schema.get("$defs", {})}


def _targets(node: object) -> set[str]:
    """Every place inside the schema that something in it points at, whatever the keyword."""
    if isinstance(node, dict):
        return set().union(*map(_targets, node.values()))
    if isinstance(node, list):
        return set().union(*map(_targets, node))
    return {node} if isinstance(node, str) and node.startswith("#/") else set()


# ---------------------------------------------------------------- what a function gives back


class Report(BaseModel):
    """What was found."""

    title: str
    pages: int = 1


class Branch(BaseModel):
    name: str
    below: list[Branch] = Field(default=[])


def gives_nothing() -> None: ...
def gives_no_type():  # noqa: ANN201  that it says nothing is the point
    ...


def gives_text() -> str: ...
def gives_anything() -> Any: ...
def gives_a_content_part() -> Text: ...
def gives_content_parts() -> list[Text | Image]: ...
def gives_text_or_a_picture() -> str | Image: ...
def gives_an_integer() -> int: ...
def gives_maybe_text() -> str | None: ...
def gives_a_list() -> list[float]: ...
def gives_a_mapping() -> dict[str, int]: ...
def gives_a_pair() -> tuple[int, str]: ...
def gives_a_moment() -> datetime: ...
def gives_a_decimal() -> Decimal: ...
def gives_a_choice() -> Literal["yes", "no"]: ...
def gives_a_model() -> Report: ...
def gives_models() -> list[Report]: ...
def gives_a_tree() -> Branch: ...
async def gives_later() -> int: ...
def gives_described() -> Annotated[int, Field(description="How many.", ge=0)]: ...


REPORT = {
    "type": "object",
    "description": "What was found.",
    "properties": {"title": STRING, "pages": {"type": "integer", "default": 1}},
    "required": ["title"],
}

OUTPUTS: list[tuple[Any, dict[str, Any] | None]] = [
    (gives_nothing, None),
    (gives_no_type, None),
    (gives_text, None),
    (gives_anything, None),
    (gives_a_content_part, None),
    (gives_content_parts, None),
    (gives_text_or_a_picture, None),
    (gives_an_integer, INTEGER),
    (gives_maybe_text, {"anyOf": [STRING, {"type": "null"}]}),
    (gives_a_list, array(NUMBER)),
    (gives_a_mapping, {"type": "object", "additionalProperties": INTEGER}),
    (
        gives_a_pair,
        {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2},
    ),
    (gives_a_moment, {"type": "string", "format": "date-time"}),
    (gives_a_decimal, STRING),
    (gives_a_choice, {"type": "string", "enum": ["yes", "no"]}),
    (gives_a_model, REPORT),
    (gives_models, array(REPORT)),
    (
        gives_a_tree,
        {
            "$ref": "#/$defs/Branch",
            "$defs": {
                "Branch": {
                    "type": "object",
                    "properties": {
                        "name": STRING,
                        "below": {
                            "type": "array",
                            "items": {"$ref": "#/$defs/Branch"},
                            "default": [],
                        },
                    },
                    "required": ["name"],
                }
            },
        },
    ),
    (gives_later, INTEGER),
    (gives_described, {"type": "integer", "description": "How many.", "minimum": 0}),
]


@pytest.mark.parametrize(("fn", "schema"), OUTPUTS, ids=lambda one: getattr(one, "__name__", ""))
def test_what_a_function_gives_back_is_told_unless_it_is_words(
    fn: Any, schema: dict[str, Any] | None
) -> None:
    told = tool(fn).spec.output_schema

    assert json.dumps(told) == json.dumps(schema)


# ---------------------------------------------------------------- methods, where they are defined


class Shelf:
    def __init__(self, owner: str) -> None:
        self.owner = owner

    @tool
    def put(self, book: str, *, times: int = 1) -> str:
        """Put a book on the shelf."""
        return f"{self.owner}: {book} x{times}"

    @tool
    @_logged
    def take(self, book: str) -> str:
        """Take a book from the shelf."""
        return f"{self.owner} takes {book}"

    @tool
    @classmethod
    def kind(cls, book: str) -> str:
        """Tell where a book belongs."""
        return f"{cls.__name__}: {book}"

    @tool
    @staticmethod
    def trim(book: str) -> str:
        """Trim a title."""
        return book.strip()

    @staticmethod
    @tool
    def trim_inside(book: str) -> str:
        """Trim a title."""
        return book.strip()


class Attic(Shelf):
    pass


BOOK = closed("book", book=STRING)


@pytest.mark.parametrize(
    ("made", "schema", "result"),
    [
        (
            Shelf("ada").put,
            closed("book", book=STRING, times={"type": "integer", "default": 1}),
            "ada: x x1",
        ),
        (Shelf("ada").take, BOOK, "ada takes x"),
        (Shelf.kind, BOOK, "Shelf: x"),
        (Attic("ada").kind, BOOK, "Attic: x"),
        (Shelf.trim, BOOK, "x"),
        (Shelf("ada").trim, BOOK, "x"),
        (Shelf.trim_inside, BOOK, "x"),
        (Shelf("ada").trim_inside, BOOK, "x"),
    ],
    ids="method decorated class derived static static-bound inside inside-bound".split(),
)
def test_a_method_is_a_tool_of_what_it_is_bound_to(
    made: Tool[..., Any], schema: dict[str, Any], result: str
) -> None:
    assert made.spec.input_schema == schema
    assert made.invoke(parsed(made, {"book": "x"}), CONTEXT) == made(book="x") == result


# ---------------------------------------------------------------- names in their scopes


class Parcel(BaseModel):
    weight: float


def test_a_string_annotation_means_the_nearest_class_of_that_name() -> None:
    class Parcel(BaseModel):
        label: str

    @tool
    def send(parcel: Parcel) -> None: ...

    assert send.spec.input_schema == closed("parcel", parcel=closed("label", label=STRING))
    assert parsed(send, {"parcel": {"label": "x"}}).values == {"parcel": Parcel(label="x")}


def test_a_string_annotation_does_not_mean_a_callers_class() -> None:
    def defines() -> Tool[..., Any]:
        @tool
        def send(parcel: Parcel) -> None: ...

        return send

    def calls() -> Tool[..., Any]:
        class Parcel(BaseModel):
            label: str

        assert Parcel
        return defines()

    assert calls().spec.input_schema == closed("parcel", parcel=closed("weight", weight=NUMBER))


def test_two_types_of_one_name_are_told_apart() -> None:
    old, new = _order(amount=(int, ...)), _order(price=(float, ...))

    def compare(before: Any, after: Any, again: Any) -> None: ...

    compare.__annotations__ = {"before": old, "after": new, "again": old}
    words = {f"word_{n}": STRING for n in range(8)}

    def item(**own: Any) -> dict[str, Any]:
        return closed(*words, *own, **words, **own)

    def order(name: str) -> dict[str, Any]:
        item = {"$ref": f"#/$defs/{name}"}
        return closed("first", "rest", first=item, rest=array(item))

    schema = tool(compare).spec.input_schema

    assert _unfolded(schema["properties"]["before"], schema) == _unfolded(
        order("Item"), {"$defs": {"Item": item(amount=INTEGER)}}
    )
    assert _unfolded(schema["properties"]["after"], schema) == _unfolded(
        order("Item"), {"$defs": {"Item": item(price=NUMBER)}}
    )
    assert schema["properties"]["again"] == schema["properties"]["before"]


def _order(**field: Any) -> type[BaseModel]:
    """An order of items: each call makes other classes of the same two names."""
    words: Any = {f"word_{n}": (str, ...) for n in range(8)}
    item = create_model("Item", **words, **field)
    return create_model("Order", first=(item, ...), rest=(list[item], ...))  # type: ignore[valid-type]


def _unfolded(node: Any, root: dict[str, Any]) -> Any:
    """A schema with its references followed."""
    if isinstance(node, list):
        return [_unfolded(item, root) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _unfolded(root["$defs"][node["$ref"].removeprefix("#/$defs/")], root)
    return {key: _unfolded(item, root) for key, item in node.items()}


def test_a_partial_is_described_by_the_function_below() -> None:
    made = tool(name="two_of_three")(functools.partial(_three, 1))

    assert made.spec.description == "Take three things."
