"""The circuit breaker: a tool that keeps failing is left alone for a while."""

from __future__ import annotations

from itertools import count

import anyio
import pytest

from handrail import (
    READ,
    Call,
    CheckedCall,
    Executor,
    FailureKind,
    Hook,
    Refused,
    Result,
    ToolFailed,
    Toolset,
    Transient,
    tool,
)
from handrail.hooks import cache, circuit_breaker, rate_limit


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def asked(answers: list[object]) -> Toolset:
    """A tool that gives or raises these, one after the other."""

    @tool(effect=READ)
    async def ask(n: int = 0) -> str:
        """Ask."""
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    return Toolset(ask)


async def kinds(executor: Executor, *ids: str) -> list[str]:
    """How calls end that are made one after the other."""
    made: list[str] = []
    for call_id in ids:
        outcome = await executor.run(Call("ask", {}, call_id))
        made.append(outcome.failure.kind.value if outcome.failure else outcome.text)
    return made


def guarded(answers: list[object], clock: Clock, failures: int = 2) -> Executor:
    breaker = circuit_breaker(failures=failures, cooldown=10.0, clock=clock)
    return Executor(asked(answers), hooks=[breaker])


async def test_after_so_many_failures_in_a_row_a_tool_is_left_alone() -> None:
    clock = Clock()
    answers: list[object] = [Transient("busy"), OSError(), "unreached"]
    async with guarded(answers, clock) as executor:
        first = await kinds(executor, "c1", "c2")
        clock.now = 2.5
        outcome = await executor.run(Call("ask", {}, "c3"))

    assert first == ["transient", "bug"]
    assert outcome == Result.fail(
        "c3",
        FailureKind.TRANSIENT,
        "Not run: 'ask' failed 2 times in a row and is paused. Retry in 7.5 s, and continue with other work until then, or tell the user.",
        "refused by handrail.hooks.circuit_breaker",
    )._replace(metadata={"refused_by": "handrail.hooks.circuit_breaker"})
    assert answers == ["unreached"]


async def test_after_the_cooldown_one_call_finds_out_for_all() -> None:
    clock = Clock()
    async with guarded([OSError(), OSError(), OSError(), "ok", OSError(), "ok"], clock) as executor:
        assert await kinds(executor, "c1", "c2", "c3") == ["bug", "bug", "transient"]
        clock.now = 10.0
        assert await kinds(executor, "c4", "c5") == ["bug", "transient"]
        clock.now = 19.0
        assert await kinds(executor, "c6") == ["transient"]
        clock.now = 20.0
        assert await kinds(executor, "c7", "c8", "c9") == ["ok", "bug", "ok"]


async def test_while_one_call_finds_out_the_others_are_refused() -> None:
    clock = Clock()
    breaker = circuit_breaker(failures=1, cooldown=10.0, clock=clock)
    started, may_end, calls = anyio.Event(), anyio.Event(), count()

    @tool(effect=READ)
    async def ask() -> str:
        """Break; wait; work."""
        if next(calls) == 0:
            raise OSError
        started.set()
        await may_end.wait()
        return "ok"

    async with Executor(Toolset(ask), hooks=[breaker]) as executor:
        assert await kinds(executor, "c1") == ["bug"]
        clock.now = 10.0
        turn = executor.turn()
        turn.add(Call("ask", {}, "c2"))
        await started.wait()
        assert await kinds(executor, "c3") == ["transient"]
        may_end.set()
        assert await turn.results() == [Result("c2", "ok")]
        assert await kinds(executor, "c4") == ["ok"]


@pytest.mark.parametrize("between", ["ok", ToolFailed("no such page")])
async def test_a_tool_that_did_its_work_in_between_is_not_in_trouble(between: object) -> None:
    answers = [OSError(), between, OSError(), "ok"]
    async with guarded(answers, Clock()) as executor:
        ended = await kinds(executor, "c1", "c2", "c3", "c4")

    assert [ended[0], *ended[2:]] == ["bug", "bug", "ok"]


async def test_a_call_that_did_not_reach_the_tool_says_nothing_of_it() -> None:
    clock = Clock()
    no = Refused("not that one")
    async with guarded([no, OSError(), no, OSError(), "ok"], clock) as executor:
        assert await kinds(executor, "c0") == ["denied"]
        wrong = await executor.run(Call("ask", {"n": "x"}, "c0"))
        assert wrong.failure is not None
        assert await kinds(executor, "c1", "c2", "c3", "c4") == [
            "bug",
            "denied",
            "bug",
            "transient",
        ]
        clock.now = 10.0
        wrong = await executor.run(Call("ask", {"n": "x"}, "c5"))
        assert wrong.failure is not None
        assert wrong.failure.kind is FailureKind.BAD_ARGS
        assert await kinds(executor, "c6") == ["ok"]


async def test_what_other_hooks_answer_is_not_the_tools_doing() -> None:
    clock = Clock()
    breaker = circuit_breaker(failures=2, cooldown=10.0, clock=clock)
    limit = rate_limit(1, seconds=5.0, clock=clock)
    tools = asked([OSError(), OSError()])
    memory = cache(clock=clock)
    async with Executor(tools, hooks=[memory, breaker, limit]) as executor:
        assert await kinds(executor, "c1", "c2", "c3") == ["bug", "transient", "transient"]
        clock.now = 5.0
        assert await kinds(executor, "c4", "c5") == ["bug", "transient"]


async def test_what_another_circuit_breaker_refuses_is_not_the_tools_doing() -> None:
    clock = Clock()
    outer = circuit_breaker(failures=3, cooldown=100.0, clock=clock)
    inner = circuit_breaker(failures=1, cooldown=10.0, clock=clock)
    async with Executor(asked([OSError(), "ok"]), hooks=[outer, inner]) as executor:
        assert await kinds(executor, "c1", "c2", "c3", "c4") == ["bug", *["transient"] * 3]
        clock.now = 10.0
        assert await kinds(executor, "c5") == ["ok"]


async def test_an_answer_from_a_cache_does_not_close_the_circuit() -> None:
    clock = Clock()
    breaker = circuit_breaker(failures=1, cooldown=10.0, clock=clock)
    tools = asked(["ok", OSError()])
    memory = cache(clock=clock)
    async with Executor(tools, hooks=[memory, breaker]) as executor:
        assert await kinds(executor, "c1") == ["ok"]
        await executor.run(Call("ask", {"n": 1}, "c2"))
        assert await kinds(executor, "c3") == ["ok"]
        outcome = await executor.run(Call("ask", {"n": 1}, "c4"))

    assert outcome.failure is not None
    assert outcome.failure.detail == "refused by handrail.hooks.circuit_breaker"


async def test_a_call_that_was_cancelled_while_it_found_out_lets_another_one_try() -> None:
    clock = Clock()
    breaker = circuit_breaker(failures=1, cooldown=10.0, clock=clock)
    started, calls = anyio.Event(), count()

    @tool(effect=READ)
    async def ask() -> str:
        """Break; wait; work."""
        n = next(calls)
        if n == 0:
            raise OSError
        if n == 1:
            started.set()
            await anyio.sleep_forever()
        return "ok"

    async with Executor(Toolset(ask), hooks=[breaker]) as executor:
        assert await kinds(executor, "c1", "c2") == ["bug", "transient"]
        clock.now = 10.0
        turn = executor.turn()
        turn.add(Call("ask", {}, "c3"))
        await started.wait()
        turn.cancel()
        [cancelled] = await turn.results()
        assert cancelled.failure is not None
        assert cancelled.failure.kind is FailureKind.CANCELLED
        assert await kinds(executor, "c4") == ["ok"]


async def test_a_hook_inside_it_that_breaks_is_not_the_tools_doing() -> None:
    async def breaks(_call: CheckedCall, _run: object) -> Result:
        raise LookupError("inside")

    breaker = circuit_breaker(failures=1, clock=Clock())
    hooks = [breaker, Hook(around=breaks)]
    async with Executor(asked(["unreached"]), hooks=hooks) as executor:
        ended = [await executor.run(Call("ask", {}, call_id)) for call_id in ("c1", "c2")]

    assert [one.failure and one.failure.detail for one in ended] == ["LookupError('inside')"] * 2


def test_a_breaker_that_is_always_open_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        circuit_breaker(failures=0)
