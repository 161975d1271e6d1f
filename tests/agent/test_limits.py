"""Limits: turns, calls, tokens and seconds end a run, and what is left can be gone on from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import anyio
import pytest
from inline_snapshot import snapshot

from agent.stage import World, by_turn, calls, kinds, look, owed, put, says, streamed
from handrail import READ, Call, Executor, Kind, Result, Text, Toolset, tool
from handrail.agent import Agent, Done, Limits, State
from handrail.messages import Cut, Delta, Model, Piece, Prompt, Reply, Request, Results, Usage
from handrail.testing import ScriptedModel
from virtual_time import BACKENDS, run

WAYS = pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])
TOO_MANY = "The limit of calls is reached. Nothing was run. Answer with what you have."


@WAYS
async def test_turns_end_a_run_between_two_turns(wrap: type[Model]) -> None:
    world = World()
    model = by_turn(calls(look("a", "1")), calls(put("b", "1")), says("done"))

    done = await Agent(wrap(model), world.tools, limits=Limits(turns=2)).run("go")

    assert done == Done(
        stop="limit",
        state=State(
            messages=(
                Prompt.of("go"),
                calls(look("a", "1")),
                Results((Result("1", "seen a"),)),
                calls(put("b", "1")),
                Results((Result("1", "put b"),)),
            ),
            turns=2,
            calls=2,
        ),
        why=snapshot("the limit of 2 turns is reached"),
    )
    owed(done.state.transcript())
    again = await Agent(wrap(model), world.tools, limits=Limits(turns=3)).resume(done.state)
    assert (again.stop, again.text, world.did) == ("answer", "done", ["look a", "put b"])


async def test_an_answer_at_the_last_turn_is_an_answer() -> None:
    done = await Agent(ScriptedModel("done"), Toolset(), limits=Limits(turns=1)).run("go")

    assert (done.stop, done.why) == ("answer", "")


async def test_fifty_turns_are_the_limit_where_nothing_else_is_said() -> None:
    world = World()
    model = by_turn(*[calls(look(str(n), "1")) for n in range(51)])

    done = await Agent(model, world.tools).run("go")

    assert (done.why, len(world.did)) == ("the limit of 50 turns is reached", 50)


@WAYS
async def test_calls_over_the_limit_are_not_run_in_the_middle_of_a_turn(wrap: type[Model]) -> None:
    world = World()
    model = by_turn(
        calls(look("a", "1")), calls(put("b", "1"), put("c", "2"), look("d", "3")), says("done")
    )

    done = await Agent(wrap(model), world.tools, limits=Limits(calls=2)).run("go")

    assert (done.stop, done.why) == ("limit", "the limit of 2 calls is reached")
    assert done.state.messages[-1] == Results(
        (
            Result("1", "put b"),
            Result.fail("2", Kind.DENIED, TOO_MANY),
            Result.fail("3", Kind.DENIED, TOO_MANY),
        )
    )
    assert (world.did, done.state.calls) == (["look a", "put b"], 4)
    owed(done.state.transcript())


@WAYS
async def test_a_turn_with_no_call_within_the_limit_runs_nothing(wrap: type[Model]) -> None:
    world = World()
    model = by_turn(calls(put("a", "1"), look("b", "2")))

    done = await Agent(wrap(model), world.tools, limits=Limits(calls=0, turns=None)).run("go")

    assert (done.stop, done.state.messages, world.did) == ("limit", (Prompt.of("go"),), [])

    state = State(messages=(Prompt.of("go"), calls(look("b", "1"), look("c", "2"))), turns=1, calls=2)  # fmt: skip
    done = await Agent(wrap(model), world.tools, limits=Limits(calls=1)).resume(state)
    assert (kinds(done.state.messages), world.did) == (["seen b", "denied"], ["look b"])


@WAYS
async def test_calls_that_were_cut_off_do_not_count_among_the_calls(wrap: type[Model]) -> None:
    world = World()
    first = Reply((Cut("put", "1"), put("b", "2"), put("c", "3"), put("d", "4")), "length")

    done = await Agent(wrap(by_turn(first)), world.tools, limits=Limits(calls=2)).run("go")

    assert kinds(done.state.messages) == ["bad_args", "put b", "put c", "denied"]
    assert (sorted(world.did), done.state.calls) == (["put b", "put c"], 3)


async def test_calls_over_the_limit_are_not_run_where_a_stream_has_only_its_reply() -> None:
    world = World()

    async def model(_: Request) -> AsyncIterator[Piece]:
        yield calls(put("a", "1"), put("b", "2"))

    done = await Agent(model, world.tools, limits=Limits(calls=1)).run("go")

    assert (kinds(done.state.messages), world.did) == (["put a", "denied"], ["put a"])


@WAYS
async def test_tokens_sent_and_received_end_a_run(wrap: type[Model]) -> None:
    world = World()
    first = Reply((look("a", "1"),), "calls", Usage(sent=900, received=100, cached=500))

    done = await Agent(
        wrap(by_turn(first, says("done"))), world.tools, limits=Limits(tokens=1000)
    ).run("go")

    assert (done.stop, done.why) == ("limit", snapshot("the limit of 1,000 tokens is reached"))
    assert world.did == ["look a"]
    owed(done.state.transcript())


@pytest.mark.parametrize("backend", BACKENDS)
def test_seconds_end_a_run_in_the_middle_of_a_call(backend: str) -> None:
    @tool(effect=READ)
    async def wait() -> str:
        """Wait for ever."""
        await anyio.sleep_forever()
        return ""

    model = by_turn(calls(Call("wait", "{}", "1")), says("done"))
    done = run(backend, goes(Agent(model, Toolset(wait), limits=Limits(seconds=90.5))))

    assert (done.stop, done.why) == ("limit", snapshot("the limit of 90.5 seconds is reached"))
    assert kinds(done.state.messages) == ["cancelled"]
    owed(done.state.transcript())


@pytest.mark.parametrize("backend", BACKENDS)
def test_seconds_end_a_run_while_the_model_thinks(backend: str) -> None:
    async def model(_: Request) -> Reply:
        await anyio.sleep_forever()
        return says("never")

    assert run(backend, goes(Agent(model, Toolset(), limits=Limits(seconds=9)))) == Done(
        stop="limit",
        state=State(messages=(Prompt.of("go"),)),
        why="the limit of 9 seconds is reached",
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_seconds_end_a_run_while_the_model_speaks_and_its_words_are_kept(backend: str) -> None:
    async def model(_: Request) -> AsyncIterator[Piece]:
        yield Delta("hm, ", thought=True)
        yield Delta("Well")
        yield Delta(", ")
        await anyio.sleep_forever()

    done = run(backend, goes(Agent(model, Toolset(), limits=Limits(seconds=9))))

    assert (done.stop, done.text) == ("limit", "Well, ")
    assert done.state == State(
        messages=(Prompt.of("go"), Reply((Text("Well, "),), "other")), turns=1
    )
    owed(done.state.transcript())


@pytest.mark.parametrize("backend", BACKENDS)
def test_time_that_is_not_used_up_ends_nothing(backend: str) -> None:
    async def model(_: Request) -> Reply:
        await anyio.sleep(8)
        return says("done")

    async def go() -> Done[Any]:
        async with Executor(Toolset()) as executor:
            return await Agent(model, executor, limits=Limits(seconds=9)).run("go")

    done = run(backend, go)

    assert (done.stop, done.text) == ("answer", "done")


def goes(agent: Agent[Any]) -> Callable[[], Coroutine[Any, Any, Done[Any]]]:
    async def go() -> Done[Any]:
        return await agent.run("go")

    return go
