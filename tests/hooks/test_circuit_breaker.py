"""The circuit breaker: a tool that keeps failing is left alone for a while."""

from __future__ import annotations

import anyio
import pytest

from handrail import (
    READ,
    Call,
    Executor,
    Kind,
    Refused,
    Result,
    ToolFailed,
    Toolset,
    Transient,
    tool,
)
from handrail.hooks import cache, circuit_breaker, rate_limit
from handrail.hooks.circuit_breaker import _MANY


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
    return Executor(asked(answers), before=[breaker.before], after=[breaker.after])


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
        Kind.TRANSIENT,
        "The tool 'ask' failed 2 times in a row and is left alone for a while; nothing was run. It "
        "may be tried again in 7.5 seconds: do something else first, or tell the user.",
        "refused by handrail.hooks.circuit_breaker",
    )
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
    tools = asked([OSError(), "ok", "ok"])
    async with Executor(tools, before=[breaker.before], after=[breaker.after]) as executor:
        await kinds(executor, "c1")
        clock.now = 10.0
        together = await executor.run_all([Call("ask", {}, "c2"), Call("ask", {}, "c3")])
        assert [one.failure and one.failure.kind for one in together] == [None, Kind.TRANSIENT]
        assert await kinds(executor, "c4") == ["ok"]


@pytest.mark.parametrize("between", ["ok", ToolFailed("no such page")])
async def test_a_tool_that_did_its_work_in_between_is_not_in_trouble(between: object) -> None:
    answers = [OSError(), between, OSError(), "ok"]
    async with guarded(answers, Clock()) as executor:
        ended = await kinds(executor, "c1", "c2", "c3", "c4")

    assert [ended[0], *ended[2:]] == ["bug", "bug", "ok"]


async def test_a_call_that_did_not_reach_the_tool_says_nothing_of_it() -> None:
    clock = Clock()
    async with guarded([OSError(), Refused("not that one"), OSError(), "ok"], clock) as executor:
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
        assert wrong.failure.kind is Kind.BAD_ARGS
        assert await kinds(executor, "c6") == ["ok"]


async def test_what_other_hooks_answer_is_not_the_tools_doing() -> None:
    clock = Clock()
    breaker = circuit_breaker(failures=2, cooldown=10.0, clock=clock)
    limit = rate_limit(1, seconds=5.0, clock=clock)
    tools = asked([OSError(), OSError()])
    memory = cache(tools, clock=clock)
    async with Executor(
        tools,
        before=[memory.before, breaker.before, limit.before],
        after=[memory.after, breaker.after],
    ) as executor:
        assert await kinds(executor, "c1", "c2", "c3") == ["bug", "transient", "transient"]
        clock.now = 5.0
        assert await kinds(executor, "c4", "c5") == ["bug", "transient"]


async def test_an_answer_from_a_cache_does_not_close_the_circuit() -> None:
    clock = Clock()
    breaker = circuit_breaker(failures=1, cooldown=10.0, clock=clock)
    tools = asked(["ok", OSError()])
    memory = cache(tools, clock=clock)
    async with Executor(
        tools, before=[memory.before, breaker.before], after=[memory.after, breaker.after]
    ) as executor:
        assert await kinds(executor, "c1") == ["ok"]
        await executor.run(Call("ask", {"n": 1}, "c2"))
        assert await kinds(executor, "c3") == ["ok"]
        outcome = await executor.run(Call("ask", {"n": 1}, "c4"))

    assert outcome.failure is not None
    assert outcome.failure.detail == "refused by handrail.hooks.circuit_breaker"


async def test_calls_whose_result_never_comes_are_forgotten_in_the_end() -> None:
    breaker = circuit_breaker(failures=1)
    started = anyio.Event()

    @tool(effect=READ)
    async def ask() -> str:
        """Ask."""
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    tools = Toolset(ask)
    async with Executor(tools, before=[breaker.before], after=[breaker.after]) as executor:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(executor.run, Call("ask", {}, "lost"))
            await started.wait()
            tasks.cancel_scope.cancel()
        for n in range(_MANY):
            await breaker.before(Call("ask", {}, str(n)))
        outcome = Result.fail("lost", Kind.TIMEOUT, "too late")
        assert await breaker.after(Call("ask", {}, "lost"), outcome) == outcome
        assert await breaker.before(Call("ask", {}, "next")) == Call("ask", {}, "next")


def test_a_breaker_that_is_always_open_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="after at least one failure"):
        circuit_breaker(failures=0)
