"""Arguments under attack: random types and values, and everything that JSON readers let pass.

Each guard has a control: a weak reader that the same texts get past.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar
from uuid import UUID

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    TypeAdapter,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

from handrail import Args, Failure, FailureKind, Tool, tool
from signature_cases import kinds

# ---------------------------------------------------------------- random types with their values


class Sort(NamedTuple):
    """A type, and the values of it."""

    annotation: Any
    values: st.SearchStrategy[Any]


class Suit(enum.Enum):
    SPADES = "spades"
    HEARTS = "hearts"


class Grade(enum.IntEnum):
    LOW = 1
    HIGH = 2


FORBID = ConfigDict(extra="forbid")
NAMES = ("alpha", "beta", "gamma", "delta")
T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    model_config = FORBID

    content: T


class Node(BaseModel):
    model_config = FORBID

    name: str
    below: list[Node] = Field(default=[])


WORDS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    st.text(st.sampled_from('":\\ {}[],é\n'), max_size=8),  # what JSON itself is written with
)
KEYS = st.text(st.sampled_from("abcxyz"), min_size=1, max_size=3)
UTC_MOMENTS = st.datetimes(timezones=st.just(UTC))

SCALARS = st.sampled_from(
    [
        Sort(int, st.integers(-(2**70), 2**70)),
        Sort(float, st.floats(allow_nan=False, allow_infinity=False)),
        Sort(bool, st.booleans()),
        Sort(str, WORDS),
        Sort(bytes, WORDS.map(str.encode)),
        Sort(date, st.dates()),
        Sort(datetime, UTC_MOMENTS),
        Sort(time, st.times()),
        Sort(timedelta, st.timedeltas(timedelta(days=-999), timedelta(days=999))),
        Sort(UUID, st.uuids()),
        Sort(Decimal, st.decimals(-(10**9), 10**9, allow_nan=False, places=3)),
        Sort(Suit, st.sampled_from(Suit)),
        Sort(Grade, st.sampled_from(Grade)),
        Sort(Literal["a", "b"], st.sampled_from("ab")),
        Sort(Literal[1, 2, "one"], st.sampled_from([1, 2, "one"])),
        Sort(Annotated[int, Field(ge=0, le=9)], st.integers(0, 9)),
        Sort(Annotated[str, Field(max_length=8)], WORDS),
        Sort(int | str, st.integers() | WORDS),
        Sort(str | list[int], WORDS | st.lists(st.integers(), max_size=2)),
    ]
)
HASHABLE = st.sampled_from([Sort(int, st.integers()), Sort(str, WORDS), Sort(date, st.dates())])

NODES = st.recursive(
    st.builds(Node, name=WORDS),
    lambda below: st.builds(Node, name=WORDS, below=st.lists(below, max_size=2)),
    max_leaves=4,
)


def bigger(below: st.SearchStrategy[Sort]) -> st.SearchStrategy[Sort]:
    """Types made of types."""
    several = st.lists(below, min_size=1, max_size=3)
    return st.one_of(
        below.map(lambda one: Sort(list[one.annotation], st.lists(one.values, max_size=3))),
        below.map(
            lambda one: Sort(
                dict[str, one.annotation], st.dictionaries(KEYS, one.values, max_size=3)
            )
        ),
        below.map(lambda one: Sort(one.annotation | None, st.none() | one.values)),
        below.map(
            lambda one: Sort(
                tuple[one.annotation, ...], st.lists(one.values, max_size=3).map(tuple)
            )
        ),
        several.map(
            lambda some: Sort(
                tuple[tuple(one.annotation for one in some)],
                st.tuples(*(one.values for one in some)),
            )
        ),
        below.map(
            lambda one: Sort(
                Box[one.annotation],
                one.values.map(lambda value: Box[one.annotation](content=value)),
            )
        ),
        several.map(_model),
        several.map(_data_class),
        several.map(_typed_dict),
    )


def _model(some: list[Sort]) -> Sort:
    named = dict(zip(NAMES, some, strict=False))
    fields: Any = {name: (one.annotation, ...) for name, one in named.items()}
    made = create_model("Made", __config__=FORBID, **fields)
    return Sort(made, st.builds(made, **{name: one.values for name, one in named.items()}))


def _data_class(some: list[Sort]) -> Sort:
    named = dict(zip(NAMES, some, strict=False))
    made = dataclasses.make_dataclass(
        "Made",
        [(name, one.annotation) for name, one in named.items()],
        namespace={"__pydantic_config__": FORBID},
    )
    return Sort(made, st.builds(made, **{name: one.values for name, one in named.items()}))


def _typed_dict(some: list[Sort]) -> Sort:
    named = dict(zip(NAMES, some, strict=False))
    first, *rest = named
    annotations = {name: one.annotation for name, one in named.items()}
    for name in rest:
        annotations[name] = NotRequired[annotations[name]]
    made = TypedDict("Made", annotations)  # type: ignore[operator]
    made.__pydantic_config__ = FORBID
    values = st.fixed_dictionaries(
        {first: named[first].values}, optional={name: named[name].values for name in rest}
    )
    return Sort(made, values)


SORTS = st.recursive(
    st.one_of(
        SCALARS,
        HASHABLE.map(lambda one: Sort(set[one.annotation], st.sets(one.values, max_size=3))),
        st.just(Sort(Node, NODES)),
    ),
    bigger,
    max_leaves=4,
)


class Given(NamedTuple):
    """A tool of random types, and the arguments of one call of it."""

    made: Tool[..., Any]
    values: dict[str, Any]
    json: dict[str, Any]
    oracle: TypeAdapter[Any]
    """pydantic's own strict reading of the same parameters."""


def made_tool(annotations: dict[str, Any]) -> Tool[..., Any]:
    """A tool of a function with these parameters."""

    def sample() -> None: ...

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
        for name, annotation in annotations.items()
    ]
    sample.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    sample.__annotations__ = annotations
    return tool(sample)


@st.composite
def calls(draw: st.DrawFn) -> Given:
    some = draw(st.lists(SORTS, min_size=1, max_size=3))
    named = dict(zip(NAMES, some, strict=False))
    annotations = {name: one.annotation for name, one in named.items()}
    values = {name: draw(one.values) for name, one in named.items()}
    sent = {
        name: json.loads(TypeAdapter(one.annotation).dump_json(values[name]))
        for name, one in named.items()
    }
    oracle: Any = TypedDict("Oracle", annotations)  # type: ignore[operator]
    oracle.__pydantic_config__ = FORBID
    return Given(made_tool(annotations), values, sent, TypeAdapter(oracle))


# ---------------------------------------------------------------- JSON, written in many ways


class Raw(str):
    """Text that stands in JSON as it is."""

    __slots__ = ()


class Pairs(list[tuple[Any, Any]]):
    """An object whose keys may stand twice."""


def spelled(value: object, by: random.Random) -> str:
    """JSON text: keys in any order, white space anywhere, characters escaped or not."""

    def gap() -> str:
        return "".join(by.choices(" \n\t\r", k=by.choice((0, 0, 0, 1, 2))))

    def text(word: str) -> str:
        return "".join(_escaped(one, by) for one in word)

    if isinstance(value, Raw):
        return value
    if isinstance(value, str):
        return f'"{text(value)}"'
    if isinstance(value, Pairs):
        inside = [f"{spelled(k, by)}{gap()}:{gap()}{spelled(v, by)}" for k, v in value]
        return "{" + gap() + f"{gap()},{gap()}".join(inside) + gap() + "}"
    if isinstance(value, dict):
        pairs = Pairs(value.items())
        by.shuffle(pairs)
        return spelled(pairs, by)
    if isinstance(value, list):
        return "[" + gap() + f"{gap()},{gap()}".join(spelled(v, by) for v in value) + gap() + "]"
    return json.dumps(value)


def _escaped(one: str, by: random.Random) -> str:
    if one in '"\\' or one < " ":
        return json.dumps(one)[1:-1]
    if ord(one) < 0x10000 and by.random() < 0.2:
        return f"\\u{ord(one):04x}"
    return one


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


Path = tuple[str | int, ...]


def places(value: object, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value inside a JSON value, and where it stands."""
    yield path, value
    below = value.items() if isinstance(value, dict) else ()
    below = enumerate(value) if isinstance(value, list) else below
    for step, item in below:
        yield from places(item, (*path, step))


def changed(value: Any, path: Path, new: object) -> Any:
    """A copy with another value in one place."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


def named(path: Path) -> str:
    """A path as a message to a model writes it."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def fits(oracle: TypeAdapter[Any], value: object) -> bool:
    try:
        oracle.validate_json(json.dumps(value), strict=True)
    except ValidationError:
        return False
    return True


# ---------------------------------------------------------------- what fits


@given(calls(), st.randoms(use_true_random=False))
def test_what_pydantic_writes_is_read_back_as_it_was(call: Given, by: random.Random) -> None:
    text = spelled(call.json, by)

    taken = call.made.parse(text)

    assert taken == Args(call.values, text)
    assert kinds(taken.values) == kinds(call.values)


@given(calls())
def test_a_mapping_is_read_as_its_text_is(call: Given) -> None:
    taken = call.made.parse(call.json)

    assert isinstance(taken, Args)
    assert (taken.values, taken.repairs) == (call.values, ())
    assert json.loads(taken.text) == call.json


@given(calls(), st.randoms(use_true_random=False))
def test_canonical_bytes_do_not_depend_on_how_json_is_written(
    call: Given, by: random.Random
) -> None:
    once, again = (call.made.parse(spelled(call.json, by)) for _ in range(2))

    assert isinstance(once, Args)
    assert isinstance(again, Args)
    assert once.canonical == again.canonical
    assert json.loads(once.canonical) == call.json


# ---------------------------------------------------------------- what does not


WRONG = {"not": [[], {}, 0.5, None, "what was meant", True]}


@given(calls(), st.data())
def test_a_wrong_value_is_refused_by_its_place(call: Given, data: st.DataObject) -> None:
    leaves = [path for path, value in places(call.json) if not isinstance(value, list | dict)]
    assume(leaves)
    path = data.draw(st.sampled_from(leaves))
    sent = changed(call.json, path, WRONG)
    assume(not fits(call.oracle, sent))

    taken = call.made.parse(sent)

    assert isinstance(taken, Failure)
    assert taken.kind is FailureKind.BAD_ARGS
    assert f"\n- {named(path)}" in taken.message  # or below it, if there an object was expected


@given(calls(), st.data())
def test_a_missing_key_is_refused_by_its_place(call: Given, data: st.DataObject) -> None:
    objects = [(path, v) for path, v in places(call.json) if isinstance(v, dict) and v]
    path, value = data.draw(st.sampled_from(objects))
    key = data.draw(st.sampled_from(sorted(value)))
    sent = changed(call.json, path, {k: v for k, v in value.items() if k != key})
    assume(not fits(call.oracle, sent))

    taken = call.made.parse(sent)

    assert isinstance(taken, Failure)
    assert f"- {named((*path, key))}: required, missing" in taken.message


@given(calls(), st.data())
def test_an_unknown_key_is_refused_by_its_place(call: Given, data: st.DataObject) -> None:
    objects = [(path, v) for path, v in places(call.json) if isinstance(v, dict)]
    path, value = data.draw(st.sampled_from(objects))
    sent = changed(call.json, path, {**value, "unheard": WRONG})
    assume(not fits(call.oracle, sent))

    taken = call.made.parse(sent)

    assert isinstance(taken, Failure)
    assert f"\n- {named((*path, 'unheard'))}" in taken.message  # or below it, in a mapping


ODD = st.sampled_from(["3", "2.5", "true", "x", "", "null", "[]", "{}", 0, 1, 3.0, 2.5, True, None])


@given(calls(), st.data())
def test_what_does_not_fit_is_refused_or_mended_and_told(call: Given, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([path for path, _ in places(call.json) if path]))
    sent = changed(call.json, path, data.draw(ODD))

    taken = call.made.parse(sent)

    if isinstance(taken, Failure):
        assert taken.message.startswith("Not run: invalid arguments.\n- ")
    elif fits(call.oracle, sent):
        assert taken == Args(taken.values, compact(sent))
    else:
        assert taken.repairs
        assert fits(call.oracle, json.loads(taken.text))
        assert taken._replace(repairs=()) == call.made.parse(taken.text)


@given(calls(), st.data())
def test_what_fits_is_refused_only_where_a_boolean_or_a_number_stands_for_the_other(
    call: Given, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from([path for path, _ in places(call.json) if path]))
    odd = data.draw(ODD)
    sent = changed(call.json, path, odd)

    if isinstance(call.made.parse(sent), Failure) and fits(call.oracle, sent):
        assert type(odd) in (bool, int, float)


# ---------------------------------------------------------------- keys that stand twice


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    user_name: str = Field(alias="userName")
    age: int = 0


class Defaults(BaseModel):
    a: int = 1
    b: list[int] = Field(default_factory=list)
    c: Aliased | None = None


class Validated(BaseModel):
    a: int = 0
    b: int = 0

    @field_validator("a")
    @classmethod
    def _raised(cls, value: int) -> int:
        return value + 1

    @model_validator(mode="after")
    def _filled(self) -> Validated:
        self.b = self.a
        return self


class Prepared(BaseModel):
    a: int = 0
    b: int = 0

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, value: Any) -> Any:
        return {"b": 1, **value} if isinstance(value, dict) else value


class Wrapped(BaseModel):
    a: int = 0
    b: int = 0

    @model_validator(mode="wrap")
    @classmethod
    def _filled(cls, value: Any, handler: Callable[[Any], Wrapped]) -> Wrapped:
        made = handler(value)
        made.__pydantic_fields_set__.add("b")
        return made


class Initialised(BaseModel):
    a: int = 0
    b: int = 0

    def model_post_init(self, _context: Any) -> None:
        self.b = 7


class Secretive(BaseModel):
    a: int = 0
    _seen: int = PrivateAttr(default=1)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    a: int = 0


class OpenDict(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    a: int


class DefaultedDict(TypedDict):
    a: int
    b: Annotated[int, Field(default=3)]


class Rooted(RootModel[dict[str, int]]):
    pass


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str = ""


class Fixed(BaseModel, frozen=True):
    a: int = 1
    b: int = 2


@dataclass(frozen=True)
class Pinned:
    a: int = 1


class Spot(NamedTuple):
    x: int
    y: int = 0


@dataclass
class Line:
    sku: str
    count: int = 1
    more: list[Line] = field(default_factory=list)


def _with_one_more(values: dict[str, int]) -> dict[str, int]:
    return {**values, "one more": 1}


def _first(value: Any) -> Any:
    return value[:1] if isinstance(value, list) else value


HOSTILE: dict[str, tuple[Any, Any]] = {
    "a mapping": (dict[str, int], {"a": 1, 'b": 2, "c': 3}),
    "a mapping of text": (dict[str, str], {"a": '":', "b:": ' : "x": '}),
    "mappings in mappings": (dict[str, dict[str, int]], {"a": {"b": 1}, "c": {}}),
    "a list of mappings": (list[dict[str, int]], [{"a": 1}, {"a": 1, "b": 2}]),
    "anything": (Any, {"a": [{"b": {"c": 1}}]}),
    "a mapping of anything": (dict[str, Any], {"a": [{"b": {"c": 1}}]}),
    "an alias": (Aliased, {"userName": "ada", "age": 36}),
    "defaults": (Defaults, {"a": 2, "c": {"userName": "x"}}),
    "a list of defaults": (list[Defaults], [{"b": [1]}, {"a": 1, "b": []}]),
    "an optional model": (Defaults | None, {"a": 2}),
    "a tuple of models": (tuple[Defaults, Aliased], [{"a": 1}, {"userName": "x"}]),
    "validators that change fields": (Validated, {"a": 1}),
    "a validator before": (Prepared, {"a": 1}),
    "a validator around": (Wrapped, {"a": 1}),
    "a list of validators around": (list[Wrapped], [{"a": 1}, {}]),
    "a hook after": (Initialised, {"a": 1}),
    "private attributes": (Secretive, {"a": 1}),
    "a model open to more": (Open, {"a": 1, "b": {"c": 1}}),
    "a typed dict open to more": (OpenDict, {"a": 1, "b": 2}),
    "a typed dict with a default": (DefaultedDict, {"a": 1}),
    "a root model": (Rooted, {"a": 1, "b": 2}),
    "a recursive model": (Node, {"name": "top", "below": [{"name": "x", "below": []}]}),
    "a recursive data class": (Line, {"sku": "x", "more": [{"sku": "y", "count": 2}]}),
    "a union": (Cat | Dog, {"kind": "dog", "name": "rex"}),
    "a list of unions": (list[Cat | Dog], [{"kind": "cat"}, {"kind": "dog", "name": ":"}]),
    "a tagged union": (
        Annotated[Cat | Dog, Field(discriminator="kind")],
        {"kind": "cat", "lives": 3},
    ),
    "text or a mapping": (str | dict[str, int], {"a": 1}),
    "an ordered mapping": (OrderedDict[str, int], {"a": 1, "b": 2}),
    "a mapping with a default": (defaultdict[str, list[int]], {"a": [1]}),
    "a counter": (Counter[str], {"a": 1}),
    "a read-only mapping": (Mapping[str, int], {"a": 1}),
    "a queue of mappings": (deque[dict[str, int]], [{"a": 1}]),
    "a set of models": (set[Fixed], [{"a": 1, "b": 2}, {"a": 1, "b": 2}]),
    "a set of data classes": (frozenset[Pinned], [{"a": 1}]),
    "a named tuple": (list[Spot], [{"x": 1}, {"x": 2, "y": 3}]),
    "a generic model": (Box[dict[str, Box[int]]], {"content": {"a": {"content": 1}}}),
    "a mapping that a validator fills": (
        Annotated[dict[str, int], AfterValidator(_with_one_more)],
        {"a": 1},
    ),
    "a list that a validator cuts": (
        Annotated[list[dict[str, int]], BeforeValidator(_first)],
        [{"a": 1}, {"b": 2}],
    ),
}


@st.composite
def twice(draw: st.DrawFn) -> tuple[Tool[..., Any], str, str]:
    """A tool, arguments in which some key stands twice, and that key."""
    some = draw(st.lists(st.sampled_from(sorted(HOSTILE)), min_size=1, max_size=2, unique=True))
    by = draw(st.randoms(use_true_random=False))
    rows = dict(zip(NAMES, (HOSTILE[name] for name in some), strict=False))
    sent = {name: value for name, (_, value) in rows.items()}
    path, value = by.choice([(p, v) for p, v in places(sent) if isinstance(v, dict) and v])
    key = by.choice(sorted(value))
    pairs = Pairs(value.items())
    pairs.insert(by.randrange(len(pairs) + 1), (key, value[key]))
    made = made_tool({name: annotation for name, (annotation, _) in rows.items()})
    return made, spelled(changed(sent, path, pairs), by), key


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_each_hostile_type_takes_its_arguments(name: str) -> None:
    annotation, value = HOSTILE[name]

    taken = made_tool({"a": annotation}).parse({"a": value})

    assert isinstance(taken, Args)
    assert json.loads(taken.text) == {"a": value}


def refusal_of_twice(key: str) -> Failure:
    return Failure(
        FailureKind.BAD_ARGS,
        "Not run: invalid arguments.\n"
        f"- the key {json.dumps(key, ensure_ascii=False)} occurs twice in one object.\n"
        "Fix these and call again.",
    )


@given(twice())
def test_a_key_that_stands_twice_is_always_refused(row: tuple[Tool[..., Any], str, str]) -> None:
    made, text, key = row

    assert made.parse(text) == refusal_of_twice(key)


@given(twice())
def test_a_plain_json_reader_takes_every_one_of_them(row: tuple[Tool[..., Any], str, str]) -> None:
    made, text, _ = row

    assert isinstance(made.parse(json.loads(text)), Args)


@given(calls(), st.randoms(use_true_random=False))
def test_a_key_that_stands_twice_is_refused_for_random_types(
    call: Given, by: random.Random
) -> None:
    objects = [(p, v) for p, v in places(call.json) if isinstance(v, dict) and v]
    path, value = by.choice(objects)
    key = by.choice(sorted(value))
    pairs = Pairs(value.items())
    pairs.insert(by.randrange(len(pairs) + 1), (key, value[key]))

    assert call.made.parse(spelled(changed(call.json, path, pairs), by)) == refusal_of_twice(key)


@given(st.randoms(use_true_random=False), st.sampled_from(sorted(HOSTILE)))
def test_a_key_that_stands_twice_is_refused_inside_a_string_that_is_mended(
    by: random.Random, name: str
) -> None:
    annotation, value = HOSTILE[name]
    objects = [(p, v) for p, v in places(value) if isinstance(v, dict) and v]
    path, inside = by.choice(objects)
    key = by.choice(sorted(inside))
    pairs = Pairs(inside.items())
    pairs.insert(by.randrange(len(pairs) + 1), (key, inside[key]))
    text = spelled(changed(value, path, pairs), by)
    made = made_tool({"a": annotation})

    for sent in (
        json.dumps({"a": text}),
        json.dumps(json.dumps({"a": Raw("@")}).replace('"@"', text)),
    ):
        taken = made.parse(sent)
        if isinstance(taken, Args):  # where any text will do, the text is what was sent
            assert (taken.values, taken.repairs) == ({"a": text}, ())


# ---------------------------------------------------------------- what is no JSON, or no number


class Loose(BaseModel):
    anything: Any = None
    number: float = 0.0


def loose(  # noqa: PLR0913  one for each kind of hole
    anything: Any = None,
    mapping: dict[str, Any] = {},  # noqa: B006  never changed
    several: list[Any] = [],  # noqa: B006
    model: Loose | None = None,
    *,
    extra: OpenDict | None = None,
    number: float = 0.0,
    exact: Decimal = Decimal(0),
    words: str = "",
    union: int | str | dict[str, Any] | None = None,
    tree: Node | None = None,
) -> None: ...


LOOSE = tool(loose)


class Lenient(enum.Enum):
    KNOWN = 1

    @classmethod
    def _missing_(cls, value: object) -> Lenient:  # noqa: ARG003  it takes all
        return cls.KNOWN


Endless = Annotated[Decimal, Field(allow_inf_nan=True)]
Float = Annotated[float, Field(allow_inf_nan=True)]

HOLES: dict[str, tuple[Any, Callable[[Raw], Any]]] = {
    "anything": (Any, lambda bad: bad),
    "deep in anything": (Any, lambda bad: [{"a": [bad]}]),
    "a mapping of anything": (dict[str, Any], lambda bad: {"a": bad}),
    "deep in a mapping": (dict[str, Any], lambda bad: {"a": {"b": [1, bad]}}),
    "a list of anything": (list[Any], lambda bad: [1, bad]),
    "a field of any type": (Loose, lambda bad: {"anything": bad}),
    "a field": (Loose, lambda bad: {"number": bad}),
    "an extra field": (Open, lambda bad: {"a": 1, "b": bad}),
    "an extra key": (OpenDict, lambda bad: {"a": 1, "b": bad}),
    "deep in an extra key": (OpenDict, lambda bad: {"a": 1, "b": {"c": [bad]}}),
    "a number": (float, lambda bad: bad),
    "a number that may be infinite in Python": (Float, lambda bad: bad),
    "numbers": (list[float], lambda bad: [0.5, bad]),
    "a mapping of numbers": (dict[str, float], lambda bad: {"a": bad}),
    "a pair of numbers": (tuple[float, float], lambda bad: [0.5, bad]),
    "an exact number": (Decimal, lambda bad: bad),
    "an exact number that may be infinite in Python": (Endless, lambda bad: bad),
    "an integer": (int, lambda bad: bad),
    "a boolean": (bool, lambda bad: bad),
    "text": (str, lambda bad: bad),
    "texts": (set[str], lambda bad: [bad]),
    "bytes": (bytes, lambda bad: bad),
    "a moment": (datetime, lambda bad: bad),
    "a duration": (timedelta, lambda bad: bad),
    "an identifier": (UUID, lambda bad: bad),
    "a choice": (Literal[1, "a"], lambda bad: bad),
    "an enum": (Suit, lambda bad: bad),
    "an enum that takes all": (Lenient, lambda bad: bad),
    "a list for an enum that takes all": (Lenient, lambda bad: [bad]),
    "text that a validator takes": (Annotated[str, AfterValidator(len)], lambda bad: bad),
    "a union of scalars": (int | float | str, lambda bad: bad),
    "a union": (int | dict[str, Any], lambda bad: {"a": bad}),
    "a recursive model": (Node, lambda bad: {"name": bad}),
    "an unknown field": (Node, lambda bad: {"name": "x", "unheard": bad}),
    "a key": (dict[str, int], lambda bad: Pairs([(bad, 1)])),
    "a key of anything": (Any, lambda bad: [Pairs([(bad, 1)])]),
    "a key of a model": (Aliased, lambda bad: Pairs([("userName", "x"), (bad, 1)])),
    "a key of a model open to more": (Open, lambda bad: Pairs([(bad, 1)])),
}
BAD: dict[str, str] = {
    "not a number": "NaN",
    "infinity": "Infinity",
    "less than anything": "-Infinity",
    "a number too large": "1e999",
    "a number too small": "-1e999",
    "a number with too many digits": "1" * 5000,
    "NUL": '"a\\u0000b"',
    "half a pair": '"\\ud800"',
    "the other half": '"\\udc00x"',
    "halves in the wrong order": '"\\udc00\\ud800"',
    "a raw control character": '"a\nb"',
    "a raw half": '"\ud800"',
    "a word": "undefined",
    "a number that starts with zero": "01",
    "a comment": "1 /* one */",
    "single quotes": "'a'",
    "too deep": "[" * 65 + "]" * 65,
    "too deep in objects": '{"a":' * 65 + "1" + "}" * 65,
    "much too deep": "[" * 100_000 + "]" * 100_000,
    "unclosed and much too deep": "[" * 100_000,
}


@pytest.mark.parametrize("hole", sorted(HOLES))
@pytest.mark.parametrize("bad", sorted(BAD))
def test_what_is_no_json_or_no_number_is_refused_wherever_it_stands(hole: str, bad: str) -> None:
    annotation, around = HOLES[hole]
    text = spelled({"a": around(Raw(BAD[bad]))}, random.Random(0))  # noqa: S311  no secret

    assert_told(made_tool({"a": annotation}).parse(text))


@pytest.mark.parametrize("bad", sorted(set(BAD) - {"much too deep", "unclosed and much too deep"}))
def test_what_is_no_json_or_no_number_is_refused_inside_a_string_that_could_be_mended(
    bad: str,
) -> None:
    for inside in (f'{{"a":{BAD[bad]}}}', f'{{"a":1,"b":[{BAD[bad]}]}}'):
        assert_told(LOOSE.parse(json.dumps({"mapping": inside})))
        assert_told(LOOSE.parse(json.dumps(f'{{"mapping":{inside}}}')))
        assert_told(LOOSE.parse(json.dumps({"several": f"[{inside}]"})))


@pytest.mark.parametrize("bad", ["much too deep", "unclosed and much too deep"])
def test_a_string_much_too_deep_to_be_mended_is_refused(bad: str) -> None:
    assert_told(LOOSE.parse(json.dumps({"mapping": BAD[bad]})))
    assert_told(LOOSE.parse(json.dumps({"several": BAD[bad]})))
    assert_told(LOOSE.parse(json.dumps(BAD[bad])))


@pytest.mark.parametrize("written", ["NaN", "Infinity", "-Infinity", "1e999", "-1e400", "1E+999"])
def test_a_string_that_is_no_finite_number_is_not_mended_into_one(written: str) -> None:
    assert_told(LOOSE.parse({"number": written}))
    assert_told(LOOSE.parse({"model": {"number": written}}))


def test_sixty_four_levels_are_deep_enough_and_sixty_five_are_not() -> None:
    def nested(levels: int) -> str:
        return '{"anything":' + "[" * (levels - 1) + "1" + "]" * (levels - 1) + "}"

    assert isinstance(LOOSE.parse(nested(64)), Args)
    assert_told(LOOSE.parse(nested(65)))


def test_plain_json_readers_take_what_is_refused_above() -> None:
    lenient = {name for name, bad in BAD.items() if _is_taken(json.loads, f'{{"a":{bad}}}')}
    validator = TypeAdapter(dict[str, Any])
    fast = {
        name for name, bad in BAD.items() if _is_taken(validator.validate_json, f'{{"a":{bad}}}')
    }

    assert lenient == {
        "NUL",
        "a number too large",
        "a number too small",
        "a raw half",
        "half a pair",
        "halves in the wrong order",
        "infinity",
        "less than anything",
        "not a number",
        "the other half",
        "too deep",
        "too deep in objects",
    }
    assert fast == {
        "NUL",
        "a number too large",
        "a number too small",
        "infinity",
        "less than anything",
        "not a number",
        "too deep",
        "too deep in objects",
    }


def _is_taken(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except (ValueError, RecursionError):
        return False
    return True


# ---------------------------------------------------------------- whatever comes


MAX_MESSAGE = 4000


def assert_told(taken: Args | Failure) -> None:
    """That it was refused in words that can be sent on."""
    assert isinstance(taken, Failure), taken
    assert taken.kind is FailureKind.BAD_ARGS
    assert len(taken.message) <= MAX_MESSAGE
    assert "\0" not in taken.message
    assert taken.message.encode().decode() == taken.message


def assert_answered(made: Tool[..., Any], sent: Any) -> None:
    taken = made.parse(sent)

    if isinstance(taken, Args):
        assert json.loads(taken.canonical) == json.loads(taken.text)
    else:
        assert_told(taken)


ANY_TEXT = st.text(st.characters(), max_size=40)  # halves of pairs and NUL included
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(ANY_TEXT, below, max_size=3),
    max_leaves=8,
)
PARAMETERS = st.sampled_from(list(inspect.signature(loose).parameters))
PLAIN = made_tool({"words": str, "counts": dict[str, float | str | None]})


@given(ANY_TEXT)
@example("")
@example(" ")
@example("null")
@example("[]")
@example("\ufeff{}")
@example("{}{}")
@example('{"anything": }')
@example('"' * 1001)
def test_any_text_is_answered(text: str) -> None:
    assert_answered(LOOSE, text)


@given(ANY_JSON)
def test_any_json_is_answered(value: Any) -> None:
    assert_answered(LOOSE, json.dumps(value))
    assert_answered(PLAIN, json.dumps(value))


@given(st.dictionaries(KEYS | ANY_TEXT, ANY_JSON, max_size=3), ANY_TEXT)
def test_any_mapping_is_answered_where_the_types_are_plain(value: Any, words: str) -> None:
    assert_answered(PLAIN, {"words": words, "counts": value})
    assert_answered(PLAIN, json.dumps({"words": words, "counts": value}))
    assert_answered(PLAIN, json.dumps({"words": words, "counts": value}, ensure_ascii=False))


@given(ANY_JSON, ANY_JSON)
def test_canonical_bytes_are_equal_for_equal_arguments_only(one: Any, other: Any) -> None:
    taken, also = LOOSE.parse({"anything": one}), LOOSE.parse({"anything": other})

    if isinstance(taken, Args) and isinstance(also, Args):
        assert taken.canonical != also.canonical or one == other


@given(st.dictionaries(PARAMETERS | ANY_TEXT, ANY_JSON, max_size=4))
def test_any_arguments_are_answered_as_a_mapping_and_as_text(args: dict[str, Any]) -> None:
    assert_answered(LOOSE, args)
    assert_answered(LOOSE, json.dumps(args))
    assert_answered(LOOSE, json.dumps(args, ensure_ascii=False))
    assert_answered(LOOSE, json.dumps({name: json.dumps(one) for name, one in args.items()}))


@given(calls(), st.data())
def test_text_that_was_cut_or_changed_is_answered(call: Given, data: st.DataObject) -> None:
    text = json.dumps(call.json)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))

    assert_answered(call.made, text[:start])
    assert_answered(call.made, text[:start] + data.draw(ANY_TEXT) + text[end:])


@pytest.mark.parametrize(
    "args",
    [
        {"anything": float("nan")},
        {"anything": object()},
        {"anything": b"\xff"},
        {"anything": "\ud800"},
        {"mapping": {"\ud800": 1}},
        {"mapping": {1: 1}},
        {"mapping": {None: 1}},
        {"mapping": {(1, 2): 1}},
        {"anything": {1, 2}},
        {"anything": 10**5000},
        {1: 2},
    ],
    ids="nan object bytes half half-key integer-key null-key tuple-key set digits integer".split(),
)
def test_a_mapping_that_json_cannot_say_is_answered(args: Any) -> None:
    assert_answered(LOOSE, args)


def test_a_mapping_that_holds_itself_is_refused() -> None:
    args: dict[str, Any] = {}
    args["anything"] = args

    assert_told(LOOSE.parse(args))


def test_arguments_larger_than_a_mebibyte_are_refused() -> None:
    head, tail = '{"words":"', '"}'
    room = 1024 * 1024 - len(head + tail)

    assert isinstance(LOOSE.parse(f"{head}{'x' * room}{tail}"), Args)
    assert_told(LOOSE.parse(f"{head}{'x' * (room + 1)}{tail}"))
    assert_told(LOOSE.parse(f"{head}{'é' * (room // 2 + 1)}{tail}"))
