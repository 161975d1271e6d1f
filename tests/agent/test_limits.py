"""Limits: turns, calls, tokens and seconds end a run, and it can be resumed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import anyio
import pytest
from inline_snapshot import snapshot

from agent.stage import ANY_RUN, World, by_turn, calls, kinds, look, owed, put, says, streamed
from handrail import READ, Allow, Ask, Call, Executor, FailureKind, Result, Text, Toolset, tool
from handrail.agent import Agent, Limits, RunResult, RunState, Spent, dump_state, load_state
from handrail.approvals import defer
from handrail.messages import (
    Delta,
    Model,
    Prompt,
    Reply,
    Request,
    RequiredTool,
    StreamItem,
    ToolResults,
    TruncatedCall,
    Usage,
)
from handrail.testing import ScriptedModel
from virtual_time import BACKENDS, run

WAYS = pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])
TOO_MANY = "Not run: a limit of the run is reached. Answer with what you have."


@WAYS
async def test_turns_end_a_run_between_two_turns(wrap: type[Model]) -> None:
    world = World()
    model = by_turn(calls(look("a", "1")), calls(put("b", "1")), says("done"))

    done = await Agent(wrap(model), world.tools, limits=Limits(turns=2, last_word=False)).run("go")

    assert done == RunResult(
        stop_reason="limit",
        state=RunState(
            messages=(
                Prompt.of("go"),
                calls(look("a", "1")),
                ToolResults((Result("1", "seen a"),)),
                calls(put("b", "1")),
                ToolResults((Result("1", "put b"),)),
            ),
            turns=2,
            calls=2,
            run_id=ANY_RUN,
        ),
        stop_detail=snapshot("reached the limit of 2 turns"),
        limit="turns",
    )
    owed(done.state.transcript())
    again = await Agent(wrap(model), world.tools, limits=Limits(turns=3, last_word=False)).resume(
        done.state
    )
    assert (again.stop_reason, again.text, world.did) == ("answer", "done", ["look a", "put b"])


async def test_an_answer_at_the_last_turn_is_an_answer() -> None:
    done = await Agent(ScriptedModel("done"), Toolset(), limits=Limits(turns=1)).run("go")

    assert (done.stop_reason, done.stop_detail) == ("answer", "")


async def test_fifty_turns_are_the_default_limit() -> None:
    world = World()
    model = by_turn(*[calls(look(str(n), "1")) for n in range(51)])

    done = await Agent(model, world.tools).run("go")

    assert (done.stop_detail, len(world.did)) == ("reached the limit of 50 turns", 50)


@WAYS
async def test_calls_over_the_limit_are_not_run_in_the_middle_of_a_turn(wrap: type[Model]) -> None:
    world = World()
    model = by_turn(
        calls(look("a", "1")), calls(put("b", "1"), put("c", "2"), look("d", "3")), says("done")
    )

    done = await Agent(wrap(model), world.tools, limits=Limits(calls=2, last_word=False)).run("go")

    assert (done.stop_reason, done.limit, done.stop_detail) == (
        "limit",
        "calls",
        "reached the limit of 2 calls",
    )
    assert done.state.messages[-1] == ToolResults(
        (
            Result("1", "put b"),
            Result.fail("2", FailureKind.CANCELLED, TOO_MANY),
            Result.fail("3", FailureKind.CANCELLED, TOO_MANY),
        )
    )
    assert (world.did, done.state.calls) == (["look a", "put b"], 4)
    owed(done.state.transcript())


@WAYS
async def test_a_turn_with_no_call_within_the_limit_runs_nothing(wrap: type[Model]) -> None:
    world = World()
    model = by_turn(calls(put("a", "1"), look("b", "2")))

    done = await Agent(wrap(model), world.tools, limits=Limits(calls=0, turns=None)).run("go")

    assert (done.stop_reason, done.state.messages, world.did) == ("limit", (Prompt.of("go"),), [])

    state = RunState(messages=(Prompt.of("go"), calls(look("b", "1"), look("c", "2"))), turns=1, calls=2)  # fmt: skip
    done = await Agent(wrap(model), world.tools, limits=Limits(calls=1, last_word=False)).resume(
        state
    )
    assert (kinds(done.state.messages), world.did) == (["seen b", "cancelled"], ["look b"])


async def test_open_calls_are_within_the_limit_of_a_new_prompt() -> None:
    world = World()
    last = calls(*[look(str(n), str(n)) for n in range(4)])
    state = RunState(messages=(Prompt.of("go"), last), turns=1, calls=4)

    limits = Limits(calls=2, last_word=False)
    done = await Agent(ScriptedModel("done"), world.tools, limits=limits).resume(state, "And now?")

    assert kinds(done.state.messages) == ["seen 0", "seen 1", "cancelled", "cancelled"]


@WAYS
async def test_truncated_calls_are_not_counted(wrap: type[Model]) -> None:
    world = World()
    first = Reply(
        (TruncatedCall("put", "1"), put("b", "2"), put("c", "3"), put("d", "4")), "length"
    )

    done = await Agent(
        wrap(by_turn(first)), world.tools, limits=Limits(calls=2, last_word=False)
    ).run("go")

    assert kinds(done.state.messages) == ["bad_args", "put b", "put c", "cancelled"]
    assert (sorted(world.did), done.state.calls) == (["put b", "put c"], 3)


async def test_calls_over_the_limit_are_not_run_if_a_stream_has_only_its_reply() -> None:
    world = World()

    async def model(_: Request) -> AsyncIterator[StreamItem]:
        yield calls(put("a", "1"), put("b", "2"))

    done = await Agent(model, world.tools, limits=Limits(calls=1, last_word=False)).run("go")

    assert (kinds(done.state.messages), world.did) == (["put a", "cancelled"], ["put a"])


@WAYS
async def test_input_and_output_tokens_end_a_run(wrap: type[Model]) -> None:
    world = World()
    first = Reply(
        (look("a", "1"),), "calls", Usage(input_tokens=900, output_tokens=100, cached_tokens=500)
    )

    done = await Agent(
        wrap(by_turn(first, says("done"))), world.tools, limits=Limits(tokens=1000, last_word=False)
    ).run("go")

    assert (done.stop_reason, done.limit, done.stop_detail) == (
        "limit",
        "tokens",
        snapshot("reached the limit of 1,000 tokens"),
    )
    assert world.did == ["look a"]
    owed(done.state.transcript())


@pytest.mark.parametrize("backend", BACKENDS)
def test_seconds_end_a_run_in_the_middle_of_a_call(backend: str) -> None:
    @tool(effect=READ)
    async def wait() -> str:
        """Wait forever."""
        await anyio.sleep_forever()
        return ""

    model = by_turn(calls(Call("wait", "{}", "1")), says("done"))
    done = run(backend, goes(Agent(model, Toolset(wait), limits=Limits(seconds=90.5))))

    assert (done.stop_reason, done.limit, done.stop_detail) == (
        "limit",
        "seconds",
        snapshot("reached the limit of 90.5 seconds"),
    )
    assert kinds(done.state.messages) == ["cancelled"]
    owed(done.state.transcript())


@pytest.mark.parametrize("backend", BACKENDS)
def test_seconds_end_a_run_while_the_model_thinks(backend: str) -> None:
    async def model(_: Request) -> Reply:
        await anyio.sleep_forever()
        return says("never")

    assert run(backend, goes(Agent(model, Toolset(), limits=Limits(seconds=9)))) == RunResult(
        stop_reason="limit",
        state=RunState(messages=(Prompt.of("go"),), run_id=ANY_RUN),
        stop_detail="reached the limit of 9 seconds",
        limit="seconds",
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_seconds_end_a_run_while_the_model_streams_and_its_text_is_kept(backend: str) -> None:
    async def model(_: Request) -> AsyncIterator[StreamItem]:
        yield Delta("hm, ", thought=True)
        yield Delta("Well")
        yield Delta(", ")
        await anyio.sleep_forever()

    done = run(backend, goes(Agent(model, Toolset(), limits=Limits(seconds=9))))

    assert (done.stop_reason, done.text) == ("limit", "Well, ")
    assert done.state == RunState(
        messages=(Prompt.of("go"), Reply((Text("Well, "),), "other")), turns=1, run_id=ANY_RUN
    )
    owed(done.state.transcript())


@pytest.mark.parametrize("option", ["prepare", "system"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_seconds_end_a_run_whose_request_is_not_ready(backend: str, option: str) -> None:
    asked: list[Request] = []

    async def model(request: Request) -> Reply:
        asked.append(request)
        return says("never")

    async def hangs(_: object) -> Any:
        await anyio.sleep_forever()

    agent = Agent(model, Toolset(), limits=Limits(seconds=9), **{option: hangs})  # type: ignore[arg-type]

    assert (run(backend, goes(agent)), asked) == (
        RunResult(
            stop_reason="limit",
            state=RunState(messages=(Prompt.of("go"),), run_id=ANY_RUN),
            stop_detail="reached the limit of 9 seconds",
            limit="seconds",
        ),
        [],
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_unused_time_ends_nothing(backend: str) -> None:
    async def model(_: Request) -> Reply:
        await anyio.sleep(8)
        return says("done")

    async def go() -> RunResult[Any]:
        async with Executor(Toolset()) as executor:
            return await Agent(model, executor, limits=Limits(seconds=9)).run("go")

    done = run(backend, go)

    assert (done.stop_reason, done.text) == ("answer", "done")


@WAYS
async def test_the_model_has_a_last_word_without_tools(wrap: type[Model]) -> None:
    world, seen = World(), list[Request]()

    async def model(request: Request) -> Reply:
        seen.append(request)
        return await by_turn(calls(look("a", "1")), says("So far: a."))(request)

    agent = Agent(wrap(model), world.tools, limits=Limits(turns=1))
    done = await agent.run("go")

    assert (done.stop_reason, done.limit, done.text) == ("limit", "turns", "So far: a.")
    assert [request.tool_choice for request in seen] == ["auto", "none"]
    assert [request.tools for request in seen] == [world.tools] * 2, "the prefix stays cached"
    owed(done.state.transcript())


@WAYS
async def test_a_run_goes_on_after_its_last_word(wrap: type[Model]) -> None:
    world = World()
    model = by_turn(calls(look("a", "1")), says("So far: a."), calls(look("b", "1")), says("done"))

    first = await Agent(wrap(model), world.tools, limits=Limits(turns=1)).run("go")
    done = await Agent(wrap(model), world.tools, limits=Limits(turns=9)).resume(first.state)

    assert (done.stop_reason, done.text, world.did) == ("answer", "done", ["look a", "look b"])


@WAYS
@pytest.mark.parametrize("limits", [Limits(turns=1), Limits(calls=1), Limits(tokens=1)])
async def test_calls_in_the_last_word_are_not_run(wrap: type[Model], limits: Limits) -> None:
    world = World()
    used = Usage(input_tokens=1)
    model = by_turn(
        Reply((look("a", "1"),), "calls", used), calls("I need b.", put("b", "1")), says("never")
    )

    done = await Agent(wrap(model), world.tools, limits=limits).run("go")

    assert (done.stop_reason, done.text, world.did) == ("limit", "I need b.", ["look a"])
    assert kinds(done.state.messages) == ["seen a", "cancelled"]
    owed(done.state.transcript())


async def test_a_typed_last_word_is_required() -> None:
    world, seen = World(), list[Request]()
    answer = Call("final_answer", '{"answer": 5}', "f")

    async def model(request: Request) -> Reply:
        seen.append(request)
        return await by_turn(calls(look("a", "1")), calls(answer))(request)

    done = await Agent(model, world.tools, output=int, limits=Limits(turns=1)).run("go")

    assert (done.stop_reason, done.output) == ("limit", 5)
    assert [request.tool_choice for request in seen] == ["auto", RequiredTool("final_answer")]


async def test_limits_count_from_each_prompt() -> None:
    world = World()
    replies = [part for n in range(4) for part in (calls(look(str(n), "1")), says(f"answer {n}"))]
    agent = Agent(by_turn(*replies), world.tools, limits=Limits(turns=2, calls=2, tokens=9))

    done = await agent.run("question 0")
    texts = [done.text]
    for number in range(1, 4):
        done = await agent.resume(load_state(dump_state(done.state)), f"question {number}")
        texts.append(done.text)

    assert texts == ["answer 0", "answer 1", "answer 2", "answer 3"]
    assert (done.state.turns, done.state.before) == (8, Spent(6, 3))


async def test_a_run_that_said_nothing_has_no_text() -> None:
    agent = Agent(by_turn(says("old"), says("new")), Toolset(), limits=Limits(turns=0))
    state = RunState(messages=(Prompt.of("go"), says("old")), turns=1)

    done = await agent.resume(state, "And now?")

    assert (done.stop_reason, done.text) == ("limit", "")


async def test_an_answered_question_continues_the_count() -> None:
    world = World()
    model = by_turn(calls(put("a", "1")), calls(look("b", "1")), says("done"))
    async with Executor(world.tools, policy=lambda *_: Ask("May it?"), approvals=defer) as executor:
        agent = Agent(model, executor, limits=Limits(turns=1, last_word=False))
        first = await agent.run("go")
        answers = {one.id: Allow() for one in first.state.pending}
        done = await agent.resume(first.state, answers=answers)

    assert (done.stop_reason, done.limit, world.did) == ("limit", "turns", ["put a"])


def goes(agent: Agent[Any]) -> Callable[[], Coroutine[Any, Any, RunResult[Any]]]:
    async def go() -> RunResult[Any]:
        return await agent.run("go")

    return go
