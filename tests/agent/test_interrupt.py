"""Interruption: at every stage it ends the run, starts no more calls, and leaves a valid state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from inline_snapshot import snapshot

from agent.stage import ANY_RUN, World, by_turn, calls, kinds, look, owed, put, says, streamed
from handrail import READ, Allow, Ask, Call, Executor, FailureKind, Result, Text, Toolset, tool
from handrail.agent import Agent, RunEvent, RunResult, RunState
from handrail.approvals import defer
from handrail.messages import Delta, Model, Prompt, Reply, Request, StreamItem, ToolResults
from handrail.testing import ScriptedModel

WAYS = pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])
NOT_BEGUN = "Not run: the run was interrupted before this call started."


async def test_before_the_run_started() -> None:
    model = ScriptedModel()
    run = Agent(model, Toolset()).run("go")
    run.send("one thing more")
    run.interrupt()

    done = await run

    assert done == RunResult(
        stop_reason="interrupted",
        state=RunState(
            messages=(Prompt.of("go"),), inbox=(Prompt.of("one thing more"),), run_id=ANY_RUN
        ),
    )
    again = await Agent(ScriptedModel("ok"), Toolset()).resume(done.state, "and this")
    assert again.state == RunState(
        messages=(
            Prompt.of("go"),
            Prompt.of("one thing more"),
            Prompt.of("and this"),
            says("ok"),
        ),
        turns=1,
        run_id=ANY_RUN,
    )


async def test_before_open_calls_are_resumed() -> None:
    world = World()
    state = RunState(messages=(Prompt.of("go"), calls(look("a", "1"), put("b", "2"))), turns=1, calls=2)  # fmt: skip
    run = Agent(ScriptedModel(), world.tools).resume(state)
    run.interrupt()

    done = await run

    assert (done.stop_reason, world.did) == ("interrupted", [])
    owed(done.state.transcript())


async def test_while_the_model_thinks() -> None:
    thinking = anyio.Event()

    async def model(_: Request) -> Reply:
        thinking.set()
        await anyio.sleep_forever()
        return says("never")

    run = Agent(model, Toolset()).run("go")
    done: list[Any] = []

    async def go() -> None:
        done.append(await run)

    async with anyio.create_task_group() as group:
        group.start_soon(go)
        await thinking.wait()
        run.interrupt()

    assert done == [
        RunResult(
            stop_reason="interrupted", state=RunState(messages=(Prompt.of("go"),), run_id=ANY_RUN)
        )
    ]


async def test_while_the_model_thinks_in_its_own_scopes_and_tasks() -> None:
    thinking = anyio.Event()
    left: list[str] = []

    async def model(_: Request) -> Reply:
        try:
            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    group.start_soon(anyio.sleep_forever)
                    thinking.set()
        finally:
            left.append("left")
        return says("never")

    run = Agent(model, Toolset()).run("go")
    done: list[Any] = []

    async def go() -> None:
        done.append(await run)
        await anyio.lowlevel.checkpoint()  # nothing of the interruption is left
        done.append("went on")

    async with anyio.create_task_group() as group:
        group.start_soon(go)
        await thinking.wait()
        run.interrupt()
        run.interrupt()

    ended = RunResult(
        stop_reason="interrupted", state=RunState(messages=(Prompt.of("go"),), run_id=ANY_RUN)
    )
    assert (done, left) == ([ended, "went on"], ["left"])


@WAYS
async def test_together_with_a_cancellation_from_outside(wrap: type[Model]) -> None:
    """The cancellation takes effect immediately."""

    async def model(_: Request) -> Reply:
        with anyio.fail_after(60):
            await anyio.sleep_forever()
        return says("never")

    run = Agent(wrap(model), Toolset()).run("go")
    went_on: list[str] = []

    async def go(scope: anyio.CancelScope) -> None:
        with scope:
            await run
            await anyio.lowlevel.checkpoint()
            went_on.append("went on")

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(go, scope)
        await anyio.wait_all_tasks_blocked()
        run.interrupt()
        scope.cancel()

    assert (scope.cancelled_caught, went_on) == (True, [])
    assert run.state == RunState(messages=(Prompt.of("go"),), run_id=ANY_RUN)


@pytest.mark.parametrize("waits", [True, False])
async def test_by_the_model_itself(*, waits: bool) -> None:
    async def model(_: Request) -> Reply:
        run.interrupt()
        if waits:
            await anyio.sleep_forever()
        return says("received")

    run = Agent(model, Toolset()).run("go")

    replies = () if waits else (says("received"),)
    state = RunState(messages=(Prompt.of("go"), *replies), turns=len(replies), run_id=ANY_RUN)
    assert await run == RunResult(stop_reason="interrupted", state=state)


@pytest.mark.parametrize("waits", [True, False])
async def test_while_the_model_streams(*, waits: bool) -> None:
    world = World()
    closed: list[str] = []

    async def model(_: Request) -> AsyncIterator[StreamItem]:
        try:
            yield look("a", "1")
            yield put("b", "2")
            yield Delta("So")
            if waits:
                await anyio.sleep_forever()
            yield put("c", "3")
            yield calls(look("a", "1"), put("b", "2"), "So", put("c", "3"))
        finally:
            closed.append("closed")

    def watch(happening: RunEvent) -> None:
        if happening == Delta("So"):
            run.interrupt()

    run = Agent(model, world.tools).run("go", on_event=watch)
    done = await run

    assert (done.stop_reason, closed) == ("interrupted", ["closed"])
    assert done.state.messages[1] == Reply((Text("So"), look("a", "1"), put("b", "2")), "other")
    assert set(world.did) <= {"look a"}
    owed(done.state.transcript())


async def test_incomplete_text_is_not_the_answer() -> None:
    def watch(happening: RunEvent) -> None:
        if happening == Delta("b"):
            run.interrupt()

    run = Agent(streamed(by_turn(says("abc"))), Toolset()).run("go", on_event=watch)
    broken = await run
    model = ScriptedModel("abc, then.")
    done = await Agent(model, Toolset()).resume(broken.state)
    other = await Agent(ScriptedModel("Never mind."), Toolset()).resume(broken.state, "Stop.")

    half = Reply((Text("ab"),), "other")
    assert broken.state.messages == (Prompt.of("go"), half)
    assert done.state.messages == (
        Prompt.of("go"),
        half,
        Prompt.of("You were interrupted. Continue."),
        says("abc, then."),
    )
    assert other.state.messages[2:] == (Prompt.of("Stop."), says("Never mind."))
    for one in (broken, done, other):
        owed(one.state.transcript())


async def test_at_the_first_piece_of_text() -> None:
    async def model(_: Request) -> AsyncIterator[StreamItem]:
        yield Delta("hm", thought=True)
        yield says("never")

    run = Agent(model, Toolset()).run("go", on_event=lambda _: run.interrupt())

    assert (await run).state == RunState(messages=(Prompt.of("go"),), run_id=ANY_RUN)


@WAYS
@pytest.mark.parametrize("by", ["watch", "save"])
async def test_between_a_reply_and_its_calls(wrap: type[Model], by: str) -> None:
    world = World()

    def watch(happening: RunEvent) -> None:
        if by == "watch" and isinstance(happening, Reply):
            run.interrupt()

    async def save(state: RunState) -> None:
        await anyio.lowlevel.checkpoint()
        if by == "save" and state.open:
            run.interrupt()

    model = by_turn(calls(put("a", "1"), put("b", "2")), says("done"))
    run = Agent(wrap(model), world.tools, save=save).run("go", on_event=watch)
    done = await run

    assert (done.stop_reason, world.did) == ("interrupted", [])
    assert kinds(done.state.messages) == ["cancelled", "cancelled"]
    owed(done.state.transcript())
    again = await Agent(wrap(model), world.tools).resume(done.state)
    assert (again.stop_reason, again.text, world.did) == ("answer", "done", [])


async def test_the_result_of_a_call_that_did_not_start() -> None:
    world = World()
    model = ScriptedModel([put("a", "1")], stream=False)
    run = Agent(model, world.tools).run("go", on_event=lambda _: run.interrupt())

    assert (await run).state.messages[2] == ToolResults(
        (Result.fail("1", FailureKind.CANCELLED, NOT_BEGUN),)
    )


@WAYS
async def test_while_calls_run(wrap: type[Model]) -> None:
    started = anyio.Event()

    @tool(effect=READ)
    async def quick() -> str:
        """Be quick."""
        return "quick"

    @tool(effect=READ)
    async def slow() -> str:
        """Be slow."""
        started.set()
        await anyio.sleep_forever()
        return ""

    @tool
    async def later() -> str:
        """Come later."""
        return "never"

    asked = calls(*(Call(name, "{}", name) for name in ("quick", "slow", "later")))
    run = Agent(wrap(by_turn(asked, says("x"))), Toolset(quick, slow, later)).run("go")
    done: list[Any] = []

    async def go() -> None:
        done.append(await run)

    async with anyio.create_task_group() as group:
        group.start_soon(go)
        await started.wait()
        await anyio.wait_all_tasks_blocked()
        run.interrupt()

    assert done[0].stop_reason == "interrupted"
    assert kinds(done[0].state.messages) == ["quick", "cancelled", "cancelled"]
    owed(done[0].state.transcript())


@WAYS
async def test_while_another_run_has_calls_with_the_same_ids(wrap: type[Model]) -> None:
    """Both use one executor. The other run continues."""
    started, go_on = anyio.Event(), anyio.Event()

    @tool(effect=READ)
    async def slow() -> str:
        """Be slow."""
        started.set()
        await go_on.wait()
        return "slow"

    asked = calls(Call("slow", "{}", "1"))
    async with Executor(Toolset(slow)) as executor:
        runs = [Agent(wrap(by_turn(asked, says("x"))), executor).run("go") for _ in range(2)]
        done: dict[int, Any] = {}

        async def go(number: int) -> None:
            done[number] = await runs[number]

        async with anyio.create_task_group() as group:
            group.start_soon(go, 0)
            group.start_soon(go, 1)
            await started.wait()
            await anyio.wait_all_tasks_blocked()
            runs[0].interrupt()
            await anyio.wait_all_tasks_blocked()
            go_on.set()

    assert [done[number].stop_reason for number in range(2)] == ["interrupted", "answer"]
    assert [kinds(done[number].state.messages) for number in range(2)] == [["cancelled"], ["slow"]]


@WAYS
async def test_after_the_results_of_a_turn(wrap: type[Model]) -> None:
    world = World()

    def watch(happening: RunEvent) -> None:
        if isinstance(happening, ToolResults):
            run.interrupt()

    run = Agent(wrap(by_turn(calls(put("a", "1")))), world.tools).run("go", on_event=watch)
    done = await run

    assert (done.stop_reason, kinds(done.state.messages)) == ("interrupted", ["put a"])


async def test_an_answer_that_was_already_given_is_kept() -> None:
    def watch(_: RunEvent) -> None:
        run.interrupt()

    run = Agent(ScriptedModel("done"), Toolset()).run("go", on_event=watch)
    done = await run

    assert done.text == "done"
    assert done.stop_reason in ("answer", "interrupted")
    owed(done.state.transcript())


def asks(*_: Any) -> Ask:
    return Ask("May it?")


async def test_while_approved_calls_run() -> None:
    started = anyio.Event()

    @tool
    async def slow() -> str:
        """Be slow."""
        started.set()
        await anyio.sleep_forever()
        return ""

    model = ScriptedModel([Call("slow", "{}", "1")])
    done: list[Any] = []
    async with Executor(Toolset(slow), policy=asks, approvals=defer) as executor:
        agent = Agent(model, executor)
        waiting = await agent.run("go")
        run = agent.resume(waiting.state, answers={waiting.state.pending[0].id: Allow()})

        async def go() -> None:
            done.append(await run)

        async with anyio.create_task_group() as group:
            group.start_soon(go)
            await started.wait()
            run.interrupt()

    assert done[0].stop_reason == "interrupted"
    assert kinds(done[0].state.messages) == ["unknown"]
    owed(done[0].state.transcript())


async def test_before_approved_calls_run() -> None:
    world = World()
    async with Executor(world.tools, policy=asks, approvals=defer) as executor:
        agent = Agent(ScriptedModel([put("a", "1")]), executor)
        waiting = await agent.run("go")
        run = agent.resume(waiting.state, answers={waiting.state.pending[0].id: Allow()})
        run.interrupt()

        assert await run == waiting
        assert world.did == []


async def test_interrupting_twice_is_the_same() -> None:
    run = Agent(ScriptedModel(), Toolset()).run("go")
    run.interrupt()
    run.interrupt()

    assert (await run).stop_reason == snapshot("interrupted")
