"""Tools as values: calling, binding, invoking with checked arguments, living elsewhere."""

from __future__ import annotations

import functools
import inspect
from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from pydantic import Tag

from handrail import (
    READ,
    WRITE,
    Args,
    Context,
    DefinitionError,
    Exposure,
    Failure,
    Retry,
    Spec,
    Tool,
    tool,
)

CONTEXT = Context(call_id="c1", idempotency_key="k1")


def invoke(one: Tool[..., Any], args: dict[str, Any]) -> Any:
    parsed = one.parse(args)
    assert isinstance(parsed, Args), parsed
    return one.invoke(parsed, CONTEXT)


@tool
def add(a: int, b: int = 2) -> int:
    """Add two integers."""
    return a + b


def test_a_tool_is_called_like_its_function() -> None:
    assert (add(1), add(1, 5), add(a=3, b=4)) == (3, 6, 7)
    assert (add.__name__, inspect.signature(add)) == ("add", inspect.signature(add.fn))


def test_every_option_lands_in_the_spec() -> None:
    @tool(
        name="look_up",
        description="Look it up.",
        effect=READ,
        idempotent=True,
        timeout=2.5,
        retry=Retry(attempts=5),
        max_chars=500,
        aliases=["find", "search"],
        instead_of={"lookup": "look up a word"},
        exposure=Exposure.DEFERRED,
        search_hint="dictionary, meaning",
        examples=[{"word": "rail"}],
        strict="on",
        tags=["words", "words"],
        needs_approval=True,
        exclusive=True,
        metadata={"team": "books", "cost": [1, 2.5]},
    )
    def anything(word: str) -> str:
        """Not used."""
        return word

    assert anything.spec == Spec(
        name="look_up",
        description="Look it up.",
        input_schema={
            "type": "object",
            "properties": {"word": {"type": "string"}},
            "required": ["word"],
            "additionalProperties": False,
        },
        effect=READ,
        idempotent=True,
        timeout=2.5,
        retry=Retry(attempts=5),
        max_chars=500,
        aliases=("find", "search"),
        instead_of={"lookup": "look up a word"},
        exposure=Exposure.DEFERRED,
        search_hint="dictionary, meaning",
        examples=({"word": "rail"},),
        strict="on",
        tags=frozenset({"words"}),
        needs_approval=True,
        exclusive=True,
        metadata={"team": "books", "cost": [1, 2.5]},
    )


def test_what_is_left_out_sits_at_the_safe_end() -> None:
    spec = add.spec

    assert (spec.effect, spec.idempotent, spec.retry, spec.exposure, spec.strict) == (
        WRITE,
        False,
        None,
        Exposure.DIRECT,
        "auto",
    )
    assert (spec.needs_approval, spec.exclusive, spec.metadata) == (False, False, {})


def test_two_tools_of_one_type_share_nothing_that_can_change() -> None:
    def one(tags: list[str] | None = None) -> list[int]:
        """Do one thing."""
        return [len(tags or [])]

    first, second = tool(one), tool(one)
    first.spec.input_schema["properties"]["tags"]["anyOf"].clear()
    first.spec.output_schema["items"].clear()  # type: ignore[index]

    assert second.spec.input_schema["properties"]["tags"]["anyOf"] == [
        {"type": "array", "items": {"type": "string"}},
        {"type": "null"},
    ]
    assert second.spec.output_schema == {"type": "array", "items": {"type": "integer"}}


def test_the_function_keeps_its_own_defaults() -> None:
    assert (invoke(add, {"a": 1}), invoke(add, {"a": 1, "b": 9})) == (3, 10)


def test_positional_parameters_are_passed_by_position() -> None:
    @tool
    def join(first: str, second: str = "-", /, third: str = "c", *, fourth: str = "d") -> str:
        """Join."""
        return first + second + third + fourth

    assert invoke(join, {"first": "a", "fourth": "x"}) == "a-cx"
    assert invoke(join, {"first": "a", "second": "b", "third": "y"}) == "abyd"


@pytest.mark.parametrize("by", ["position", "keyword"])
def test_a_context_is_handed_in_and_never_taken_from_a_model(by: str) -> None:
    def positional(context: Context, a: int, /) -> tuple[str, int]:
        """Tell the call."""
        return context.call_id, a

    def keyword(a: int, *, context: Context) -> tuple[str, int]:
        """Tell the call."""
        return context.call_id, a

    made = tool(positional if by == "position" else keyword)

    assert invoke(made, {"a": 1}) == ("c1", 1)
    assert list(made.spec.input_schema["properties"]) == ["a"]
    assert isinstance(made.parse({"a": 1, "context": {"call_id": "forged"}}), Failure)


async def test_an_async_tool_gives_an_awaitable() -> None:
    @tool
    async def double(n: int) -> int:
        """Double it."""
        return 2 * n

    assert await double(4) == 8
    assert await invoke(double, {"n": 4}) == 8


def test_a_partial_with_a_name_is_a_tool() -> None:
    made = tool(name="add_to_ten", description="Add to ten.")(functools.partial(add.fn, b=10))

    assert made.spec.input_schema["required"] == ["a"]
    assert invoke(made, {"a": 1}) == 11


def test_a_decorated_function_shows_the_signature_below() -> None:
    def loud(fn: Any) -> Any:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs).upper()

        return wrapper

    @tool
    @loud
    def greet(name: str) -> str:
        """Greet."""
        return f"hello {name}"

    assert greet.spec.input_schema["properties"] == {"name": {"type": "string"}}
    assert invoke(greet, {"name": "ada"}) == "HELLO ADA"


def test_a_tool_is_wrapped_by_replacing_its_function() -> None:
    quiet = replace(add, fn=lambda a, b=0: -(a + b))

    assert (invoke(quiet, {"a": 1, "b": 2}), invoke(add, {"a": 1, "b": 2})) == (-3, 3)


async def test_a_remote_tool_sends_what_was_checked() -> None:
    sent: list[tuple[dict[str, Any], Context]] = []

    async def send(args: dict[str, Any], context: Context) -> str:
        sent.append((args, context))
        return "done"

    spec = Spec(
        name="book",
        description="Book a seat.",
        input_schema={"type": "object", "properties": {"context": {"type": "string"}}},
    )
    far = Tool.remote(spec, send, origin="mcp:trains")

    assert await invoke(far, {"context": "window"}) == "done"
    assert sent == [({"context": "window"}, CONTEXT)]
    assert (far.spec, far.origin) == (spec, "mcp:trains")


def test_an_example_that_needs_a_repair_is_refused() -> None:
    with pytest.raises(DefinitionError, match="a: the string was read as a number"):
        tool(examples=[{"a": "3"}])(add.fn)


def test_a_tool_can_stand_in_a_set() -> None:
    assert {add, add} == {add}


def test_a_boolean_is_a_boolean_and_a_labelled_union_is_a_union() -> None:
    @tool
    def mark(sure: Literal[True], what: Annotated[int, Tag("number")] | str = "") -> str:
        """Mark something."""
        return f"{sure} {what}"

    assert [
        mark.parse(args) for args in ('{"sure":true,"what":1}', '{"sure":true,"what":"a"}')
    ] == [
        Args({"sure": True, "what": 1}, '{"sure":true,"what":1}'),
        Args({"sure": True, "what": "a"}, '{"sure":true,"what":"a"}'),
    ]
    assert isinstance(mark.parse('{"sure":1}'), Failure)
