"""Whatever a tool's or a host's own functions raise, each call has one result."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import anyio
import pytest
from pydantic import AfterValidator

from handrail import READ, Access, Allow, Call, CheckedCall, Decision, Executor, Toolset, tool


class Unusual(BaseException):
    """An exception that is no Exception."""


ERRORS = [SystemExit(3), GeneratorExit(), Unusual("odd"), asyncio.CancelledError(), StopIteration()]
NAMES = [type(error).__name__ for error in ERRORS]
CALLS = [Call("fails", {"n": 1}, "1"), Call("works", {"n": 2}, "2")]


@tool(effect=READ)
async def works(n: int) -> str:
    """Work."""
    return f"worked {n}"


def in_touches(error: BaseException) -> Any:
    def touch(n: int) -> Access:
        raise error

    @tool(effect=READ, touches=touch)
    async def fails(n: int) -> str:
        """Fail."""
        return f"never {n}"

    return Executor(Toolset(fails, works))


def in_a_validator(error: BaseException) -> Any:
    def check(n: int) -> int:
        raise error

    async def fails(n: Annotated[int, AfterValidator(check)]) -> str:
        """Fail."""
        return f"never {n}"

    return Executor(Toolset(tool(effect=READ)(fails), works))


def in_a_policy(error: BaseException) -> Any:
    def decide(call: CheckedCall) -> Allow:
        if call.name == "fails":
            raise error
        return Allow()

    @tool(effect=READ)
    async def fails(n: int) -> str:
        """Fail."""
        return f"never {n}"

    return Executor(Toolset(fails, works), policy=decide)


PLACES = [in_touches, in_a_validator, in_a_policy]
TEXTS = {
    in_touches: "Not run: the tool 'fails' is broken: it failed to declare what it would touch. Calling again will not help; tell the user.",
    in_a_validator: "Not run: the tool 'fails' is broken: it failed to read its arguments. Calling again will not help; tell the user.",
    in_a_policy: "Not run: the permission check failed ({}). Calling again will not help; tell the user.",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", ERRORS, ids=NAMES)
async def test_invariant_01_an_error_of_any_kind_is_one_result(
    place: Any, error: BaseException
) -> None:
    async with place(error) as executor:
        alone = await executor.run(CALLS[0])
        together = await executor.run_all(CALLS)

    text = TEXTS[place].format(type(error).__name__)
    assert [one.text for one in (alone, *together)] == [text, text, "worked 2"]


@pytest.mark.parametrize("place", PLACES)
async def test_only_a_keyboard_interrupt_passes(place: Any) -> None:
    """The control: what a person does at the keyboard is no error of a function."""
    with pytest.raises(KeyboardInterrupt):
        await place(KeyboardInterrupt()).run(CALLS[0])


class Decider:
    """A policy that is an object."""

    async def __call__(self, _call: CheckedCall) -> Allow:
        return Allow()


async def decide(_call: CheckedCall) -> Allow:
    return Allow()


@pytest.mark.parametrize("policy", [decide, Decider()], ids=["function", "object"])
def test_an_async_policy_is_refused_at_once(policy: Any) -> None:
    executor = Executor(Toolset(works))
    name = getattr(policy, "__name__", "Decider")
    words = (
        f"={name}): this is async, but a policy decides at once. Use `def`, and do what must wait in a "
        "`before` hook."
    )

    with pytest.raises(TypeError) as made:
        Executor(Toolset(works), policy=policy)
    with pytest.raises(TypeError) as restricted:
        executor.restrict(policy=policy)

    assert str(made.value) == f"Executor(policy{words}"
    assert str(restricted.value) == f"restrict(policy{words}"


class Raising:
    """A policy that raises on one call: while it decides, or when asked whether it is quick."""

    def __init__(self, place: str, error: type[BaseException]) -> None:
        self._place, self._error = place, error

    def is_quick(self, call: CheckedCall) -> bool:
        return self._raise("is_quick", call)

    def __call__(self, call: CheckedCall) -> Decision:
        self._raise("decision", call)
        return Allow()

    def _raise(self, place: str, call: CheckedCall) -> bool:
        if (place, call.id) == (self._place, "2"):
            raise self._error
        return True


@pytest.mark.parametrize("place", ["is_quick", "decision"])
async def test_an_interrupt_of_a_decision_ends_the_turn_with_one_result_each(place: str) -> None:
    calls = [Call("works", {"n": number}, str(number)) for number in (1, 2, 3)]
    with anyio.fail_after(20):
        async with Executor(Toolset(works), policy=Raising(place, KeyboardInterrupt)) as executor:
            turn = executor.turn()
            with pytest.raises(KeyboardInterrupt):
                await executor.run_all(calls, turn=turn)
            await turn.ended()

    assert [one in turn for one in ("1", "2", "3")] == [True] * 3


async def test_a_policy_that_fails_to_say_whether_it_is_quick_decides_in_a_thread() -> None:
    calls = [Call("works", {"n": number}, str(number)) for number in (1, 2, 3)]
    async with Executor(Toolset(works), policy=Raising("is_quick", SystemExit)) as executor:
        results = await executor.run_all(calls)

    assert [one.failure for one in results] == [None, None, None]
