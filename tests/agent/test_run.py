"""A run: a prompt, a model, its tools, an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from inline_snapshot import snapshot

from agent.stage import (
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
from handrail import READ, Call, Executor, Image, Kind, Registry, Result, Text, Toolset, tool
from handrail.agent import Agent, Done, Happening, Limits, State
from handrail.messages import (
    Cut,
    Delta,
    Model,
    ModelFailed,
    Piece,
    Prompt,
    Reply,
    Request,
    Results,
    Thought,
    Usage,
)
from handrail.testing import OffScript, ScriptedModel


async def test_a_model_uses_tools_until_it_has_an_answer() -> None:
    world = World()
    with ScriptedModel(["Let me see.", look("a", "1"), put("b", "2")], "All done.") as model:
        done = await Agent(model, world.tools, system="Be brief.", max_tokens=50).run("Tidy up.")

    asked = calls("Let me see.", look("a", "1"), put("b", "2"))
    got = Results((Result("1", "seen a"), Result("2", "put b")))
    first = Request((Prompt.of("Tidy up."),), world.tools, "Be brief.", 50)
    assert done == Done(
        stop="answer",
        state=State(
            messages=(Prompt.of("Tidy up."), asked, got, says("All done.")), turns=2, calls=2
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
    first = Reply((look("a", "1"),), "calls", Usage(sent=10, received=5, cached=2))
    second = Reply((Text("Yes."),), "end", Usage(sent=20, received=7, cached=10))

    done = await Agent(wrap(by_turn(first, second)), World().tools).run("go")

    assert done.state.usage == Usage(sent=30, received=12, cached=12)
    assert (done.state.turns, done.state.calls) == (2, 1)


async def test_a_prompt_may_have_pictures_and_a_model_may_answer_at_once() -> None:
    picture = Image(b"png", "image/png")

    done = await Agent(ScriptedModel("A cat."), Toolset()).run("What is this?", picture)

    assert done.state == State(
        messages=(Prompt((Text("What is this?"), picture)), says("A cat.")), turns=1
    )


async def test_an_executor_is_left_open_and_serves_many_runs() -> None:
    world = World()
    async with Executor(world.tools) as executor:
        for name in "ab":
            model = ScriptedModel([look(name, "1")], "ok")
            assert (await Agent(model, executor).run("go")).text == "ok"
        result = await executor.run(look("c", "1"))

    assert result == Result("1", "seen c")
    assert world.did == ["look a", "look b", "look c"]


async def test_tools_may_come_from_a_registry() -> None:
    world, registry = World(), Registry()
    registry.add(world.tools, name="world")

    done = await Agent(ScriptedModel([look("a", "1")], "ok"), registry).run("go")

    assert done.state.messages[2] == Results((Result("1", "seen a"),))


async def test_what_fails_is_told_to_the_model_and_the_run_goes_on() -> None:
    bad = [Call("lok", "{}", "1"), Call("look", '{"path": 5}', "2"), look("a", "3")]

    done = await Agent(ScriptedModel(bad, "Sorry."), World().tools).run("go")

    answer = done.state.messages[2]
    assert isinstance(answer, Results)
    assert [one.failure.kind if one.failure else one.text for one in answer.results] == [
        Kind.UNKNOWN_TOOL,
        Kind.BAD_ARGS,
        "seen a",
    ]
    owed(done.state.transcript())


@pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])
async def test_a_call_that_was_cut_off_is_never_run_and_says_so(wrap: type[Model]) -> None:
    world = World()
    cut = Reply((look("a", "1"), Cut("put", "2", '{"path": "b'), Cut("look", "3")), "length")

    done = await Agent(wrap(by_turn(cut, says("Shorter, then."))), world.tools).run("go")

    assert world.did == ["look a"]
    lost = snapshot("The call was cut off before its arguments were complete, since the reply had become too long. Nothing was run. Call again with less text at a time.")  # fmt: skip
    assert done.state.messages[2] == Results(
        (
            Result("1", "seen a"),
            Result.fail("2", Kind.BAD_ARGS, lost),
            Result.fail("3", Kind.BAD_ARGS, lost),
        )
    )
    assert done.text == "Shorter, then."
    owed(done.state.transcript())


@pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])
async def test_a_reply_of_nothing_but_cuts_runs_nothing(wrap: type[Model]) -> None:
    world = World()

    done = await Agent(wrap(by_turn(calls(Cut("put", "1")), says("ok"))), world.tools).run("go")

    assert (world.did, done.text) == ([], "ok")
    owed(done.state.transcript())


# ---------------------------------------------------------------- streams


async def test_a_call_that_only_reads_starts_while_the_model_still_speaks() -> None:
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

    async def model(request: Request) -> AsyncIterator[Piece]:
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
    assert done.state.messages[2] == Results((Result("1", "seen"), Result("2", "poked")))


async def test_a_watcher_sees_every_piece_reply_and_result_in_order() -> None:
    seen: list[Happening] = []
    first = Reply((Thought("hm"), Text("ok"), look("a", "1")), "calls")

    model = streamed(by_turn(first, says("x")))
    await Agent(model, World().tools).run("go", watch=seen.append)

    assert seen == [
        Delta("hm", thought=True),
        Delta("o"),
        Delta("k"),
        first,
        Results((Result("1", "seen a"),)),
        Delta("x"),
        says("x"),
    ]


async def test_a_watcher_of_a_model_that_does_not_stream_sees_replies_and_results() -> None:
    seen: list[Happening] = []

    await Agent(ScriptedModel([look("a", "1")], "x"), World().tools).run("go", watch=seen.append)

    assert seen == [calls(look("a", "1")), Results((Result("1", "seen a"),)), says("x")]


async def test_a_stream_of_nothing_but_its_reply_will_do() -> None:
    world = World()

    async def model(request: Request) -> AsyncIterator[Piece]:
        yield await by_turn(calls(put("a", "1"), look("b", "2")), says("ok"))(request)

    done = await Agent(model, world.tools).run("go")

    assert done.state.messages[2] == Results((Result("1", "put a"), Result("2", "seen b")))
    owed(done.state.transcript())


async def test_a_stream_is_closed_before_its_calls_are_settled_and_the_run_goes_on() -> None:
    log: list[str] = []

    async def model(request: Request) -> AsyncIterator[Piece]:
        try:
            yield Delta("a")
            yield says("a")
        finally:
            await anyio.lowlevel.checkpoint()
            log.append("closed")

    done = await Agent(model, Toolset()).run("go")

    assert (done.text, log) == ("a", ["closed"])


class Pieces:
    """A stream that is no generator: nothing of it could be closed."""

    def __init__(self, *pieces: Piece) -> None:
        self._left = list(pieces)

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop(0)


async def test_a_stream_need_not_be_a_generator() -> None:
    done = await Agent(lambda _: Pieces(Delta("a"), says("a")), Toolset()).run("go")

    assert done.text == "a"


async def test_a_model_may_give_anything_that_can_be_awaited() -> None:
    class Soon:
        def __await__(self) -> Generator[Any, Any, Reply]:
            yield from anyio.lowlevel.checkpoint().__await__()
            return says("soon")

    assert (await Agent(lambda _: Soon(), Toolset()).run("go")).text == "soon"


# ---------------------------------------------------------------- models that fail


@pytest.mark.parametrize("seconds", [None, 60.0])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_model_that_fails_ends_the_run_with_its_own_exception_and_a_state_that_is_good(
    *, stream: bool, seconds: float | None
) -> None:
    world = World()

    async def failing(request: Request) -> Reply:
        if len(request.messages) > 1:
            raise ModelFailed("nobody is there", "unreachable")
        return calls(put("a", "1"))

    model = streamed(failing) if stream else failing
    run = Agent(model, world.tools, limits=Limits(seconds=seconds)).run("go")
    with pytest.raises(ModelFailed, match="nobody is there") as failed:
        await run

    assert failed.value.trouble == "unreachable"
    assert run.state == State(
        messages=(Prompt.of("go"), calls(put("a", "1")), Results((Result("1", "put a"),))),
        turns=1,
        calls=1,
    )
    done = await Agent(by_turn(calls(), says("here again")), world.tools).resume(run.state)
    assert (done.text, world.did) == ("here again", ["put a"])


async def test_a_stream_that_breaks_after_a_call_leaves_no_half_of_a_turn() -> None:
    world = World()

    async def model(_: Request) -> AsyncIterator[Piece]:
        yield Delta("a")
        yield put("a", "1")
        raise ModelFailed("the line is dead")

    run = Agent(model, world.tools).run("go")
    with pytest.raises(ModelFailed, match="the line is dead"):
        await run

    assert (run.state, world.did) == (State(messages=(Prompt.of("go"),)), [])


async def test_a_model_that_gives_no_reply_is_asked_once() -> None:
    asked = 0

    async def forgets(_: Request) -> Any:
        nonlocal asked
        asked += 1

    run = Agent(forgets, Toolset()).run("go")
    with pytest.raises(ModelFailed, match="the model gave NoneType where a Reply was due"):
        await run

    assert (asked, run.state) == (1, State(messages=(Prompt.of("go"),)))


async def test_a_model_must_give_what_a_model_gives() -> None:
    def words(_: Request) -> Any:
        return "hello"

    async def stream(_: Request) -> AsyncIterator[Any]:
        yield Delta("a")
        yield "hello"

    with pytest.raises(ModelFailed, match="the model gave str, which cannot be awaited"):
        await Agent(words, Toolset()).run("go")
    with pytest.raises(ModelFailed, match="the model gave str where a Reply was due"):
        await Agent(stream, Toolset()).run("go")


async def test_a_stream_that_ends_without_a_reply_is_a_failure() -> None:
    async def model(_: Request) -> AsyncIterator[Piece]:
        yield Delta("a")

    run = Agent(model, Toolset()).run("go")
    with pytest.raises(ModelFailed, match="the model's stream ended without a reply"):
        await run

    assert run.state == State(messages=(Prompt.of("go"),))


async def test_a_model_may_use_scopes_and_task_groups_of_its_own() -> None:
    async def model(_: Request) -> Reply:
        with anyio.fail_after(60):
            await anyio.lowlevel.checkpoint()
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.lowlevel.checkpoint)
        return says("ok")

    assert (await Agent(model, Toolset()).run("go")).text == "ok"


async def test_a_run_that_is_off_script_fails_and_its_state_is_good() -> None:
    world = World()
    run = Agent(ScriptedModel([look("a", "1")]), world.tools).run("go")

    with pytest.raises(OffScript):
        await run

    owed(run.state.transcript())
    assert len(run.state.messages) == 3


# ---------------------------------------------------------------- talk


async def test_what_is_said_during_a_turn_is_heard_with_the_next() -> None:
    world = World()

    def watch(happening: Happening) -> None:
        if happening == calls(look("a", "1")):
            run.say("And b, too.", Image(b"x", "image/png"))
            run.say("Quick.")

    model = ScriptedModel([look("a", "1")], "done")
    run = Agent(model, world.tools).run("go", watch=watch)
    done = await run

    assert done.state.messages == (
        Prompt.of("go"),
        calls(look("a", "1")),
        Results((Result("1", "seen a"),)),
        Prompt.of("And b, too.", Image(b"x", "image/png")),
        Prompt.of("Quick."),
        says("done"),
    )
    owed(done.state.transcript())


async def test_what_is_said_after_the_last_word_gets_an_answer_too() -> None:
    def watch(happening: Happening) -> None:
        if happening == says("one"):
            run.say("go on")

    run = Agent(ScriptedModel("one", "two"), Toolset()).run("go", watch=watch)

    assert (await run).state.messages == (
        Prompt.of("go"),
        says("one"),
        Prompt.of("go on"),
        says("two"),
    )


async def test_a_run_that_ended_goes_on_with_another_prompt() -> None:
    agent = Agent(ScriptedModel("one", "two"), Toolset())

    first = await agent.run("a")
    second = await agent.resume(first.state, "b")

    assert second.state.messages == (
        *first.state.messages,
        Prompt.of("b"),
        says("two"),
    )
    assert await agent.resume(second.state) == second


async def test_a_conversation_may_begin_with_an_empty_state() -> None:
    done = await Agent(ScriptedModel("one"), Toolset()).resume(State(), "a")

    assert done.state == State(messages=(Prompt.of("a"), says("one")), turns=1)


async def test_nothing_at_all_is_nothing_to_go_on_from() -> None:
    with pytest.raises(ValueError, match="there is nothing to go on from: give a prompt"):
        await Agent(ScriptedModel(), Toolset()).resume(State())


async def test_calls_that_were_left_open_are_run_again_only_where_that_repeats_nothing() -> None:
    world = World()
    cut = Cut("put", "5", "{")
    asked = calls(look("a", "1"), put("b", "2"), fill("c", "3"), Call("lok", "{}", "4"), cut)
    state = State(messages=(Prompt.of("go"), asked), turns=1, calls=4)

    done = await Agent(ScriptedModel("ok"), world.tools).resume(state)

    assert sorted(world.did) == ["fill c", "look a"]
    assert kinds(done.state.messages) == ["seen a", "unknown", "full c", "unknown_tool", "bad_args"]
    assert results(done.state.messages)[1].text == snapshot(
        "The run was interrupted while this call was under way. It is not known whether it had its effect: check that first, and do not simply call it again."
    )
    assert results(state.transcript())[1] == results(done.state.messages)[1]
    owed(done.state.transcript())


# ---------------------------------------------------------------- another model


@pytest.mark.parametrize("stream", [False, True])
async def test_a_history_of_one_model_goes_on_with_another(*, stream: bool) -> None:
    world = World()
    thoughtful = Reply(
        (Thought("hm", "sig", "anthropic"), look("a", "toolu_1"), put("b", "toolu_2")),
        "calls",
        Usage(sent=3),
        "claude",
    )
    other = Reply((fill("c", "toolu_1"),), "calls", Usage(sent=4), "gpt")

    def first(request: Request) -> Reply:
        if len(request.messages) > 1:
            raise ModelFailed("overloaded", "busy")
        return thoughtful

    run = Agent(ScriptedModel(first, first), world.tools).run("go")
    with pytest.raises(ModelFailed):
        await run

    model = by_turn(thoughtful, other, says("done"))
    done = await Agent(streamed(model) if stream else model, world.tools).resume(run.state)

    assert done.state == State(
        messages=(
            Prompt.of("go"),
            thoughtful,
            Results((Result("toolu_1", "seen a"), Result("toolu_2", "put b"))),
            other,
            Results((Result("toolu_1", "full c"),)),
            says("done"),
        ),
        usage=Usage(sent=7),
        turns=3,
        calls=3,
    )
    owed(done.state.transcript())
