"""Signatures with evaluated annotations: a row for each, as a model is told and as it sends."""

import enum
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypeAlias,
    TypeVar,
    Union,
)
from uuid import UUID

from annotated_types import Ge, Le, MinLen
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PositiveInt,
    RootModel,
    StringConstraints,
    computed_field,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypeAliasType, TypedDict

from handrail import Context
from signature_cases import (
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    STRING,
    Table,
    array,
    closed,
    maybe,
)

CASES = Table()

# ---------------------------------------------------------------- one value


@CASES.row(schema=closed(), sent={}, values={})
def nothing() -> Any:
    return locals()


@CASES.row(schema=closed("a", a=INTEGER), sent={"a": -3}, values={"a": -3})
def integer(a: int) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=INTEGER), sent={"a": 2**70}, values={"a": 2**70})
def integer_beyond_64_bits(a: int) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=NUMBER), sent={"a": 2.5}, values={"a": 2.5})
def number(a: float) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=NUMBER), sent={"a": 2}, values={"a": 2.0})
def number_without_a_fraction(a: float) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=STRING), sent={"a": 'é "q": \n'}, values={"a": 'é "q": \n'})
def text(a: str) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=STRING), sent={"a": ""}, values={"a": ""})
def text_that_is_empty(a: str) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=BOOLEAN), sent={"a": False}, values={"a": False})
def boolean(*, a: bool) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=NULL), sent={"a": None}, values={"a": None})
def null(a: None) -> Any:
    return locals()


@CASES.row(schema=closed("a", a={}), sent={"a": [1, {"b": None}]}, values={"a": [1, {"b": None}]})
def anything(a: Any) -> Any:
    return locals()


@CASES.row(schema=closed("a", a={}), sent={"a": {"b": [1.5, "x"]}}, values={"a": {"b": [1.5, "x"]}})
def any_json(a: JsonValue) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "string", "format": "binary"}),
    sent={"a": "aé"},
    values={"a": b"a\xc3\xa9"},
)
def bytes_as_text(a: bytes) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "string", "format": "path"}),
    sent={"a": "src/a.py"},
    values={"a": Path("src/a.py")},
)
def path(a: Path) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "string", "format": "uuid"}),
    sent={"a": "00000000-0000-4000-8000-000000000001"},
    values={"a": UUID("00000000-0000-4000-8000-000000000001")},
)
def uuid(a: UUID) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", "b", a={"anyOf": [NUMBER, STRING]}, b={"anyOf": [NUMBER, STRING]}),
    sent={"a": "1.10", "b": 2.5},
    values={"a": Decimal("1.10"), "b": Decimal("2.5")},
)
def decimals(a: Decimal, b: Decimal) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "string", "format": "date-time"}),
    sent={"a": "2026-01-31T10:30:00Z"},
    values={"a": datetime(2026, 1, 31, 10, 30, tzinfo=UTC)},
)
def moment(a: datetime) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "string", "format": "date"}),
    sent={"a": "2026-01-31"},
    values={"a": date(2026, 1, 31)},
)
def day(a: date) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "string", "format": "time"}),
    sent={"a": "10:30:00"},
    values={"a": time(10, 30)},
)
def time_of_day(a: time) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "string", "format": "duration"}),
    sent={"a": "PT1H30M"},
    values={"a": timedelta(hours=1, minutes=30)},
)
def duration(a: timedelta) -> Any:
    return locals()


# ---------------------------------------------------------------- bounds


@CASES.row(
    schema=closed("a", a={"type": "integer", "minimum": 1, "maximum": 10}),
    sent={"a": 10},
    values={"a": 10},
)
def integer_within_bounds(a: Annotated[int, Field(ge=1, le=10)]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "integer", "minimum": 1, "maximum": 10}),
    sent={"a": 1},
    values={"a": 1},
)
def integer_within_bounds_of_annotated_types(a: Annotated[int, Ge(1), Le(10)]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "number", "exclusiveMinimum": 0.0, "exclusiveMaximum": 1.0}),
    sent={"a": 0.5},
    values={"a": 0.5},
)
def number_between_bounds(a: Annotated[float, Field(gt=0.0, lt=1.0)]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "integer", "multipleOf": 5}), sent={"a": 15}, values={"a": 15}
)
def multiple(a: Annotated[int, Field(multiple_of=5)]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "integer", "exclusiveMinimum": 0}), sent={"a": 1}, values={"a": 1}
)
def positive_integer(a: PositiveInt) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 8}),
    sent={"a": "abc"},
    values={"a": "abc"},
)
def constrained_text(
    a: Annotated[str, Field(min_length=2, max_length=8, pattern="^[a-z]+$")],
) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "string", "minLength": 1}),
    sent={"a": "  abc "},
    values={"a": "abc"},
)
def stripped_text(a: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=STRING), sent={"a": "abc"}, values={"a": "ABC"})
def text_that_a_validator_changes(a: Annotated[str, AfterValidator(str.upper)]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=array(STRING, minItems=1, maxItems=3)),
    sent={"a": ["x"]},
    values={"a": ["x"]},
)
def list_within_bounds(a: Annotated[list[str], Field(min_length=1, max_length=3)]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=array({"type": "string", "minLength": 1})),
    sent={"a": ["x", "y"]},
    values={"a": ["x", "y"]},
)
def list_of_constrained_text(a: list[Annotated[str, MinLen(1)]]) -> Any:
    return locals()


# ---------------------------------------------------------------- closed sets


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.StrEnum):
    """How loud it is."""

    LOW = "low"
    HIGH = "high"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


@CASES.row(
    schema=closed("a", a={"type": "string", "enum": ["fast", "slow"]}),
    sent={"a": "slow"},
    values={"a": "slow"},
)
def literal_words(a: Literal["fast", "slow"]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "string", "const": "only"}),
    sent={"a": "only"},
    values={"a": "only"},
)
def literal_word(a: Literal["only"]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "integer", "enum": [1, 2]}), sent={"a": 2}, values={"a": 2}
)
def literal_integers(a: Literal[1, 2]) -> Any:
    return locals()


@CASES.row(schema=closed("a", a={"enum": [1, "one"]}), sent={"a": "one"}, values={"a": "one"})
def literals_of_two_types(a: Literal[1, "one"]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "boolean", "const": True}), sent={"a": True}, values={"a": True}
)
def literal_boolean(a: Literal[True]) -> Any:
    return locals()


@CASES.row(schema=closed("a", a={"enum": ["x", None]}), sent={"a": None}, values={"a": None})
def literal_with_null(a: Literal["x", None]) -> Any:  # noqa: PYI061  the older spelling
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "string", "enum": ["red", "blue"]}),
    sent={"a": "blue"},
    values={"a": Color.BLUE},
)
def enum_of_text(a: Color) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a", a={"type": "string", "description": "How loud it is.", "enum": ["low", "high"]}
    ),
    sent={"a": "high"},
    values={"a": Level.HIGH},
)
def str_enum_with_a_docstring(a: Level) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "integer", "enum": [1, 2]}),
    sent={"a": 2},
    values={"a": Size.LARGE},
)
def int_enum(a: Size) -> Any:
    return locals()


@CASES.row(schema=closed("a", a={"enum": [1, "two"]}), sent={"a": 1}, values={"a": Mixed.ONE})
def enum_of_two_types(a: Mixed) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=array({"type": "string", "enum": ["red", "blue"]})),
    sent={"a": ["red", "blue"]},
    values={"a": [Color.RED, Color.BLUE]},
)
def list_of_enums(a: list[Color]) -> Any:
    return locals()


# ---------------------------------------------------------------- one or another


@CASES.row(schema=closed("a", a=maybe(STRING)), sent={"a": None}, values={"a": None})
def text_or_null(a: str | None) -> Any:
    return locals()


@CASES.row(
    schema=closed("b", a={**maybe(INTEGER), "default": None}, b=INTEGER),
    sent={"b": 2},
    values={"b": 2},
)
def optional_left_out(*, a: int | None = None, b: int) -> Any:
    return locals()


@CASES.row(
    schema=closed(a={**maybe(INTEGER), "default": None}), sent={"a": None}, values={"a": None}
)
def optional_sent_as_null(a: Optional[int] = None) -> Any:  # noqa: UP045  the older spelling
    return locals()


@CASES.row(schema=closed("a", a={"anyOf": [INTEGER, STRING]}), sent={"a": "3"}, values={"a": "3"})
def integer_or_text(a: Union[int, str]) -> Any:  # noqa: UP007  the older spelling
    return locals()


@CASES.row(schema=closed("a", a={"anyOf": [STRING, INTEGER]}), sent={"a": 3}, values={"a": 3})
def text_or_integer(a: str | int) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", "b", a={"anyOf": [INTEGER, NUMBER]}, b={"anyOf": [INTEGER, NUMBER]}),
    sent={"a": 1, "b": 1.5},
    values={"a": 1, "b": 1.5},
)
def integer_or_number(a: int | float, b: int | float) -> Any:  # noqa: PYI041  both are told
    return locals()


@CASES.row(
    schema=closed("a", a={"anyOf": [STRING, array(STRING)]}),
    sent={"a": ["x"]},
    values={"a": ["x"]},
)
def text_or_list(a: str | list[str]) -> Any:
    return locals()


@CASES.row(
    schema=closed(a={"anyOf": [INTEGER, STRING, NULL], "default": None}),
    sent={"a": "x"},
    values={"a": "x"},
)
def union_of_three(a: int | str | None = None) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        a=maybe({"type": "string", "enum": ["red", "blue"]}),
        b={**maybe(NUMBER), "default": 1.0},
    ),
    sent={"a": "red", "b": 2},
    values={"a": Color.RED, "b": 2.0},
)
def optional_with_another_default(a: Color | None, b: float | None = 1) -> Any:
    return locals()


# ---------------------------------------------------------------- many


class Point(NamedTuple):
    x: int
    label: str = ""


@CASES.row(schema=closed("a", a=array(INTEGER)), sent={"a": [1, 2]}, values={"a": [1, 2]})
def list_of_integers(a: list[int]) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=array(INTEGER)), sent={"a": []}, values={"a": []})
def list_that_is_empty(a: list[int]) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=array({})), sent={"a": [1, "x"]}, values={"a": [1, "x"]})
def list_of_anything(a: list) -> Any:  # type: ignore[type-arg]
    return locals()


@CASES.row(
    schema=closed("a", a=array(array(NUMBER))),
    sent={"a": [[1, 2.5], []]},
    values={"a": [[1.0, 2.5], []]},
)
def list_of_lists(a: list[list[float]]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=array(maybe(INTEGER))), sent={"a": [1, None]}, values={"a": [1, None]}
)
def list_with_nulls(a: list[int | None]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=array({"type": "string", "format": "date"})),
    sent={"a": ["2026-01-31"]},
    values={"a": [date(2026, 1, 31)]},
)
def list_of_days(a: list[date]) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=array(INTEGER)), sent={"a": [1, 2]}, values={"a": [1, 2]})
def sequence(a: Sequence[int]) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=array(INTEGER)), sent={"a": [1]}, values={"a": deque([1])})
def double_ended_queue(a: deque[int]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=array(STRING, uniqueItems=True)),
    sent={"a": ["x", "y"]},
    values={"a": {"x", "y"}},
)
def set_of_text(a: set[str]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=array(INTEGER, uniqueItems=True)),
    sent={"a": [1, 2]},
    values={"a": frozenset({1, 2})},
)
def frozen_set(a: frozenset[int]) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        a={"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2},
    ),
    sent={"a": [1, "x"]},
    values={"a": (1, "x")},
)
def pair(a: tuple[int, str]) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=array(INTEGER)), sent={"a": [1, 2]}, values={"a": (1, 2)})
def tuple_of_any_length(a: tuple[int, ...]) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        a=array({"type": "array", "prefixItems": [NUMBER, NUMBER], "minItems": 2, "maxItems": 2}),
    ),
    sent={"a": [[1, 2], [3.5, 4]]},
    values={"a": [(1.0, 2.0), (3.5, 4.0)]},
)
def list_of_pairs(a: list[tuple[float, float]]) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        a={
            "type": "array",
            "prefixItems": [INTEGER, {"type": "string", "default": ""}],
            "minItems": 1,
            "maxItems": 2,
        },
    ),
    sent={"a": [1, "x"]},
    values={"a": Point(1, "x")},
)
def named_tuple(a: Point) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "object", "additionalProperties": INTEGER}),
    sent={"a": {"x": 1, "": 2}},
    values={"a": {"x": 1, "": 2}},
)
def mapping_of_integers(a: dict[str, int]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "object"}),
    sent={"a": {"x": [None, {"y": 1}]}},
    values={"a": {"x": [None, {"y": 1}]}},
)
def mapping_of_anything(a: dict[str, Any]) -> Any:
    return locals()


@CASES.row(schema=closed("a", a={"type": "object"}), sent={"a": {"x": 1}}, values={"a": {"x": 1}})
def bare_mapping(a: dict) -> Any:  # type: ignore[type-arg]
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "object", "additionalProperties": array(NUMBER)}),
    sent={"a": {"x": [1]}},
    values={"a": {"x": [1.0]}},
)
def mapping_of_lists(a: Mapping[str, list[float]]) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        a={
            "type": "object",
            "additionalProperties": INTEGER,
            "propertyNames": {"type": "string", "enum": ["red", "blue"]},
        },
    ),
    sent={"a": {"red": 1}},
    values={"a": {Color.RED: 1}},
)
def mapping_from_enum(a: dict[Color, int]) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        a={
            "type": "object",
            "additionalProperties": {"type": "object", "additionalProperties": BOOLEAN},
        },
    ),
    sent={"a": {"x": {"y": True}}},
    values={"a": {"x": {"y": True}}},
)
def mapping_of_mappings(a: dict[str, dict[str, bool]]) -> Any:
    return locals()


# ---------------------------------------------------------------- models


T = TypeVar("T")
S = TypeVar("S")


class Item(BaseModel):
    sku: str
    count: int = 1


class Order(BaseModel):
    """What a customer wants."""

    id: int
    items: list[Item]
    note: str | None = None


class Described(BaseModel):
    name: str = Field(description="Who it is.", min_length=1)
    age: Annotated[int, Field(description="In years.", ge=0)] = 0


class Aliased(BaseModel):
    user_name: str = Field(alias="userName")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    a: int


class Ignoring(BaseModel):
    model_config = ConfigDict(extra="ignore")

    a: int


class Frozen(BaseModel, frozen=True):
    a: int


class Derived(Item):
    price: float


class Squared(BaseModel):
    side: int

    @computed_field
    def area(self) -> int:
        return self.side**2


class Empty(BaseModel):
    pass


class Numbers(RootModel[list[int]]):
    pass


class Box(BaseModel, Generic[T]):
    content: T


class Two(BaseModel, Generic[S, T]):
    first: S
    second: T


class Node(BaseModel):
    name: str
    children: list["Node"] = []


class Folder(BaseModel):
    files: list["Entry"]


class Entry(BaseModel):
    inside: Folder | None = None


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float


ITEM = closed("sku", sku=STRING, count={"type": "integer", "default": 1})
CIRCLE = closed("kind", "radius", kind={"type": "string", "const": "circle"}, radius=NUMBER)
SQUARE = closed("kind", "side", kind={"type": "string", "const": "square"}, side=NUMBER)


@CASES.row(
    schema=closed("a", a=ITEM),
    sent={"a": {"sku": "x"}},
    values={"a": Item(sku="x")},
)
def model(a: Item) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        a={
            "type": "object",
            "description": "What a customer wants.",
            "properties": {
                "id": INTEGER,
                "items": array(ITEM),
                "note": {**maybe(STRING), "default": None},
            },
            "required": ["id", "items"],
            "additionalProperties": False,
        },
    ),
    sent={"a": {"id": 1, "items": [{"sku": "x", "count": 2}, {"sku": "y"}], "note": None}},
    values={"a": Order(id=1, items=[Item(sku="x", count=2), Item(sku="y")], note=None)},
)
def nested_model(a: Order) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        a=closed(
            "name",
            name={"type": "string", "description": "Who it is.", "minLength": 1},
            age={"type": "integer", "description": "In years.", "minimum": 0, "default": 0},
        ),
    ),
    sent={"a": {"name": "Ada", "age": 36}},
    values={"a": Described(name="Ada", age=36)},
)
def model_with_described_fields(a: Described) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=closed("userName", userName=STRING)),
    sent={"a": {"userName": "ada"}},
    values={"a": Aliased(userName="ada")},
)
def model_with_an_alias(a: Aliased) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={**closed("a", a=INTEGER), "additionalProperties": True}),
    sent={"a": {"a": 1, "b": [2]}},
    values={"a": Open.model_validate({"a": 1, "b": [2]})},
)
def model_open_to_more(a: Open) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=closed("a", a=INTEGER)),
    sent={"a": {"a": 1}},
    values={"a": Ignoring(a=1)},
)
def model_that_would_ignore_more(a: Ignoring) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=array(closed("a", a=INTEGER), uniqueItems=True)),
    sent={"a": [{"a": 1}]},
    values={"a": {Frozen(a=1)}},
)
def set_of_frozen_models(a: set[Frozen]) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        a=closed("sku", "price", sku=STRING, count={"type": "integer", "default": 1}, price=NUMBER),
    ),
    sent={"a": {"price": 2, "sku": "x"}},
    values={"a": Derived(sku="x", price=2.0)},
)
def model_with_a_base(a: Derived) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=closed("side", side=INTEGER)),
    sent={"a": {"side": 3}},
    values={"a": Squared(side=3)},
)
def model_with_a_computed_field(a: Squared) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=closed()), sent={"a": {}}, values={"a": Empty()})
def model_without_fields(a: Empty) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=array(INTEGER)), sent={"a": [1, 2]}, values={"a": Numbers([1, 2])})
def model_of_a_list(a: Numbers) -> Any:
    return locals()


@CASES.row(
    schema=closed(a={"anyOf": [ITEM, NULL], "default": None}),
    sent={"a": {"sku": "x"}},
    values={"a": Item(sku="x")},
)
def optional_model(a: Item | None = None) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=array(ITEM)),
    sent={"a": [{"sku": "x"}, {"sku": "y", "count": 0}]},
    values={"a": [Item(sku="x"), Item(sku="y", count=0)]},
)
def list_of_models(a: list[Item]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "object", "additionalProperties": ITEM}),
    sent={"a": {"first": {"sku": "x"}}},
    values={"a": {"first": Item(sku="x")}},
)
def mapping_of_models(a: dict[str, Item]) -> Any:
    return locals()


@CASES.row(
    schema={
        **closed(
            "a",
            "b",
            "c",
            a={"$ref": "#/$defs/Item"},
            b={"$ref": "#/$defs/Item"},
            c=array({"$ref": "#/$defs/Item"}),
        ),
        "$defs": {"Item": ITEM},
    },
    sent={"a": {"sku": "x"}, "b": {"sku": "y"}, "c": []},
    values={"a": Item(sku="x"), "b": Item(sku="y"), "c": []},
)
def model_told_once_and_used_thrice(a: Item, b: Item, c: list[Item]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=closed("content", content=INTEGER)),
    sent={"a": {"content": 3}},
    values={"a": Box[int](content=3)},
)
def generic_model(a: Box[int]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=closed("content", content=array(closed("content", content=STRING)))),
    sent={"a": {"content": [{"content": "x"}]}},
    values={"a": Box[list[Box[str]]](content=[Box[str](content="x")])},
)
def generic_model_of_generic_models(a: Box[list[Box[str]]]) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        "b",
        a=closed("first", "second", first=INTEGER, second=STRING),
        b=closed("first", "second", first=STRING, second=INTEGER),
    ),
    sent={"a": {"first": 1, "second": "x"}, "b": {"first": "y", "second": 2}},
    values={"a": Two[int, str](first=1, second="x"), "b": Two[str, int](first="y", second=2)},
)
def generic_model_twice(a: Two[int, str], b: Two[str, int]) -> Any:
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
def recursive_model(a: Node) -> Any:
    return locals()


@CASES.row(
    schema={
        **closed("a", a={"$ref": "#/$defs/Folder"}),
        "$defs": {
            "Entry": closed(inside={"anyOf": [{"$ref": "#/$defs/Folder"}, NULL], "default": None}),
            "Folder": closed("files", files=array({"$ref": "#/$defs/Entry"})),
        },
    },
    sent={"a": {"files": [{}, {"inside": {"files": []}}]}},
    values={"a": Folder(files=[Entry(), Entry(inside=Folder(files=[]))])},
)
def models_that_hold_each_other(a: Folder) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"anyOf": [CIRCLE, SQUARE]}),
    sent={"a": {"kind": "square", "side": 2}},
    values={"a": Square(kind="square", side=2.0)},
)
def union_of_models(a: Circle | Square) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"oneOf": [CIRCLE, SQUARE]}),
    sent={"a": {"kind": "circle", "radius": 1.5}},
    values={"a": Circle(kind="circle", radius=1.5)},
)
def tagged_union(a: Annotated[Circle | Square, Field(discriminator="kind")]) -> Any:
    return locals()


# ---------------------------------------------------------------- dataclasses, typed dicts


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Basket:
    """What is bought together."""

    lines: list[Line] = field(default_factory=list)
    owner: str


@pydantic_dataclass
class Checked:
    a: Annotated[int, Field(gt=0)]


@dataclass
class Tree:
    name: str
    below: list["Tree"] = field(default_factory=list)


class Total(TypedDict):
    a: int
    b: str


class Partly(TypedDict, total=False):
    a: Required[int]
    b: str


class Mostly(TypedDict):
    """Some of it."""

    a: int
    b: NotRequired[list[int]]


class Outer(TypedDict):
    inner: Total


LINE = closed("sku", sku=STRING, count={"type": "integer", "default": 1})


@CASES.row(schema=closed("a", a=LINE), sent={"a": {"sku": "x"}}, values={"a": Line("x")})
def data_class(a: Line) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        a={
            "type": "object",
            "description": "What is bought together.",
            "properties": {"lines": array(LINE), "owner": STRING},
            "required": ["owner"],
            "additionalProperties": False,
        },
    ),
    sent={"a": {"lines": [{"sku": "x", "count": 2}], "owner": "ada"}},
    values={"a": Basket(lines=[Line("x", 2)], owner="ada")},
)
def nested_data_class(a: Basket) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=closed("a", a={"type": "integer", "exclusiveMinimum": 0})),
    sent={"a": {"a": 1}},
    values={"a": Checked(a=1)},
)
def data_class_with_bounds(a: Checked) -> Any:
    return locals()


@CASES.row(
    schema={
        **closed("a", a={"$ref": "#/$defs/Tree"}),
        "$defs": {"Tree": closed("name", name=STRING, below=array({"$ref": "#/$defs/Tree"}))},
    },
    sent={"a": {"name": "top", "below": [{"name": "leaf"}]}},
    values={"a": Tree("top", [Tree("leaf")])},
)
def recursive_data_class(a: Tree) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=closed("a", "b", a=INTEGER, b=STRING)),
    sent={"a": {"a": 1, "b": "x"}},
    values={"a": {"a": 1, "b": "x"}},
)
def typed_dict(a: Total) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=closed("a", a=INTEGER, b=STRING)),
    sent={"a": {"a": 1}},
    values={"a": {"a": 1}},
)
def typed_dict_not_total(a: Partly) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        a={
            "type": "object",
            "description": "Some of it.",
            "properties": {"a": INTEGER, "b": array(INTEGER)},
            "required": ["a"],
            "additionalProperties": False,
        },
    ),
    sent={"a": {"a": 1, "b": [2]}},
    values={"a": {"a": 1, "b": [2]}},
)
def typed_dict_with_a_key_not_required(a: Mostly) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=array(closed("inner", inner=closed("a", "b", a=INTEGER, b=STRING)))),
    sent={"a": [{"inner": {"a": 1, "b": "x"}}]},
    values={"a": [{"inner": {"a": 1, "b": "x"}}]},
)
def list_of_nested_typed_dicts(a: list[Outer]) -> Any:
    return locals()


# ---------------------------------------------------------------- other names of types


UserId = NewType("UserId", int)
Words: TypeAlias = list[str]
Ratio = Annotated[float, Field(ge=0, le=1, description="A share of the whole.")]
Nested = TypeAliasType("Nested", "list[Nested] | int")


@CASES.row(schema=closed("a", a=INTEGER), sent={"a": 7}, values={"a": UserId(7)})
def new_type(a: UserId) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=array(STRING)), sent={"a": ["x"]}, values={"a": ["x"]})
def type_alias(a: Words) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        a={"type": "number", "description": "A share of the whole.", "minimum": 0, "maximum": 1},
    ),
    sent={"a": 1},
    values={"a": 1.0},
)
def annotated_alias(a: Ratio) -> Any:
    return locals()


@CASES.row(
    schema={
        **closed("a", a={"$ref": "#/$defs/Nested"}),
        "$defs": {"Nested": {"anyOf": [array({"$ref": "#/$defs/Nested"}), INTEGER]}},
    },
    sent={"a": [1, [2, []]]},
    values={"a": [1, [2, []]]},
)
def recursive_alias(a: Nested) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "integer", "description": "How many."}),
    sent={"a": 1},
    values={"a": 1},
)
def annotated_description(a: Annotated[int, Field(description="How many.")]) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=INTEGER), sent={"a": 1}, values={"a": 1})
def annotated_with_metadata_of_others(a: Annotated[int, "words for somebody else", [1]]) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a={"type": "integer", "examples": [3]}), sent={"a": 1}, values={"a": 1}
)
def annotated_examples(a: Annotated[int, Field(examples=[3])]) -> Any:
    return locals()


# ---------------------------------------------------------------- kinds of parameters, defaults


@CASES.row(
    schema=closed("a", "b", a=INTEGER, b=STRING, c={"type": "integer", "default": 3}),
    sent={"a": 1, "b": "x"},
    values={"a": 1, "b": "x"},
)
def keyword_only(*, a: int, b: str, c: int = 3) -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=INTEGER, b={"type": "integer", "default": 2}),
    sent={"a": 1},
    values={"a": 1},
)
def positional_only(a: int, b: int = 2, /) -> Any:
    return locals()


@CASES.row(
    schema=closed(a={"type": "integer", "default": 1}, b={"type": "integer", "default": 2}),
    sent={"b": 5},
    values={"b": 5},
)
def positional_only_with_the_first_left_out(a: int = 1, b: int = 2, /) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        "a",
        "c",
        a=INTEGER,
        b={"type": "integer", "default": 2},
        c=INTEGER,
        d={"type": "integer", "default": 4},
    ),
    sent={"d": 40, "c": 30, "a": 10},
    values={"a": 10, "c": 30, "d": 40},
)
def every_kind_of_parameter(a: int, /, b: int = 2, *, c: int, d: int = 4) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        a={"type": "integer", "default": 1},
        b={"type": "number", "default": 0.5},
        c={"type": "string", "default": "x"},
        d={"type": "boolean", "default": False},
    ),
    sent={},
    values={},
)
def plain_defaults(a: int = 1, b: float = 0.5, c: str = "x", *, d: bool = False) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        a={"type": "array", "items": INTEGER, "default": [1]},
        b={"type": "object", "additionalProperties": INTEGER, "default": {"x": 1}},
        c={
            "type": "array",
            "prefixItems": [INTEGER, INTEGER],
            "minItems": 2,
            "maxItems": 2,
            "default": [1, 2],
        },
    ),
    sent={"a": []},
    values={"a": []},
)
def collection_defaults(
    a: list[int] = [1],  # noqa: B006  never changed
    b: dict[str, int] = {"x": 1},  # noqa: B006
    c: tuple[int, int] = (1, 2),
) -> Any:
    return locals()


@CASES.row(
    schema=closed(
        a={"type": "string", "enum": ["red", "blue"], "default": "blue"},
        b={"type": "string", "format": "path", "default": "."},
        c={"type": "string", "format": "date", "default": "2026-01-31"},
        d={"type": "string", "format": "duration", "default": "PT30S"},
        e={"anyOf": [NUMBER, STRING], "default": "0.10"},
    ),
    sent={"a": "red"},
    values={"a": Color.RED},
)
def typed_defaults(
    a: Color = Color.BLUE,
    b: Path = Path(),
    *,
    c: date = date(2026, 1, 31),
    d: timedelta = timedelta(seconds=30),
    e: Decimal = Decimal("0.10"),
) -> Any:
    return locals()


@CASES.row(
    schema=closed(a={**ITEM, "default": {"sku": "x", "count": 1}}),
    sent={},
    values={},
)
def model_as_default(a: Item = Item(sku="x")) -> Any:  # noqa: B008  never changed
    return locals()


@CASES.row(
    schema=closed(
        "type",
        "title",
        "default",
        "properties",
        "items",
        "description",
        type=STRING,
        title=STRING,
        default=INTEGER,
        properties=array(STRING),
        items={"type": "object", "additionalProperties": STRING},
        description=STRING,
    ),
    sent={
        "type": "t",
        "title": "u",
        "default": 1,
        "properties": ["title"],
        "items": {"title": "v"},
        "description": "w",
    },
    values={
        "type": "t",
        "title": "u",
        "default": 1,
        "properties": ["title"],
        "items": {"title": "v"},
        "description": "w",
    },
)
def names_that_are_keywords_of_a_schema(
    *,
    type: str,  # noqa: A002  the keyword is the point
    title: str,
    default: int,
    properties: list[str],
    items: dict[str, str],
    description: str,
) -> Any:
    return locals()


# ---------------------------------------------------------------- context


@CASES.row(schema=closed("a", a=INTEGER), sent={"a": 1}, values={"a": 1}, context="context")
def context_first(context: Context, a: int) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=INTEGER), sent={"a": 1}, values={"a": 1}, context="ctx")
def context_by_keyword(a: int, *, ctx: Context) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=INTEGER), sent={"a": 1}, values={"a": 1}, context="ctx")
def context_by_position(ctx: Context, a: int, /) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=INTEGER), sent={"a": 1}, values={"a": 1}, context="ctx")
def context_annotated(a: int, ctx: Annotated[Context, "who asks"]) -> Any:
    return locals()


@CASES.row(schema=closed("a", a=INTEGER), sent={"a": 1}, values={"a": 1}, context="ctx")
def context_or_none(a: int, ctx: Context | None = None) -> Any:
    return locals()


@CASES.row(schema=closed(), sent={}, values={}, context="ctx")
def context_alone(ctx: Context) -> Any:
    return locals()


# ---------------------------------------------------------------- forward references, async


@CASES.row(schema=closed("a", a=maybe(STRING)), sent={"a": "x"}, values={"a": "x"})
def quoted_union(a: "str | None") -> Any:
    return locals()


@CASES.row(
    schema=closed("a", a=array(closed("x", x=INTEGER))),
    sent={"a": [{"x": 1}]},
    values={},
)
def defined_below(a: list["Later"]) -> Any:
    return locals()


class Later(BaseModel):
    x: int


CASES[-1].values["a"] = [Later(x=1)]


@CASES.row(
    schema=closed("a", a=INTEGER, b={**maybe(STRING), "default": None}),
    sent={"a": 1},
    values={"a": 1},
)
async def asynchronous(a: int, b: str | None = None) -> Any:
    return locals()
