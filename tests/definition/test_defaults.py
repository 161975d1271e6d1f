"""No call sees what another one did to a default value."""
# ruff: noqa: B006, B008, RUF012  defaults that can be changed are the subject

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel

from handrail import (
    READ,
    Access,
    Call,
    CheckedCall,
    Context,
    DefinitionError,
    Deny,
    Executor,
    Retry,
    Toolset,
    Transient,
    tool,
)


@dataclass
class Basket:
    """A default with fields of its own."""

    items: list[int] = field(default_factory=list[int])


@dataclass(eq=False)
class Counter:
    """A default with a hash, which can be changed all the same."""

    items: tuple[int, ...] = ()


@dataclass
class Single:
    """A default that has no copies."""

    a: int = 1

    def __deepcopy__(self, memo: object) -> Single:
        raise TypeError("there is one only")


class Order(BaseModel):
    """A default that is a model."""

    items: list[int] = []


class Row(NamedTuple):
    """A type whose own default can be changed."""

    a: int = 1
    items: list[int] = []


class Holder(BaseModel):
    """A model with defaults that have a hash, and can be changed."""

    one: Counter = Counter()
    several: tuple[Counter, ...] = (Counter(),)


async def plain(a: int, items: list[int] = []) -> str:
    """Take a list."""
    items.append(a)
    return str(items)


def threaded(a: int, items: dict[str, int] = {}) -> str:
    """Take a mapping."""
    items[str(len(items))] = a
    return str(list(items.values()))


def yielding(a: int, items: set[int] = set()) -> Iterator[str]:
    """Take a set."""
    items.add(a + len(items))
    yield str(sorted(items))


async def streaming(a: int, items: list[list[int]] = [[]]) -> AsyncIterator[str]:
    """Take nested lists."""
    items[0].append(a)
    yield str(items[0])


async def inside(a: int, items: tuple[list[int], int] = ([], 1)) -> str:
    """Take a list inside a tuple."""
    items[0].append(a)
    return str(items[0])


async def basket(a: int, items: Basket = Basket()) -> str:
    """Take a dataclass."""
    items.items.append(a)
    return str(items.items)


async def counter(a: int, items: Counter = Counter()) -> str:
    """Take a dataclass that has a hash."""
    items.items += (a,)
    return str(list(items.items))


async def order(a: int, items: Order = Order()) -> str:
    """Take a model."""
    items.items.append(a)
    return str(items.items)


async def row(a: int, items: Row = Row()) -> str:
    """Take a named tuple."""
    items.items.append(a)
    return str(items.items)


async def context(_context: Context, a: int, items: list[int] = []) -> str:
    """Take a context, too."""
    items.append(a)
    return str(items)


async def position(a: int, items: list[int] = [], /) -> str:
    """Take a list by its position."""
    items.append(a)
    return str(items)


async def _bound(a: int, items: list[int]) -> str:
    items.append(a)
    return str(items)


KINDS: dict[str, Callable[..., Any]] = {
    fn.__name__: fn
    for fn in (
        *(plain, threaded, yielding, streaming, inside, basket, counter, order),
        *(row, context, position),
    )
} | {"bound": partial(_bound, items=[])}


@pytest.mark.parametrize("name", KINDS)
async def test_invariant_02_each_call_gets_its_own_default(name: str) -> None:
    made = tool(effect=READ, name="take", description="Take.")(KINDS[name])
    async with Executor(Toolset(made)) as executor:
        results = [await executor.run(Call("take", {"a": 1})) for _ in range(3)]

    assert [result.text for result in results] == ["[1]"] * 3


def test_a_function_of_its_own_keeps_pythons_defaults() -> None:
    """The control: without an executor, one list is shared by all calls."""
    seen: list[int] = []

    @tool(effect=READ)
    def keep(a: int, items: list[int] = seen) -> str:
        """Keep."""
        items.append(a)
        return str(items)

    assert [keep(1), keep(1)] == ["[1]", "[1, 1]"]


async def test_invariant_02_each_attempt_gets_its_own_default() -> None:
    attempts: list[list[int]] = []

    @tool(effect=READ, retry=Retry(attempts=3, base=0.0))
    async def take(a: int, items: list[int] = []) -> str:
        """Take."""
        items.append(a)
        attempts.append(items)
        if len(attempts) < 3:
            raise Transient("again")
        return str(items)

    async with Executor(Toolset(take)) as executor:
        result = await executor.run(Call("take", {"a": 1}))

    assert (result.text, attempts) == ("[1]", [[1], [1], [1]])


async def test_a_default_is_the_one_of_the_definition() -> None:
    shared = [1]

    @tool(effect=READ)
    async def take(items: list[int] = shared) -> str:
        """Take."""
        return str(items)

    shared.append(2)
    async with Executor(Toolset(take)) as executor:
        result = await executor.run(Call("take", {}))

    assert result.text == "[1]"


async def test_touches_and_policies_get_defaults_of_their_own() -> None:
    def touch(items: list[str]) -> Access:
        items.append("touched")
        return Access(READ, "file:a")

    def decide(call: CheckedCall) -> Deny | Any:
        call.args["items"].append("decided")
        return Deny(str(call.args["items"]))

    @tool(effect=READ, touches=touch)
    async def take(items: list[str] = ["default"]) -> str:
        """Take."""
        return str(items)

    async with (
        Executor(Toolset(take)) as executor,
        Executor(Toolset(take), policy=decide) as denying,
    ):
        results = [await executor.run(Call("take", {})), await denying.run(Call("take", {}))]

    assert [result.text for result in results] == ["['default']"] * 2


@pytest.mark.parametrize("part", ["one", "several"])
async def test_defaults_inside_a_type_are_not_shared(part: str) -> None:
    @tool(effect=READ)
    async def take(holder: Holder) -> str:
        """Take."""
        counter = holder.one if part == "one" else holder.several[0]
        counter.items += (1,)
        return str(counter.items)

    async with Executor(Toolset(take)) as executor:
        results = [await executor.run(Call("take", {"holder": {}})) for _ in range(3)]

    assert [result.text for result in results] == ["(1,)"] * 3


def test_a_default_that_cannot_be_copied_is_refused() -> None:
    with pytest.raises(DefinitionError) as caught:

        @tool(effect=READ)
        async def take(one: Single = Single()) -> str:  # pyright: ignore[reportUnusedFunction]
            """Take."""
            return str(one)

    assert str(caught.value).partition("): ")[2] == snapshot(
        "the default of 'one' cannot be copied (TypeError), so calls would share it. Use None."
    )
