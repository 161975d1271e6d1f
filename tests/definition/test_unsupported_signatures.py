"""What cannot become a tool is refused where it is defined: which part, what to do, which line."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import UUID

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, StringConstraints

from handrail import Context, DefinitionError, Retry, Tool, tool

NO_FORM = "its type has no JSON form. Use a dataclass, a TypedDict or a pydantic model"
NOT_OF_ITS_TYPE = "does not match its type. Change one of them"
IN_FIELD = "its default is inside `Field(...)`. Write it after the `=`"


class Socket:
    """A class that no JSON can say."""


class Color(StrEnum):
    RED = "red"


class Size(IntEnum):
    SMALL = 1


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    socket: Socket


class Unfinished(BaseModel):
    other: NeverDefined  # noqa: F821  that it is missing is the point


class OldTypedDict(TypedDict):
    a: int


class Asking(Context):
    pass


@dataclass
class Smuggler:
    context: Context


class TwoNames(BaseModel):
    a: int = Field(validation_alias=AliasChoices("a", "b"))


class NoName(BaseModel):
    a: int = Field(validation_alias=AliasPath("a", 0))


class OwnInit(BaseModel):
    a: int = 0

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)


class Stripping(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)

    counts: dict[str, int]


def place(fn: Any) -> str:
    """Where a function stands, as its author would look for it."""
    below = fn.func if isinstance(fn, functools.partial) else fn
    below = inspect.unwrap(below)
    code = below.__code__
    return f"{below.__module__}.{below.__qualname__} ({code.co_filename}:{code.co_firstlineno})"


def refused(fn: Any, **options: Any) -> str:
    """The message that decorating raises."""
    with pytest.raises(DefinitionError) as raised:
        tool(**options)(fn)
    return str(raised.value)


# ---------------------------------------------------------------- parameters and their types


def no_type(a) -> None: ...  # noqa: ANN001
def no_type_for_the_second(a: int, b) -> None: ...  # noqa: ANN001
def many(*values: int) -> None: ...
def named(**values: int) -> None: ...
def after_many(*values: int, a: int) -> None: ...
def a_callable(a: Callable[[int], int]) -> None: ...
def a_callable_or_none(a: Callable[[int], int] | None = None) -> None: ...
def a_class(a: Socket) -> None: ...
def a_list_of_a_class(a: list[Socket]) -> None: ...
def a_model_with_a_class(a: Holder) -> None: ...
def a_type(a: type[int]) -> None: ...
def a_lazy_list(a: Iterable[int]) -> None: ...
def a_stream(a: Iterator[int]) -> None: ...
def a_hashable(a: Hashable) -> None: ...
def a_complex_number(a: complex) -> None: ...
def integer_keys(a: dict[int, str]) -> None: ...
def uuid_keys(a: list[dict[UUID, str]]) -> None: ...
def a_set_of_lists(a: set[list[int]]) -> None: ...
def a_class_that_is_nowhere(a: Nowhere) -> None: ...  # noqa: F821
def a_class_that_is_nowhere_in_a_list(a: int, b: list[Nowhere]) -> None: ...  # noqa: F821
def an_attribute_that_is_nowhere(a: functools.Nowhere) -> None: ...
def half_an_annotation(a: "list[int") -> None: ...  # noqa: F722
def an_unfinished_model(a: Unfinished) -> None: ...
def two_contexts(a: Context, b: Context) -> None: ...
def a_context_in_a_list(a: list[Context]) -> None: ...
def a_context_of_ones_own(a: Asking) -> None: ...
def a_context_inside(a: Smuggler) -> None: ...
def a_field_with_two_names(a: TwoNames) -> None: ...
def a_field_without_a_name(a: NoName) -> None: ...
def a_model_that_builds_itself(a: list[OwnInit]) -> None: ...


FROM_EXECUTOR = "the executor provides the Context. Declare it as a separate parameter"
ONE_NAME = "a field with AliasChoices or AliasPath has several names. Use one alias"
KEYS = "keys of JSON objects are strings. Use `dict[str, ...]`"

OWN_INIT = "a model with a custom `__init__` cannot be validated. Use validators"
VARIADIC = "Take a list, as in `items: list[str]`"
KEYWORDS = "Name each parameter, or take `options: dict[str, str]`"
NOWHERE = "name 'Nowhere' is not defined. Define it above the tool"
NO_ATTRIBUTE = "module 'functools' has no attribute 'Nowhere'. Define it above the tool"
HALF = "Forward reference must be an expression -- got 'list[int'. Define it above the tool"
UNHASHABLE = "a set cannot contain such items. Use a list"

PARAMETERS = [
    (no_type, "parameter 'a' has no type. Annotate it, as in `a: str`"),
    (no_type_for_the_second, "parameter 'b' has no type. Annotate it, as in `b: str`"),
    (many, f"a model cannot fill the parameter 'values'. {VARIADIC}"),
    (named, f"a model cannot fill the parameter 'values'. {KEYWORDS}"),
    (after_many, f"a model cannot fill the parameter 'values'. {VARIADIC}"),
    (a_callable, f"parameter 'a' (collections.abc.Callable[[int], int]): {NO_FORM}"),
    (
        a_callable_or_none,
        f"parameter 'a' (collections.abc.Callable[[int], int] | None): {NO_FORM}",
    ),
    (a_class, f"parameter 'a' (Socket): {NO_FORM}"),
    (a_list_of_a_class, f"parameter 'a' (list[{__name__}.Socket]): {NO_FORM}"),
    (a_model_with_a_class, f"parameter 'a' (Holder): {NO_FORM}"),
    (a_type, f"parameter 'a' (type[int]): {NO_FORM}"),
    (a_lazy_list, f"parameter 'a' (collections.abc.Iterable[int]): {NO_FORM}"),
    (a_stream, f"parameter 'a' (collections.abc.Iterator[int]): {NO_FORM}"),
    (a_hashable, f"parameter 'a' (Hashable): {NO_FORM}"),
    (a_complex_number, f"parameter 'a' (complex): {NO_FORM}"),
    (integer_keys, f"parameter 'a' (dict[int, str]): {KEYS}"),
    (uuid_keys, f"parameter 'a' (list[dict[uuid.UUID, str]]): {KEYS}"),
    (a_set_of_lists, f"parameter 'a' (set[list[int]]): {UNHASHABLE}"),
    (a_class_that_is_nowhere, f"the type of 'a' cannot be evaluated: {NOWHERE}"),
    (a_class_that_is_nowhere_in_a_list, f"the type of 'b' cannot be evaluated: {NOWHERE}"),
    (an_attribute_that_is_nowhere, f"the type of 'a' cannot be evaluated: {NO_ATTRIBUTE}"),
    (half_an_annotation, f"the type of 'a' cannot be evaluated: {HALF}"),
    (two_contexts, "both 'a' and 'b' are a Context. One is enough"),
    (
        a_context_in_a_list,
        f"parameter 'a' (list[handrail._values.context.Context]): {FROM_EXECUTOR}",
    ),
    (a_context_of_ones_own, f"parameter 'a' (Asking): {FROM_EXECUTOR}"),
    (a_context_inside, f"parameter 'a' (Smuggler): {FROM_EXECUTOR}"),
    (a_field_with_two_names, f"parameter 'a' (TwoNames): {ONE_NAME}"),
    (a_field_without_a_name, f"parameter 'a' (NoName): {ONE_NAME}"),
    (a_model_that_builds_itself, f"parameter 'a' (list[{__name__}.OwnInit]): {OWN_INIT}"),
]


def names(rows: list[tuple[Any, str]]) -> list[str]:
    return [fn.__name__ for fn, _ in rows]


@pytest.mark.parametrize(("fn", "why"), PARAMETERS, ids=names(PARAMETERS))
def test_a_parameter_that_no_model_could_fill_is_refused(fn: Any, why: str) -> None:
    assert refused(fn) == f"{place(fn)}: {why}."


LoweredKeys = dict[Annotated[str, StringConstraints(to_lower=True)], int]


@pytest.mark.parametrize("annotation", [Stripping, LoweredKeys, list[LoweredKeys]], ids=repr)
def test_a_mapping_in_which_two_keys_could_become_one_is_refused(annotation: Any) -> None:
    def count(a: Any) -> None: ...

    count.__annotations__ = {"a": annotation}

    assert refused(count).startswith(f"{place(count)}: parameter 'a' (")


def test_a_model_that_is_not_finished_is_refused_with_a_word_on_how_to_finish_it() -> None:
    message = refused(an_unfinished_model)

    assert message.startswith(f"{place(an_unfinished_model)}: parameter 'a' (Unfinished): ")
    assert "is not fully defined" in message


def test_a_pattern_that_could_take_for_ever_is_refused_by_name() -> None:
    def look_ahead(a: Annotated[str, Field(pattern="(?=a)")]) -> None: ...

    message = refused(look_ahead)

    assert message.startswith(f"{place(look_ahead)}: parameter 'a' (")
    assert "look-around" in message


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="from 3.12 on it can be read")
def test_a_typed_dict_of_an_older_python_is_refused_with_the_one_to_use() -> None:
    def old(a: list[OldTypedDict]) -> None: ...

    assert refused(old) == (
        f"{place(old)}: parameter 'a' (list[{__name__}.OldTypedDict]): Please use "
        "`typing_extensions.TypedDict` instead of `typing.TypedDict` on Python < 3.12."
    )


# ---------------------------------------------------------------- defaults


def none_for_an_integer(a: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013
def text_for_an_integer(a: int = "3") -> None: ...  # type: ignore[assignment]
def a_number_for_an_integer(a: int = 3.0) -> None: ...  # type: ignore[assignment]
def a_boolean_for_an_integer(*, a: int = True) -> None: ...
def an_integer_for_a_boolean(*, a: bool = 1) -> None: ...  # type: ignore[assignment]
def text_for_a_path(a: Path = ".") -> None: ...  # type: ignore[assignment]
def text_for_an_enum(a: Color = "red") -> None: ...  # type: ignore[assignment]
def an_integer_for_an_enum(a: Size = 1) -> None: ...  # type: ignore[assignment]
def an_integer_for_a_decimal(a: Decimal = 1) -> None: ...  # type: ignore[assignment]
def text_for_a_date(a: date = "2026-01-31") -> None: ...  # type: ignore[assignment]
def text_for_a_uuid(a: UUID = "x") -> None: ...  # type: ignore[assignment]
def a_tuple_for_a_list(a: list[int] = (1,)) -> None: ...  # type: ignore[assignment]
def a_list_for_a_tuple(a: tuple[int, ...] = [1]) -> None: ...  # type: ignore[assignment]
def a_frozen_set_for_a_set(a: set[int] = frozenset()) -> None: ...  # type: ignore[assignment]
def out_of_bounds(a: Annotated[int, Field(ge=1)] = 0) -> None: ...
def a_very_long_text(a: int = "x" * 1000) -> None: ...  # type: ignore[assignment]
def infinity(a: float = float("inf")) -> None: ...
def half_a_character(a: str = "\ud800") -> None: ...
def bytes_that_are_no_text(a: bytes = b"\xff") -> None: ...
def an_object(a: Any = Socket) -> None: ...
def field_as_default(a: int = Field(3, ge=1)) -> None: ...
def field_with_default(a: Annotated[int, Field(default=3)]) -> None: ...
def field_with_default_and_default(a: int, b: Annotated[int, Field(default=3)] = 4) -> None: ...
def field_with_default_factory(a: Annotated[list[int], Field(default_factory=list)]) -> None: ...


DEFAULTS = [
    (none_for_an_integer, f"its default None {NOT_OF_ITS_TYPE}"),
    (text_for_an_integer, f"its default '3' {NOT_OF_ITS_TYPE}"),
    (a_number_for_an_integer, f"its default 3.0 {NOT_OF_ITS_TYPE}"),
    (a_boolean_for_an_integer, f"its default True {NOT_OF_ITS_TYPE}"),
    (an_integer_for_a_boolean, f"its default 1 {NOT_OF_ITS_TYPE}"),
    (text_for_a_path, f"its default '.' {NOT_OF_ITS_TYPE}"),
    (text_for_an_enum, f"its default 'red' {NOT_OF_ITS_TYPE}"),
    (an_integer_for_an_enum, f"its default 1 {NOT_OF_ITS_TYPE}"),
    (an_integer_for_a_decimal, f"its default 1 {NOT_OF_ITS_TYPE}"),
    (text_for_a_date, f"its default '2026-01-31' {NOT_OF_ITS_TYPE}"),
    (text_for_a_uuid, f"its default 'x' {NOT_OF_ITS_TYPE}"),
    (a_tuple_for_a_list, f"its default (1,) {NOT_OF_ITS_TYPE}"),
    (a_list_for_a_tuple, f"its default [1] {NOT_OF_ITS_TYPE}"),
    (a_frozen_set_for_a_set, f"its default frozenset() {NOT_OF_ITS_TYPE}"),
    (out_of_bounds, f"its default 0 {NOT_OF_ITS_TYPE}"),
    (infinity, "its default inf has no JSON form"),
    (half_a_character, "its default '\\ud800' has no JSON form"),
    (bytes_that_are_no_text, "its default b'\\xff' has no JSON form"),
    (an_object, f"its default <class '{__name__}.Socket'> has no JSON form"),
    (
        field_as_default,
        "its default is `Field(...)`. Move it to `Annotated[..., Field(...)]`",
    ),
]


@pytest.mark.parametrize(("fn", "why"), DEFAULTS, ids=names(DEFAULTS))
def test_a_default_that_the_function_could_not_be_handed_is_refused(fn: Any, why: str) -> None:
    assert refused(fn) == f"{place(fn)}: parameter 'a': {why}."


IN_FIELDS = [
    (field_with_default, "a"),
    (field_with_default_and_default, "b"),
    (field_with_default_factory, "a"),
]


@pytest.mark.parametrize(("fn", "parameter"), IN_FIELDS, ids=names(IN_FIELDS))
def test_a_default_that_only_pydantic_would_see_is_refused(fn: Any, parameter: str) -> None:
    message = refused(fn)

    assert message.startswith(f"{place(fn)}: parameter '{parameter}' (typing.Annotated[")
    assert message.endswith(f"): {IN_FIELD}.")


def test_a_default_is_shown_in_part_where_it_is_long() -> None:
    fn = a_very_long_text

    assert refused(fn) == (
        f"{place(fn)}: parameter 'a': its default '{'x' * 78}… does not match its type. "
        "Change one of them."
    )


# ---------------------------------------------------------------- what is no function


class Called:
    def __call__(self, a: int) -> None: ...

    def __repr__(self) -> str:
        return "<called>"


THINGS: list[tuple[Any, str]] = [
    (len, "<built-in function len>"),
    (Socket, f"<class '{__name__}.Socket'>"),
    (Called(), "<called>"),
    (3, "3"),
    ("add", "'add'"),
    (None, "None"),
    (["x" * 100], f"['{'x' * 77}…"),
]


@pytest.mark.parametrize(("thing", "shown"), THINGS, ids=[shown[:20] for _, shown in THINGS])
def test_what_is_no_function_is_refused(thing: Any, shown: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        tool(name="thing")(thing)

    assert str(raised.value) == f"{shown} cannot be a tool. Use a function or a method."


def test_a_lambda_is_refused_for_its_types_or_else_for_its_name() -> None:
    typeless = lambda a: a  # noqa: E731  a lambda is the point
    nameless = lambda: 3  # noqa: E731

    assert refused(typeless) == (
        f"{place(typeless)}: parameter 'a' has no type. Annotate it, as in `a: str`."
    )
    assert refused(nameless) == f"{place(nameless)}: it has no name. Give it one: `tool(name=...)`."
    assert tool(name="three")(nameless)() == 3


def test_a_partial_takes_the_name_of_its_function_and_its_refusals() -> None:
    def scale(a: Socket, by: int) -> None: ...

    half = functools.partial(scale, by=2)

    assert refused(half) == f"{place(scale)}: parameter 'a' (Socket): {NO_FORM}."
    assert tool(functools.partial(scale, Socket())).spec.name == "scale"


def test_a_decorated_function_is_refused_where_its_author_wrote_it() -> None:
    def logged(fn: Any) -> Any:
        @functools.wraps(fn)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        return inner

    def plug(a: Socket) -> None: ...

    assert refused(logged(plug)) == f"{place(plug)}: parameter 'a' (Socket): {NO_FORM}."


def test_a_class_method_below_its_own_decorator_is_told_the_order() -> None:
    def make(cls, a: int) -> None: ...  # noqa: ANN001

    assert refused(make) == (
        f"{place(make)}: parameter 'cls' has no type. "
        "For a class method, put `@tool` above `@classmethod`."
    )


# ---------------------------------------------------------------- what it gives back


def gives_a_class() -> Socket: ...
def gives_a_list_of_a_class() -> list[Socket]: ...
def gives_a_callable() -> Callable[[], int]: ...
def gives_a_stream() -> Iterator[int]: ...
def gives_what_is_nowhere() -> Nowhere: ...  # noqa: F821
def gives_a_tool() -> Tool[..., Any]: ...
def gives_any_tool(folder: Path) -> Tool: ...  # type: ignore[type-arg]


A_TOOL = "it returns a tool, but is none. Call it, and pass the tool"
RESULTS = [
    (gives_a_class, f"its return type (Socket): {NO_FORM}"),
    (gives_a_list_of_a_class, f"its return type (list[{__name__}.Socket]): {NO_FORM}"),
    (gives_a_callable, f"its return type (collections.abc.Callable[[], int]): {NO_FORM}"),
    (gives_a_stream, f"its return type (collections.abc.Iterator[int]): {NO_FORM}"),
    (gives_what_is_nowhere, f"the return type cannot be evaluated: {NOWHERE}"),
    (gives_a_tool, f"{A_TOOL}: `gives_a_tool()`"),
    (gives_any_tool, f"{A_TOOL}: `gives_any_tool(...)`"),
]


@pytest.mark.parametrize(("fn", "why"), RESULTS, ids=names(RESULTS))
def test_what_cannot_be_told_of_a_result_is_refused(fn: Any, why: str) -> None:
    assert refused(fn) == f"{place(fn)}: {why}."


# ---------------------------------------------------------------- options


def fetch(a: int) -> None: ...


NAMES = (
    "is not a valid tool name. Use 1 to 256 printable characters, without whitespace at the ends"
)

RETRY = (
    "that could repeat a side effect. "
    "Set effect=READ or idempotent=True if either is true, or remove retry"
)

USE = "Use strings, finite numbers, booleans, None, lists and dicts with string keys"

OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"nope": 1}, "`@tool` has no option 'nope'"),
    ({"retry": Retry()}, f"'fetch' cannot be retried: {RETRY}"),
    ({"timeout": 0}, "'fetch' has timeout=0, which must be greater than 0"),
    ({"timeout": -1.5}, "'fetch' has timeout=-1.5, which must be greater than 0"),
    ({"timeout": float("nan")}, "'fetch' has timeout=nan, which must be greater than 0"),
    ({"timeout": "5"}, "the option timeout='5' must be of type int or float"),
    ({"timeout": True}, "the option timeout=True must be of type int or float"),
    ({"max_chars": 0}, "'fetch' has max_chars=0, which must be greater than 0"),
    ({"max_chars": 1.5}, "the option max_chars=1.5 must be of type int"),
    ({"name": " fetch"}, f"' fetch' {NAMES}"),
    ({"name": "fetch\nit"}, f"'fetch\\nit' {NAMES}"),
    ({"name": "x" * 257}, f"'{'x' * 80}' {NAMES}"),
    ({"name": 3}, "the option name=3 must be of type str"),
    ({"description": None}, "the option description=None must be of type str"),
    ({"aliases": ["fetch"]}, "The aliases of 'fetch' have its own name, or one alias twice: fetch"),
    (
        {"aliases": ["get", "get"]},
        "The aliases of 'fetch' have its own name, or one alias twice: get, get",
    ),
    ({"aliases": [""]}, f"'' {NAMES}"),
    ({"aliases": "get"}, "the option aliases='get' must be a list"),
    ({"tags": "web"}, "the option tags='web' must be a list"),
    ({"examples": {"a": 1}}, "the option examples={'a': 1} must be a list"),
    (
        {"effect": "read"},
        "the option effect='read' must be of type Effect: Effect.READ, Effect.WRITE or Effect.DESTROY",
    ),
    (
        {"exposure": "direct"},
        "the option exposure='direct' must be of type Exposure: Exposure.DIRECT, Exposure.DEFERRED, Exposure.SEARCH or Exposure.HIDDEN",
    ),
    ({"strict": "maybe"}, "the option strict='maybe' must be one of auto, on, off"),
    ({"idempotent": "yes"}, "the option idempotent='yes' must be of type bool"),
    ({"touches": "file:a"}, "the option touches='file:a' must be of type Callable"),
    ({"needs_approval": 1}, "the option needs_approval=1 must be of type bool"),
    ({"exclusive": None}, "the option exclusive=None must be of type bool"),
    ({"metadata": ["team"]}, "the option metadata=['team'] must be of type Mapping"),
    ({"metadata": {"at": b"1"}}, f"'fetch' has metadata that JSON cannot represent. {USE}"),
    ({"metadata": {"at": float("inf")}}, f"'fetch' has metadata that JSON cannot represent. {USE}"),
    ({"metadata": {1: "a"}}, f"'fetch' has metadata that JSON cannot represent. {USE}"),
    ({"metadata": {"at": (1, 2)}}, f"'fetch' has metadata that JSON cannot represent. {USE}"),
]


@pytest.mark.parametrize(("options", "why"), OPTIONS, ids=lambda one: repr(one)[:40])
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, Any], why: str) -> None:
    assert refused(fetch, **options) == f"{place(fetch)}: {why}."


@pytest.mark.parametrize(
    ("example", "why"),
    [
        ({"a": "x"}, 'a: expected an integer, got the string "x"'),
        (
            {"b": 2, "c": 3},
            "a: required, missing; b: unknown field; known fields: a; c: unknown field",
        ),
        ({"a": 1, "b": 2}, "b: unknown field; known fields: a"),
    ],
    ids=repr,
)
def test_an_example_that_does_not_fit_is_refused(example: dict[str, Any], why: str) -> None:
    assert refused(fetch, examples=[{"a": 1}, example]) == (
        f"{place(fetch)}: the example {example!r} is not valid: {why}."
    )


def test_an_example_that_needs_a_repair_is_refused() -> None:
    assert refused(fetch, examples=[{"a": "3"}]) == (
        f"{place(fetch)}: the example {{'a': '3'}} is not valid: a: the string was read as a number."
    )


def test_a_retry_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^Retry\(attempts=0, base=0.5, cap=30.0\) is not valid: use"
    ):
        Retry(attempts=0)


# ---------------------------------------------------------------- the control


def test_the_messages_above_would_catch_a_decorator_that_guesses() -> None:
    """A decorator that takes what has no type for text, as many do, raises nothing to compare."""

    def guessing(fn: Any) -> Any:
        for name in inspect.signature(fn).parameters:
            fn.__annotations__.setdefault(name, str)
        return tool(fn)

    def greet(name) -> None: ...  # noqa: ANN001

    why = "parameter 'name' has no type. Annotate it, as in `name: str`."
    assert refused(greet) == f"{place(greet)}: {why}"
    assert guessing(greet).spec.input_schema["properties"] == {"name": {"type": "string"}}
