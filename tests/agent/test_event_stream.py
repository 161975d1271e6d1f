"""A streamed run: everything that a user interface shows, and questions that it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from agent.stage import World, by_turn, calls, look, put, says, streamed
from handrail import Allow, Ask, Call, Context, Deny, Executor, Result, Toolset, tool
from handrail.agent import Agent, RunResult, StreamEvent
from handrail.approvals import defer
from handrail.events import Asked, Finished, Progressed, Requested, Started, Yielded
from handrail.messages import Delta, ModelError, Prompt, Reply, Request, StreamItem


def show(event: StreamEvent[Any]) -> str:  # noqa: C901, PLR0911  one case for each kind
    """Every kind of event. Type checkers report a kind that is missing."""
    match event:
        case Delta(text):
            return f"text {text}"
        case Requested(call=call):
            return f"call {call.name}"
        case Asked(pending=pending):
            return f"ask {pending.call.name}"
        case Started(call_id=call_id):
            return f"started {call_id}"
        case Progressed(call_id=call_id, message=message):
            return f"progress {call_id} {message}"
        case Yielded(call_id=call_id, text=text):
            return f"output {call_id} {text}"
        case Finished(result=result):
            return (
                f"result {result.call_id} {result.failure.kind.value if result.failure else 'ok'}"
            )
        case Reply():
            return "reply"
        case RunResult():
            return f"end {event.stop_reason}"


@tool
async def count(context: Context) -> AsyncIterator[str]:
    """Count."""
    context.progress("counting", 0.5)
    yield "1"


async def test_a_stream_has_text_calls_progress_results_and_the_end() -> None:
    model = streamed(by_turn(calls("Go", Call("count", "{}", "1")), says("!")))

    async with Agent(model, [count]).stream("go") as events:
        shown = [show(event) async for event in events]

    assert shown == [
        "text G",
        "text o",
        "call count",
        "reply",
        "started 1",
        "progress 1 counting",
        "output 1 1",
        "result 1 ok",
        "text !",
        "reply",
        "end answer",
    ]
    assert events.result.output == "!"
    assert events.state == events.result.state


def asks(*_: object) -> Ask:
    return Ask("May it?")


@pytest.mark.parametrize("answer", [Allow(), Deny("no"), Result("1", "as if"), None])
async def test_a_question_is_answered_where_it_is_shown(answer: Any) -> None:
    world, shown = World(), list[str]()
    model = by_turn(calls(put("a", "1")), says("done"))
    async with (
        Executor(world.tools, policy=asks) as executor,
        Agent(model, executor).stream("go") as events,
    ):
        async for event in events:
            shown.append(show(event))
            if isinstance(event, Asked) and answer is not None:
                events.answer(event.pending, answer)

    ran = isinstance(answer, Allow)
    assert world.did == (["put a"] if ran else [])
    ends = "end pending" if answer is None else "end answer"
    assert (shown[:3], shown[-1]) == (["reply", "call put", "ask put"], ends)


async def test_a_pending_question_is_answered_when_the_state_is_streamed_again() -> None:
    world = World()
    model = by_turn(calls(put("a", "1")), says("done"))
    async with Executor(world.tools, policy=asks) as executor:
        agent = Agent(model, executor)
        async with agent.stream("go") as events:
            async for _ in events:
                pass
        answers = {pending.id: Allow() for pending in events.state.pending}
        async with agent.stream(history=events.state, answers=answers) as events:
            shown = [show(event) async for event in events]

    assert (world.did, shown[-1]) == (["put a"], "end answer")


async def test_an_approver_of_the_executor_answers_instead() -> None:
    world = World()
    model = by_turn(calls(put("a", "1")), says("done"))
    async with (
        Executor(world.tools, policy=asks, approvals=defer) as executor,
        Agent(model, executor).stream("go") as events,
    ):
        async for event in events:
            if isinstance(event, Asked):
                events.answer(event.pending, Allow())

    assert (events.result.stop_reason, world.did) == ("pending", [])


async def test_a_stream_has_only_the_events_of_its_own_run() -> None:
    async with Executor(Toolset(count)) as executor:
        agent = Agent(by_turn(calls(Call("count", "{}", "1")), says("done")), executor)
        async with agent.stream("one") as first, agent.stream("two") as second:
            one = [show(event) async for event in first]
            two = [show(event) async for event in second]

    assert one.count("call count") == two.count("call count") == 1


async def test_a_model_that_fails_fails_where_the_events_are_read() -> None:
    world = World()

    async def model(request: Request) -> AsyncIterator[StreamItem]:
        if len(request.messages) > 1:
            raise ModelError("reset", "network")
        yield look("a", "1")
        yield calls(look("a", "1"))

    shown: list[str] = []
    async with Agent(model, world.tools).stream("go") as events:
        while shown[-1:] != ["result 1 ok"]:
            shown.append(show(await anext(events)))
        with pytest.raises(ModelError) as failed:
            await anext(events)

    assert failed.value.state == events.state
    with pytest.raises(RuntimeError, match="has not ended"):
        _ = events.result


async def test_an_error_of_the_block_is_raised_as_it_is() -> None:
    async def block() -> None:
        async with Agent(by_turn(says("hi"))).stream("go"):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await block()


async def test_leaving_a_stream_early_cancels_the_run() -> None:
    cancelled: list[bool] = []

    async def model(_: Request) -> AsyncIterator[StreamItem]:
        try:
            yield Delta("Hm")
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)

    async with Agent(model).stream("go") as events:
        assert [show(await anext(events))] == ["text Hm"]

    assert cancelled == [True]


async def test_a_streamed_run_can_be_steered_and_stopped() -> None:
    @tool
    async def hold() -> None:
        """Wait."""
        await anyio.sleep_forever()

    async with Agent(by_turn(calls(Call("hold", "{}", "1"))), [hold]).stream("go") as events:
        async for event in events:
            if isinstance(event, Started):
                events.send("Then b.")
                events.interrupt()

    assert events.result.stop_reason == "interrupted"
    assert events.state.inbox == (Prompt.of("Then b."),)
