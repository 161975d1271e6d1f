"""A streamed run: everything that a user interface shows, and questions that it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from agent.stage import World, by_turn, calls, fill, look, put, says, streamed
from handrail import (
    READ,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Deny,
    Executor,
    Result,
    Toolset,
    tool,
)
from handrail.agent import Agent, EventStream, InnerEvent, RunResult, RunState, StreamEvent
from handrail.approvals import defer
from handrail.events import Asked, Finished, Progressed, Requested, Started, Yielded
from handrail.messages import Delta, ModelError, Prompt, Reply, Request, StreamItem
from handrail.permissions import Pending
from handrail.testing import ScriptedModel
from virtual_time import Quick


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

        with pytest.raises(StopAsyncIteration):
            await anext(events)

    assert failed.value.state == events.state
    with pytest.raises(ModelError, match="reset"):
        _ = events.result


async def test_the_result_of_a_run_that_failed_is_its_error_if_no_event_is_read() -> None:
    async with Agent(ScriptedModel(ModelError("reset", "network"))).stream("go") as events:
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(ModelError, match="reset"):
            _ = events.result


async def test_a_stream_that_is_left_at_once_has_no_result_and_no_events() -> None:
    async with Agent(by_turn(says("hi"))).stream("go") as events:
        pass

    with anyio.fail_after(10), pytest.raises(RuntimeError, match="has not ended"):
        _ = [event async for event in events]


async def test_a_stream_hears_nothing_before_it_is_entered() -> None:
    state = RunState((Prompt.of("hi"), says("hello")), run_id="r", turns=1)
    async with Executor(Toolset(count)) as executor:
        one = calls(Call("count", "{}", "1"))
        agent = Agent(by_turn(says("hello"), one, says("done")), executor)
        stream = agent.stream("go", history=state)
        await agent.run("go", history=state)
        async with stream as events:
            shown = [show(event) async for event in events]

    assert shown.count("call count") == 1


async def test_a_stream_and_its_listener_both_get_the_events() -> None:
    heard: list[object] = []
    async with Agent(streamed(by_turn(says("Hm")))).stream("go", on_event=heard.append) as events:
        shown = [event async for event in events]

    assert heard == [Delta("H"), Delta("m"), says("Hm")] == shown[:-1]


async def test_a_listener_of_a_stream_must_be_a_plain_function() -> None:
    async def listen(_: object) -> None: ...

    with pytest.raises(TypeError, match="plain function"):
        Agent(by_turn(says("Hm"))).stream("go", on_event=cast("Any", listen))


def fills(request: Request) -> Reply:
    """Fill what the prompt names. Every run has the same call id."""
    last = request.messages[-1]
    return calls(fill(last.parts[0].text, "1")) if isinstance(last, Prompt) else says("done")


SHARED = RunState((Prompt.of("hi"), says("hello")), run_id="shared", turns=1)


async def test_an_answer_is_tied_to_the_call_and_not_to_its_id() -> None:
    world, done = World(), list[str]()

    async def model(request: Request) -> Reply:
        return fills(request)

    async with Executor(world.tools, policy=asks) as executor:
        agent = Agent(model, executor)

        async def watch(path: str) -> None:
            async with agent.stream(path, history=SHARED) as events:
                async for event in events:
                    if isinstance(event, Asked) and '"a"' in event.pending.call.args:
                        events.answer(event.pending, Allow())
            done.append(f"{path} {events.result.stop_reason}")

        async with anyio.create_task_group() as group:
            group.start_soon(watch, "a")
            group.start_soon(watch, "b")

    assert (world.did, sorted(done)) == (["fill a"], ["a answer", "b pending"])


async def test_the_same_question_of_another_run_is_not_one_of_this_run() -> None:
    world, go = World(), anyio.Event()

    async def first(request: Request) -> Reply:
        return fills(request)

    async def second(request: Request) -> Reply:
        await go.wait()
        return fills(request)

    async with (
        Executor(world.tools, policy=asks) as executor,
        Agent(first, executor).stream("a", history=SHARED) as one,
        Agent(second, executor).stream("a", history=SHARED) as two,
    ):
        asked = [await next_question(one), await next_question(two)]
        assert asked[0] == asked[1], "both have the events of the first run"
        one.answer(asked[0], Allow())
        async for _ in one:
            pass
        go.set()
        two.answer(await next_question(two), Allow())
        async for _ in two:
            pass

    assert (two.result.stop_reason, world.did) == ("answer", ["fill a", "fill a"])


async def next_question(events: EventStream[str]) -> Pending:
    async for event in events:
        if isinstance(event, Asked):
            return event.pending
    raise AssertionError("no question")


def put_asks(call: CheckedCall) -> Decision:
    return Ask("May it?") if call.name == "put" else Allow()


@pytest.mark.parametrize("first", [put("a", "1"), Call("scout", {"task": "x"}, "s")])
async def test_a_question_is_shown_however_many_events_follow_it(
    monkeypatch: pytest.MonkeyPatch, first: Call
) -> None:
    monkeypatch.setattr("handrail._turn.event_feed.MAX_UNREAD", 5)
    world, told = World(), anyio.Event()

    @tool(effect=READ, touches=lambda: ())
    async def talk(context: Context) -> str:
        """Report much progress."""
        await anyio.wait_all_tasks_blocked()  # the question was asked
        for number in range(20):
            context.progress(str(number))
        told.set()
        return "ok"

    inner = Agent(by_turn(calls(put("a", "1")), says("ok")), world.tools, policy=Quick(put_asks))
    scout = inner.as_tool("scout", "Put.", touches=lambda task: Access("write", f"task:{task}"))
    model = by_turn(calls(first, Call("talk", "{}", "2")), says("done"))
    agent = Agent(model, [*world.tools, talk, scout], policy=Quick(put_asks))
    with anyio.fail_after(10):
        async with agent.stream("go") as events:
            await told.wait()
            async for event in events:
                shown = event.event if isinstance(event, InnerEvent) else event
                if isinstance(shown, Asked):
                    events.answer(shown.pending, Allow())

    assert (events.result.stop_reason, world.did) == ("answer", ["put a"])


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


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_what_ends_a_program_is_raised_where_the_events_are_read(
    error: type[BaseException],
) -> None:
    async def model(_request: Request) -> Reply:
        await anyio.lowlevel.checkpoint()
        raise error

    async with Agent(model).stream("go") as events:
        with pytest.raises(error):
            await anext(events)
        with pytest.raises(error):
            _ = events.result


@pytest.mark.parametrize("begun", [False, True])
def test_a_run_whose_task_is_cancelled_with_the_event_loop_has_no_result(*, begun: bool) -> None:
    async def main() -> None:
        async with Agent(streamed(by_turn(says("abc")))).stream("go") as events:
            if begun:
                assert await anext(events) == Delta("a")
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            with pytest.raises(RuntimeError, match="has not ended"):
                async for _ in events:
                    pass

    asyncio.run(main())


async def test_leaving_waits_until_the_run_has_ended_also_if_it_is_cancelled() -> None:
    did = list[str]()

    async def model(_request: Request) -> AsyncIterator[StreamItem]:
        try:
            yield Delta("a")
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            did.append("closed")

    with anyio.CancelScope() as scope:
        async with Agent(model).stream("go") as events:
            await anext(events)
            scope.cancel()
            await anext(events)
    assert did == ["closed"]
