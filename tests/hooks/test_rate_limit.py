"""The rate limit: a tool that was called too often is refused until some time has passed."""

from __future__ import annotations

import pytest

from handrail import READ, Call, Executor, FailureKind, Result, Toolset, tool
from handrail.hooks import rate_limit


@tool(effect=READ)
async def look() -> str:
    """Look."""
    return "seen"


@tool(effect=READ)
async def search() -> str:
    """Search."""
    return "found"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def seen(call_id: str) -> Result:
    return Result(call_id, "seen")


def refused(call_id: str, message: str) -> Result:
    return Result.fail(
        call_id, FailureKind.TRANSIENT, message, "refused by handrail.hooks.rate_limit"
    )._replace(metadata={"refused_by": "handrail.hooks.rate_limit"})


async def test_a_tool_over_its_limit_is_refused_until_the_oldest_call_is_long_enough_ago() -> None:
    clock = Clock()
    limit = rate_limit(2, seconds=10.0, clock=clock)
    async with Executor(Toolset(look), hooks=[limit]) as executor:
        outcomes = [await executor.run(Call("look", {}, "c1"))]
        clock.now += 4.0
        outcomes += [await executor.run(Call("look", {}, "c2"))]
        outcomes += [await executor.run(Call("look", {}, "c3"))]
        clock.now += 5.75
        outcomes += [await executor.run(Call("look", {}, "c4"))]
        clock.now += 0.25
        outcomes += [await executor.run(Call("look", {}, "c5"))]

    busy = (
        "Not run: 'look' is limited to 2 calls in 10 s. "
        "Retry in {} s, and continue with other work until then."
    )
    assert outcomes == [
        seen("c1"),
        seen("c2"),
        refused("c3", busy.format("6")),
        refused("c4", busy.format("0.3")),
        seen("c5"),
    ]


async def test_each_tool_has_a_count_and_some_a_limit_of_their_own() -> None:
    limit = rate_limit(1, per_tool={"look": 2}, clock=Clock())
    names = ["look", "search", "look", "search", "look"]
    async with Executor(Toolset(look, search), hooks=[limit]) as executor:
        outcomes = [await executor.run(Call(n, {}, str(i))) for i, n in enumerate(names)]

    assert [outcome.failure is None for outcome in outcomes] == [True, True, True, False, False]


async def test_a_tool_has_one_count_under_all_its_names_and_wrong_calls_are_none() -> None:
    @tool(effect=READ, aliases=["peek"])
    async def peer() -> str:
        """Peer."""
        return "seen"

    limit = rate_limit(1, clock=Clock())
    async with Executor(Toolset(peer), hooks=[limit]) as executor:
        ended = [
            await executor.run(Call(name, args, "c"))
            for name, args in [("peer", {"x": 1}), ("peek", {}), ("peer", {})]
        ]

    assert [one.failure and one.failure.kind for one in ended] == [
        FailureKind.BAD_ARGS,
        None,
        FailureKind.TRANSIENT,
    ]


async def test_names_that_were_not_called_lately_are_forgotten() -> None:
    clock = Clock()
    limit = rate_limit(1, clock=clock)
    others = [tool(name=f"look_{n}", effect=READ)(look.fn) for n in range(999)]
    many = Toolset(look, *others)
    async with Executor(many, hooks=[limit]) as executor:
        await executor.run_all(Call(f"look_{n}", {}, str(n)) for n in range(999))
        clock.now += 0.5
        first = await executor.run(Call("look", {}, "c1"))
        clock.now += 0.5
        again = await executor.run(Call("look", {}, "c2"))

    assert (first.failure, again.failure and again.failure.kind) == (None, FailureKind.TRANSIENT)


@pytest.mark.parametrize(
    ("calls", "seconds", "own"), [(0, 1.0, 1), (1, 0.0, 1), (1, 1.0, 0)], ids=str
)
def test_a_limit_that_lets_nothing_through_is_a_mistake(
    calls: int, seconds: float, own: int
) -> None:
    with pytest.raises(ValueError, match="must be greater than 0"):
        rate_limit(calls, seconds=seconds, per_tool={"look": own})
