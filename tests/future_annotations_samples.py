"""Signatures whose annotations are strings: the same table, from a module that defers them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NewType, NotRequired, TypeVar

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from handrail import Context, tool
from signature_cases import (
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    STRING,
    Case,
    Table,
    array,
    closed,
    maybe,
)

CASES = Table()

T = TypeVar("T")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    sku: str
    count: int = 1


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Box(BaseModel, Generic[T]):
    content: T


@dataclass
class Line:
    sku: str
    count: int = 1


class Change(TypedDict):
    path: str
    text: NotRequired[str]


UserId = NewType("UserId", int)

ITEM = closed("sku", sku=STRING, count={"type": "integer", "default": 1})


@CASES.row(schema=closed("a", a=INTEGER), sent={"a": 1}, values={"a": 1})
def deferred_integer(a: int) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=NUMBER, b={"type": "boolean", "default": False}),
    sent={"a": 1},
    values={"a": 1.0},
)
def deferred_scalars(a: float, *, b: bool = False) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=maybe(STRING), b={**maybe(INTEGER), "default": None}),
    sent={"a": None, "b": 2},
    values={"a": None, "b": 2},
)
def deferred_optionals(a: str | None, b: int | None = None) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        "b",
        a={"type": "string", "enum": ["fast", "slow"]},
        b={"type": "string", "enum": ["red", "blue"]},
    ),
    sent={"a": "fast", "b": "red"},
    values={"a": "fast", "b": Color.RED},
)
def deferred_closed_sets(a: Literal["fast", "slow"], b: Color) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "integer", "description": "How many.", "minimum": 1}),
    sent={"a": 1},
    values={"a": 1},
)
def deferred_annotated(a: Annotated[int, Field(ge=1, description="How many.")]) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        "b",
        "c",
        a=array({"type": "string", "format": "path"}),
        b={"type": "object", "additionalProperties": {"type": "string", "format": "date"}},
        c={"type": "string", "format": "date-time"},
    ),
    sent={"a": ["x/y"], "b": {"k": "2026-01-31"}, "c": "2026-01-31T10:30:00Z"},
    values={
        "a": [Path("x/y")],
        "b": {"k": date(2026, 1, 31)},
        "c": datetime(2026, 1, 31, 10, 30, tzinfo=UTC),
    },
)
def deferred_collections(a: list[Path], b: dict[str, date], c: datetime) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=ITEM), sent={"a": {"sku": "x"}}, values={"a": Item(sku="x")})
def deferred_model(a: Item) -> Any:
    return locals()


@CASES.row(
    schema={
        **closed("a", a={"$ref": "#/$defs/Node"}),
        "$defs": {
            "Node": closed(
                "name",
                name=STRING,
                children={"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []},
            )
        },
    },
    sent={"a": {"name": "top", "children": [{"name": "leaf"}]}},
    values={"a": Node(name="top", children=[Node(name="leaf")])},
)
def deferred_recursive_model(a: Node) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=closed("content", content=array(INTEGER))),
    sent={"a": {"content": [1]}},
    values={"a": Box[list[int]](content=[1])},
)
def deferred_generic_model(a: Box[list[int]]) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=ITEM), sent={"a": {"sku": "x"}}, values={"a": Line("x")})
def deferred_data_class(a: Line) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=array(closed("path", path=STRING, text=STRING))),
    sent={"a": [{"path": "x"}, {"path": "y", "text": ""}]},
    values={"a": [{"path": "x"}, {"path": "y", "text": ""}]},
)
def deferred_typed_dict(a: list[Change]) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=INTEGER), sent={"a": 7}, values={"a": UserId(7)})
def deferred_new_type(a: UserId) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", "b", a=INTEGER, b=STRING, c={"type": "integer", "default": 3}),
    sent={"a": 1, "b": "x"},
    values={"a": 1, "b": "x"},
)
def deferred_kinds_of_parameters(a: int, /, *, b: str, c: int = 3) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=BOOLEAN), sent={"a": True}, values={"a": True}, context="ctx")
def deferred_context(ctx: Context, *, a: bool) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=INTEGER), sent={"a": 1}, values={"a": 1}, context="ctx")
def deferred_context_or_none(a: int, ctx: Context | None = None) -> Any:
    return locals()


@CASES.row(schema=closed("a", a={"anyOf": [ITEM, NULL]}), sent={"a": None}, values={"a": None})
async def deferred_and_asynchronous(a: Item | None) -> Any:
    return locals()


def local_cases() -> list[Case]:
    """Rows about classes that only this function's body knows; decorated where they are known."""

    class Leaf(BaseModel):
        color: Color
        next: Leaf | None = None

    class Coin(TypedDict):
        value: int

    def local_model(a: Leaf, b: list[Coin]) -> Any:
        return locals()

    def local_quoted(a: "Leaf | None") -> Any:  # noqa: UP037  quoted and deferred
        return locals()

    leaf = closed(
        "color",
        color={"type": "string", "enum": ["red", "blue"]},
        next={"anyOf": [{"$ref": "#/$defs/Leaf"}, NULL], "default": None},
    )
    return [
        Case(
            id="local_model",
            fn=local_model,
            ready=tool(local_model),
            schema={
                **closed(
                    "a",
                    "b",
                    a={"$ref": "#/$defs/Leaf"},
                    b=array(closed("value", value=INTEGER)),
                ),
                "$defs": {"Leaf": leaf},
            },
            sent={"a": {"color": "red", "next": {"color": "blue"}}, "b": [{"value": 1}]},
            values={
                "a": Leaf(color=Color.RED, next=Leaf(color=Color.BLUE)),
                "b": [{"value": 1}],
            },
        ),
        Case(
            id="local_model_quoted",
            fn=local_quoted,
            ready=tool(local_quoted),
            schema={
                **closed("a", a={"anyOf": [{"$ref": "#/$defs/Leaf"}, NULL]}),
                "$defs": {"Leaf": leaf},
            },
            sent={"a": {"color": "red"}},
            values={"a": Leaf(color=Color.RED)},
        ),
    ]


CASES += local_cases()
