"""Calls of a stream and of its reply are matched by their ids, whatever the stream does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from agent.stage import World, by_turn, calls, kinds, look, owed, put, says, streamed
from handrail import READ, Call, Executor, FailureKind, Result, Text, Toolset, tool
from handrail.agent import Agent, EarlyCall, Limits, RunState, dump_state, load_state
from handrail.events import Started
from handrail.messages import (
    Delta,
    Model,
    ModelError,
    Prompt,
    Reply,
    Request,
    Restart,
    StreamItem,
    ToolResults,
    TruncatedCall,
)

WAYS = pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])


def pieces_then_done(*pieces: StreamItem) -> Model:
    """A model that streams exactly these pieces in its first turn."""

    async def model(request: Request) -> AsyncIterator[StreamItem]:
        if len(request.messages) > 1:
            yield says("done")
            return
        for piece in pieces:
            yield piece

    return model


def fallback(first: Callable[[Request], AsyncGenerator[StreamItem]], second: Model) -> Model:
    """As a user may write it: what the first model sent stays sent."""

    async def model(request: Request) -> AsyncIterator[StreamItem]:
        try:
            async with aclosing(first(request)) as pieces:
                async for piece in pieces:
                    yield piece
        except ModelError:
            reply = await cast("Awaitable[Reply]", second(request))
            for call in reply.calls:
                yield call
            yield reply

    return model


async def test_calls_of_a_model_that_failed_are_not_run() -> None:
    world = World()

    async def first(request: Request) -> AsyncGenerator[StreamItem]:
        if len(request.messages) == 1:
            yield look("roof", "a0")
            yield put("ann", "a1")
            while not world.did:
                await anyio.lowlevel.checkpoint()
        raise ModelError("reset", "network")

    either = fallback(first, by_turn(calls(put("bob", "b1")), says("done")))
    done = await Agent(either, world.tools).run("go")

    assert sorted(world.did) == ["look roof", "put bob"]
    assert done.state.messages[1:3] == (
        calls(put("bob", "b1")),
        ToolResults((Result("b1", "put bob"),)),
    )
    assert done.state.discarded == (EarlyCall(look("roof", "a0"), Result("a0", "seen roof")),)
    assert load_state(dump_state(done.state)) == done.state
    owed(done.state.transcript())


async def test_a_stream_may_leave_out_calls_of_its_reply() -> None:
    world = World()
    ann, bob = put("ann", "1"), put("bob", "2")

    done = await Agent(pieces_then_done(bob, calls(ann, bob)), world.tools).run("go")

    assert sorted(world.did) == ["put ann", "put bob"]
    assert kinds(done.state.messages) == ["put ann", "put bob"]
    owed(done.state.transcript())


@pytest.mark.parametrize("limits", [Limits(), Limits(calls=9)])
@pytest.mark.parametrize("output", [str, int])
async def test_a_stream_may_have_another_order_than_its_reply(
    limits: Limits, output: type[Any]
) -> None:
    world = World()
    ann, bob, final = put("ann", "1"), put("bob", "2"), Call("final_answer", '{"answer":1}', "3")
    reply = calls(ann, bob, final) if output is int else calls(ann, bob)
    agent: Agent[Any] = Agent(
        pieces_then_done(bob, ann, reply), world.tools, output=output, limits=limits
    )

    done = await agent.run("go")

    assert sorted(world.did) == ["put ann", "put bob"]
    assert kinds(done.state.messages)[:2] == ["put ann", "put bob"]
    owed(done.state.transcript())


async def test_a_reply_that_starts_again_can_use_an_id_for_another_call() -> None:
    world = World()
    restart, ann, bob = Restart("It is overloaded."), put("ann", "a"), put("bob", "a")

    streams: list[tuple[StreamItem, ...]] = [
        (ann, restart, bob, calls(bob)),
        (ann, restart, calls(bob)),
    ]
    for pieces in streams:
        done = await Agent(pieces_then_done(*pieces), world.tools).run("go")

        assert (world.did, done.state.messages[1]) == (["put bob"], calls(put("bob", "a-2")))
        assert kinds(done.state.messages) == ["put bob"]
        owed(done.state.transcript())
        world.did.clear()


async def test_a_reply_that_starts_again_with_the_same_call_runs_it_once() -> None:
    world = World()
    ann = put("ann", "a")

    model = pieces_then_done(ann, Restart("It is overloaded."), ann, calls(ann))
    done = await Agent(model, world.tools).run("go")

    assert (world.did, done.state.messages[1]) == (["put ann"], calls(ann))
    assert done.state.discarded == ()


@WAYS
async def test_calls_of_a_refused_reply_are_not_run(wrap: Callable[[Model], Model]) -> None:
    world = World()
    parts = (Text("I"), put("ann", "1"), TruncatedCall("put", "2"))
    model = by_turn(Reply(parts, "refused", stop_detail="not this"))

    done = await Agent(wrap(model), world.tools).run("go")

    assert (done.stop_reason, done.stop_detail, world.did) == ("refused", "not this", [])
    assert done.state.messages[1:] == (Reply(parts[:1], "refused", stop_detail="not this"),)
    assert (done.state.calls, done.state.discarded) == (0, ())


async def test_a_read_that_started_before_the_reply_was_refused_is_discarded() -> None:
    world = World()

    async def model(_: Request) -> AsyncIterator[StreamItem]:
        yield look("roof", "1")
        while not world.did:
            await anyio.lowlevel.checkpoint()
        yield Reply((look("roof", "1"),), "refused")

    done = await Agent(model, world.tools).run("go")

    assert (done.stop_reason, done.state.messages[1:]) == ("refused", (Reply((), "refused"),))
    assert done.state.discarded == (EarlyCall(look("roof", "1"), Result("1", "seen roof")),)


@WAYS
async def test_each_call_gets_an_id_of_its_own(wrap: Callable[[Model], Model]) -> None:
    world = World()
    model = by_turn(
        calls(put("a", "x"), put("b", "x"), put("c", "x-2"), put("d", ""), put("e", "")),
        says("done"),
    )

    done = await Agent(wrap(model), world.tools).run("go")

    assert sorted(world.did) == [f"put {name}" for name in "abcde"]
    reply = done.state.messages[1]
    assert isinstance(reply, Reply)
    assert [call.id for call in reply.calls] == ["x", "x-2", "x-2-2", "call", "call-2"]
    assert kinds(done.state.messages) == [f"put {name}" for name in "abcde"]
    owed(done.state.transcript())


async def test_a_failed_stream_leaves_only_reads_behind() -> None:
    world, runs = World(), list[Any]()

    async def model(request: Request) -> AsyncIterator[StreamItem]:
        if runs[1:]:
            yield says("done")
            return
        yield look("roof", "1")
        yield put("ann", "2")
        raise ModelError("reset", "network")

    agent = Agent(model, world.tools)
    runs.append(agent.run("go"))
    with pytest.raises(ModelError):
        await runs[0]

    state = runs[0].state
    assert [early.call for early in state.discarded] == [look("roof", "1")]
    assert state._replace(discarded=()) == RunState(
        messages=state.messages[:1], run_id=state.run_id
    )
    runs.append(agent.resume(state))
    done = await runs[1]
    assert (done.stop_reason, "put ann" in world.did) == ("answer", False)


async def test_leaving_the_block_while_an_early_read_runs_discards_it() -> None:
    @tool(effect=READ)
    async def wait() -> str:
        """Wait."""
        await anyio.sleep_forever()
        return "never"

    async def model(_: Request) -> AsyncIterator[StreamItem]:
        yield Call("wait", {}, "1")
        await anyio.sleep_forever()

    async with Agent(model, Toolset(wait)).stream("go") as events:
        async for event in events:
            if isinstance(event, Started):
                break

    result = Result.fail("1", FailureKind.CANCELLED, "Cancelled while it ran.")
    assert events.state.messages == (Prompt.of("go"),)
    assert events.state.discarded == (EarlyCall(Call("wait", {}, "1"), result),)


@pytest.mark.parametrize("ids", [("", ""), ("a", "a"), ("a-2", "a", "a")])
async def test_an_interrupted_stream_keeps_the_results_of_calls_with_equal_ids(
    ids: tuple[str, ...],
) -> None:
    world = World()

    async def model(_: Request) -> AsyncIterator[StreamItem]:
        for at, call_id in enumerate(ids):
            yield look(str(at), call_id)
        while len(world.did) < len(ids):
            await anyio.lowlevel.checkpoint()
        run.interrupt()
        await anyio.sleep_forever()

    run = Agent(model, world.tools).run("go")
    done = await run

    assert kinds(done.state.messages) == [f"seen {at}" for at in range(len(ids))]
    assert (done.stop_reason, done.state.discarded) == ("interrupted", ())
    owed(done.state.transcript())


@pytest.mark.parametrize("pieces", [(), (Delta("again"), look("b", "a"))])
async def test_an_interrupted_stream_that_started_again_has_only_what_came_after(
    pieces: tuple[StreamItem, ...],
) -> None:
    world, more = World(), sum(isinstance(piece, Call) for piece in pieces)

    async def model(_: Request) -> AsyncIterator[StreamItem]:
        yield Delta("first")
        yield look("a", "a")
        yield Restart("It is overloaded.")
        for piece in pieces:
            yield piece
        while len(world.did) < 1 + more:
            await anyio.lowlevel.checkpoint()
        run.interrupt()
        await anyio.sleep_forever()

    run = Agent(model, world.tools).run("go")
    done = await run

    again = (calls("again", look("b", "a-2")), ToolResults((Result("a-2", "seen b"),)))
    expected = (replace(again[0], stop="other"), again[1]) if pieces else ()
    assert done.state.messages[1:] == expected
    assert done.state.discarded == (EarlyCall(look("a", "a"), Result("a", "seen a")),)
    owed(done.state.transcript())


async def test_interrupting_one_run_stops_no_call_of_another() -> None:
    began: dict[str, Any] = {}

    @tool
    async def slow(run: str) -> str:
        """Wait until the other run is interrupted."""
        if run == "one":
            began["one"].interrupt()
        return f"{run} ended"

    async with Executor(Toolset(slow)) as executor:
        for name in ("one", "two"):
            model = by_turn(calls(Call("slow", {"run": name}, "call_0")), says("done"))
            began[name] = Agent(model, executor).run("go")
        done = [await began[name] for name in ("one", "two")]

    assert [one.stop_reason for one in done] == ["interrupted", "answer"]
    assert kinds(done[1].state.messages) == ["two ended"]


@tool(effect=READ)
async def echo(x: list[object]) -> str:
    """Echo."""
    return "ok"


def nested(levels: int, space: str = "") -> Call:
    return Call("echo", f'{space}{{"x":{"[" * levels}{"]" * levels}}}', "c1")


@pytest.mark.parametrize("levels", [10, 2_000, 100_000])
async def test_arguments_that_are_nested_deeply_end_no_run(levels: int) -> None:
    """A model can send them, and reads what is wrong."""
    call = nested(levels)
    done = await Agent(pieces_then_done(call, Reply((call,), "calls")), [echo]).run("Go.")

    assert (done.text, done.stop_reason) == ("done", "answer")


async def test_another_spelling_is_the_same_call_unless_it_is_nested_too_deeply() -> None:
    def spelled(levels: int) -> Model:
        return pieces_then_done(nested(levels), Reply((nested(levels, " "),), "calls"))

    done = await Agent(spelled(10), [echo]).run("Go.")
    with pytest.raises(ModelError, match="its Reply has another call with this id"):
        await Agent(spelled(2_000), [echo]).run("Go.")

    assert done.text == "done"
