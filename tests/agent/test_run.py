"""A run: a prompt, a model, its tools, an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from inline_snapshot import snapshot

from agent.stage import (
    ANY_RUN,
    World,
    by_turn,
    calls,
    fill,
    kinds,
    look,
    owed,
    put,
    results,
    says,
    streamed,
)
from handrail import READ, Call, Executor, FailureKind, Image, Registry, Result, Text, Toolset, tool
from handrail.agent import Agent, Limits, RunEvent, RunResult, RunState
from handrail.messages import (
    Delta,
    Model,
    ModelError,
    Prompt,
    Reasoning,
    Reply,
    Request,
    StreamItem,
    ToolResults,
    TruncatedCall,
    Usage,
)
from handrail.testing import OffScript, ScriptedModel


async def test_a_model_uses_tools_until_it_has_an_answer() -> None:
    world = World()
    with ScriptedModel(["Let me see.", look("a", "1"), put("b", "2")], "All done.") as model:
        done = await Agent(model, world.tools, system="Be brief.", max_tokens=50).run("Tidy up.")

    asked = calls("Let me see.", look("a", "1"), put("b", "2"))
    got = ToolResults((Result("1", "seen a"), Result("2", "put b")))
    first = Request((Prompt.of("Tidy up."),), world.tools, "Be brief.", 50)
    assert done == RunResult(
        stop_reason="answer",
        output="All done.",
        state=RunState(
            messages=(Prompt.of("Tidy up."), asked, got, says("All done.")),
            turns=2,
            calls=2,
            run_id=ANY_RUN,
        ),
    )
    assert done.text == "All done."
    assert model.requests == [
        first,
        first._replace(messages=(Prompt.of("Tidy up."), asked, got)),
    ]
    assert sorted(world.did) == ["look a", "put b"]


@pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])
async def test_tokens_are_counted_over_all_turns(wrap: type[Model]) -> None:
    first = Reply(
        (look("a", "1"),), "calls", Usage(input_tokens=10, output_tokens=5, cached_tokens=2)
    )
    second = Reply(
        (Text("Yes."),), "end", Usage(input_tokens=20, output_tokens=7, cached_tokens=10)
    )

    done = await Agent(wrap(by_turn(first, second)), World().tools).run("go")

    assert done.state.usage == Usage(input_tokens=30, output_tokens=12, cached_tokens=12)
    assert (done.state.turns, done.state.calls) == (2, 1)


async def test_a_prompt_can_have_images_and_a_model_can_answer_immediately() -> None:
    picture = Image(b"png", "image/png")

    done = await Agent(ScriptedModel("A cat."), Toolset()).run("What is this?", picture)

    assert done.state == RunState(
        messages=(Prompt((Text("What is this?"), picture)), says("A cat.")), turns=1, run_id=ANY_RUN
    )


async def test_an_executor_stays_open_for_many_runs() -> None:
    world = World()
    async with Executor(world.tools) as executor:
        for name in "ab":
            model = ScriptedModel([look(name, "1")], "ok")
            assert (await Agent(model, executor).run("go")).text == "ok"
        result = await executor.run(look("c", "1"))

    assert result == Result("1", "seen c")
    assert world.did == ["look a", "look b", "look c"]


async def test_tools_can_come_from_a_registry() -> None:
    world, registry = World(), Registry()
    registry.add(world.tools, name="world")

    done = await Agent(ScriptedModel([look("a", "1")], "ok"), registry).run("go")

    assert done.state.messages[2] == ToolResults((Result("1", "seen a"),))


async def test_the_model_gets_failures_and_the_run_continues() -> None:
    bad = [Call("lok", "{}", "1"), Call("look", '{"path": 5}', "2"), look("a", "3")]

    done = await Agent(ScriptedModel(bad, "Sorry."), World().tools).run("go")

    answer = done.state.messages[2]
    assert isinstance(answer, ToolResults)
    assert [one.failure.kind if one.failure else one.text for one in answer.results] == [
        FailureKind.UNKNOWN_TOOL,
        FailureKind.BAD_ARGS,
        "seen a",
    ]
    owed(done.state.transcript())


@pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])
async def test_a_truncated_call_is_never_run_and_fails(wrap: type[Model]) -> None:
    world = World()
    cut = Reply(
        (look("a", "1"), TruncatedCall("put", "2", '{"path": "b'), TruncatedCall("look", "3")),
        "length",
    )

    done = await Agent(wrap(by_turn(cut, says("Shorter, then."))), world.tools).run("go")

    assert world.did == ["look a"]
    lost = snapshot("Not run: the reply was too long, and the arguments were truncated. Call again with less text at a time.")  # fmt: skip
    assert done.state.messages[2] == ToolResults(
        (
            Result("1", "seen a"),
            Result.fail("2", FailureKind.BAD_ARGS, lost),
            Result.fail("3", FailureKind.BAD_ARGS, lost),
        )
    )
    assert done.text == "Shorter, then."
    owed(done.state.transcript())


@pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])
async def test_a_reply_with_only_truncated_calls_runs_nothing(wrap: type[Model]) -> None:
    world = World()

    done = await Agent(
        wrap(by_turn(calls(TruncatedCall("put", "1")), says("ok"))), world.tools
    ).run("go")

    assert (world.did, done.text) == ([], "ok")
    owed(done.state.transcript())


# ---------------------------------------------------------------- streams


async def test_a_call_that_only_reads_starts_while_the_model_streams() -> None:
    read = anyio.Event()
    order: list[str] = []

    @tool(effect=READ)
    async def peek() -> str:
        """Peek."""
        order.append("peek")
        read.set()
        return "seen"

    @tool
    async def poke() -> str:
        """Poke."""
        order.append("poke")
        return "poked"

    peeked, poked = Call("peek", "{}", "1"), Call("poke", "{}", "2")

    async def model(request: Request) -> AsyncIterator[StreamItem]:
        if len(request.messages) > 1:
            yield says("done")
            return
        yield peeked
        yield poked
        await read.wait()
        order.append("still speaking")
        yield Delta("and so on")
        yield calls(peeked, poked, "and so on")

    done = await Agent(model, Toolset(peek, poke)).run("go")

    assert order == ["peek", "still speaking", "poke"]
    assert done.state.messages[2] == ToolResults((Result("1", "seen"), Result("2", "poked")))


async def test_on_event_receives_every_piece_reply_and_result_in_order() -> None:
    seen: list[RunEvent] = []
    first = Reply((Reasoning("hm"), Text("ok"), look("a", "1")), "calls")

    model = streamed(by_turn(first, says("x")))
    await Agent(model, World().tools).run("go", on_event=seen.append)

    assert seen == [
        Delta("hm", thought=True),
        Delta("o"),
        Delta("k"),
        first,
        ToolResults((Result("1", "seen a"),)),
        Delta("x"),
        says("x"),
    ]


async def test_on_event_receives_replies_and_results_of_a_model_that_does_not_stream() -> None:
    seen: list[RunEvent] = []

    model = ScriptedModel([look("a", "1")], "x", stream=False)
    await Agent(model, World().tools).run("go", on_event=seen.append)

    assert seen == [calls(look("a", "1")), ToolResults((Result("1", "seen a"),)), says("x")]


async def test_a_stream_can_have_only_its_reply() -> None:
    world = World()

    async def model(request: Request) -> AsyncIterator[StreamItem]:
        yield await by_turn(calls(put("a", "1"), look("b", "2")), says("ok"))(request)

    done = await Agent(model, world.tools).run("go")

    assert done.state.messages[2] == ToolResults((Result("1", "put a"), Result("2", "seen b")))
    owed(done.state.transcript())


async def test_a_stream_is_closed_before_its_calls_end_and_the_run_continues() -> None:
    log: list[str] = []

    async def model(request: Request) -> AsyncIterator[StreamItem]:
        try:
            yield Delta("a")
            yield says("a")
        finally:
            await anyio.lowlevel.checkpoint()
            log.append("closed")

    done = await Agent(model, Toolset()).run("go")

    assert (done.text, log) == ("a", ["closed"])


class Pieces:
    """A stream that is not a generator and cannot be closed."""

    def __init__(self, *pieces: StreamItem) -> None:
        self._left = list(pieces)

    def __aiter__(self) -> AsyncIterator[StreamItem]:
        return self

    async def __anext__(self) -> StreamItem:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop(0)


async def test_a_stream_need_not_be_a_generator() -> None:
    done = await Agent(lambda _: Pieces(Delta("a"), says("a")), Toolset()).run("go")

    assert done.text == "a"


async def test_a_model_can_return_any_awaitable() -> None:
    class Soon:
        def __await__(self) -> Generator[Any, Any, Reply]:
            yield from anyio.lowlevel.checkpoint().__await__()
            return says("soon")

    assert (await Agent(lambda _: Soon(), Toolset()).run("go")).text == "soon"


# ---------------------------------------------------------------- models that fail


@pytest.mark.parametrize("seconds", [None, 60.0])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_model_that_fails_ends_the_run_with_its_exception_and_a_valid_state(
    *, stream: bool, seconds: float | None
) -> None:
    world = World()

    async def failing(request: Request) -> Reply:
        if len(request.messages) > 1:
            raise ModelError("nobody is there", "network")
        return calls(put("a", "1"))

    model = streamed(failing) if stream else failing
    run = Agent(model, world.tools, limits=Limits(seconds=seconds)).run("go")
    with pytest.raises(ModelError, match="nobody is there") as failed:
        await run

    assert failed.value.kind == "network"
    assert run.state == RunState(
        messages=(Prompt.of("go"), calls(put("a", "1")), ToolResults((Result("1", "put a"),))),
        turns=1,
        calls=1,
        run_id=ANY_RUN,
    )
    done = await Agent(by_turn(calls(), says("here again")), world.tools).resume(run.state)
    assert (done.text, world.did) == ("here again", ["put a"])


async def test_a_stream_that_fails_after_a_call_leaves_no_partial_turn() -> None:
    world = World()

    async def model(_: Request) -> AsyncIterator[StreamItem]:
        yield Delta("a")
        yield put("a", "1")
        raise ModelError("the line is dead")

    run = Agent(model, world.tools).run("go")
    with pytest.raises(ModelError, match="the line is dead"):
        await run

    assert (run.state, world.did) == (RunState(messages=(Prompt.of("go"),), run_id=ANY_RUN), [])


async def test_a_model_without_a_reply_is_called_once() -> None:
    asked = 0

    async def forgets(_: Request) -> Any:
        nonlocal asked
        asked += 1

    run = Agent(forgets, Toolset()).run("go")
    with pytest.raises(ModelError, match="The model returned NoneType instead of a Reply"):
        await run

    assert (asked, run.state) == (1, RunState(messages=(Prompt.of("go"),), run_id=ANY_RUN))


async def test_a_model_must_return_a_reply() -> None:
    def no_reply(_: Request) -> Any:
        return "hello"

    async def stream(_: Request) -> AsyncIterator[Any]:
        yield Delta("a")
        yield "hello"

    with pytest.raises(
        ModelError, match=r"The model returned str\. A model must return an awaitable Reply"
    ):
        await Agent(no_reply, Toolset()).run("go")
    with pytest.raises(ModelError, match="The model returned str instead of a Reply"):
        await Agent(stream, Toolset()).run("go")


async def test_a_stream_that_ends_without_a_reply_is_a_failure() -> None:
    async def model(_: Request) -> AsyncIterator[StreamItem]:
        yield Delta("a")

    run = Agent(model, Toolset()).run("go")
    with pytest.raises(ModelError, match="The model's stream ended without a Reply"):
        await run

    assert run.state == RunState(messages=(Prompt.of("go"),), run_id=ANY_RUN)


async def test_a_model_can_use_its_own_scopes_and_task_groups() -> None:
    async def model(_: Request) -> Reply:
        with anyio.fail_after(60):
            await anyio.lowlevel.checkpoint()
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.lowlevel.checkpoint)
        return says("ok")

    assert (await Agent(model, Toolset()).run("go")).text == "ok"


async def test_a_run_that_leaves_the_script_fails_with_a_valid_state() -> None:
    world = World()
    run = Agent(ScriptedModel([look("a", "1")]), world.tools).run("go")

    with pytest.raises(OffScript):
        await run

    owed(run.state.transcript())
    assert len(run.state.messages) == 3


# ---------------------------------------------------------------- talk


async def test_a_message_during_a_turn_is_added_to_the_next() -> None:
    world = World()

    def watch(happening: RunEvent) -> None:
        if happening == calls(look("a", "1")):
            run.send("And b, too.", Image(b"x", "image/png"))
            run.send("Quick.")

    model = ScriptedModel([look("a", "1")], "done")
    run = Agent(model, world.tools).run("go", on_event=watch)
    done = await run

    assert done.state.messages == (
        Prompt.of("go"),
        calls(look("a", "1")),
        ToolResults((Result("1", "seen a"),)),
        Prompt.of("And b, too.", Image(b"x", "image/png")),
        Prompt.of("Quick."),
        says("done"),
    )
    owed(done.state.transcript())


async def test_a_message_after_the_last_reply_gets_an_answer() -> None:
    def watch(happening: RunEvent) -> None:
        if happening == says("one"):
            run.send("go on")

    run = Agent(ScriptedModel("one", "two"), Toolset()).run("go", on_event=watch)

    assert (await run).state.messages == (
        Prompt.of("go"),
        says("one"),
        Prompt.of("go on"),
        says("two"),
    )


async def test_a_finished_run_continues_with_another_prompt() -> None:
    agent = Agent(ScriptedModel("one", "two"), Toolset())

    first = await agent.run("a")
    second = await agent.resume(first.state, "b")

    assert second.state.messages == (
        *first.state.messages,
        Prompt.of("b"),
        says("two"),
    )
    assert await agent.resume(second.state) == second


async def test_a_conversation_can_start_with_an_empty_state() -> None:
    done = await Agent(ScriptedModel("one"), Toolset()).resume(RunState(), "a")

    assert done.state == RunState(messages=(Prompt.of("a"), says("one")), turns=1, run_id=ANY_RUN)


async def test_an_empty_state_without_a_prompt_raises() -> None:
    with pytest.raises(ValueError, match="The run has no messages"):
        await Agent(ScriptedModel(), Toolset()).resume(RunState())


async def test_open_calls_run_again_only_if_that_is_safe() -> None:
    world = World()
    cut = TruncatedCall("put", "5", "{")
    asked = calls(look("a", "1"), put("b", "2"), fill("c", "3"), Call("lok", "{}", "4"), cut)
    state = RunState(messages=(Prompt.of("go"), asked), turns=1, calls=4)

    done = await Agent(ScriptedModel("ok"), world.tools).resume(state)

    assert sorted(world.did) == ["fill c", "look a"]
    assert kinds(done.state.messages) == ["seen a", "unknown", "full c", "unknown_tool", "bad_args"]
    assert results(done.state.messages)[1].text == snapshot(
        "Interrupted: the result of this call was lost. It may have taken effect: check before you call it again."
    )
    assert results(state.transcript())[1] == results(done.state.messages)[1]
    owed(done.state.transcript())


# ---------------------------------------------------------------- another model


@pytest.mark.parametrize("stream", [False, True])
async def test_a_history_of_one_model_continues_with_another(*, stream: bool) -> None:
    world = World()
    thoughtful = Reply(
        (Reasoning("hm", "sig", "anthropic"), look("a", "toolu_1"), put("b", "toolu_2")),
        "calls",
        Usage(input_tokens=3),
        "claude",
    )
    other = Reply((fill("c", "toolu_1"),), "calls", Usage(input_tokens=4), "gpt")

    def first(request: Request) -> Reply:
        if len(request.messages) > 1:
            raise ModelError("overloaded", "overloaded")
        return thoughtful

    run = Agent(ScriptedModel(first, first), world.tools).run("go")
    with pytest.raises(ModelError):
        await run

    model = by_turn(thoughtful, other, says("done"))
    done = await Agent(streamed(model) if stream else model, world.tools).resume(run.state)

    assert done.state == RunState(
        messages=(
            Prompt.of("go"),
            thoughtful,
            ToolResults((Result("toolu_1", "seen a"), Result("toolu_2", "put b"))),
            other,
            ToolResults((Result("toolu_1", "full c"),)),
            says("done"),
        ),
        usage=Usage(input_tokens=7),
        turns=3,
        calls=3,
        run_id=ANY_RUN,
    )
    owed(done.state.transcript())


@pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])
async def test_a_stop_that_is_none_of_ours_is_an_error(wrap: type[Model]) -> None:
    stop: Any = "stop"

    async def model(_request: Request) -> Reply:
        return Reply((Text("hi"),), stop)

    with pytest.raises(ModelError) as caught:
        await Agent(wrap(model), Toolset()).run("go")

    assert str(caught.value) == (
        "The model returned Reply(stop='stop'). It must be one of 'end', 'calls', 'length', "
        "'refused', 'paused', 'overflow', 'malformed', 'unsupported', 'other'."
    )


@pytest.mark.parametrize(
    ("early", "complete"),
    [
        ('{"path": "x"}', {"path": "x"}),
        ('{"path": "x"}', '{"path":"x"}'),
        ({"path": "x"}, {"path": "x"}),
        ("{", "{"),
    ],
)
async def test_a_streamed_call_can_be_spelled_otherwise_in_the_reply(
    early: Any, complete: Any
) -> None:
    async def model(request: Request) -> AsyncIterator[StreamItem]:
        if isinstance(request.messages[-1], ToolResults):
            yield says("done")
            return
        yield Call("look", early, "1")
        yield Reply((Call("look", complete, "1"),), "calls")

    done = await Agent(model, World().tools).run("go")

    assert done.text == "done"


@pytest.mark.parametrize(
    "other", [Call("look", '{"path": "y"}', "1"), Call("put", '{"path": "x"}', "1")]
)
async def test_a_streamed_call_that_differs_from_the_reply_is_an_error(other: Call) -> None:
    async def model(_request: Request) -> AsyncIterator[StreamItem]:
        yield Call("look", '{"path": "x"}', "1")
        yield Reply((other,), "calls")

    with pytest.raises(ModelError) as caught:
        await Agent(model, World().tools).run("go")

    assert str(caught.value) == (
        "The model streamed the call '1', and its Reply has another call with this id. "
        "Yield each Call as it is in the Reply."
    )
