"""A sub-agent asks, counts and reports where its parent does, and waits with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from agent.stage import World, by_turn, calls, kinds, look, put, says, streamed
from handrail import (
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Executor,
    FailureKind,
    Result,
    Toolset,
    tool,
    writes_file,
)
from handrail.agent import (
    Agent,
    InnerEvent,
    Limits,
    RunResult,
    StreamEvent,
    dump_state,
    load_state,
    task_tool,
)
from handrail.approvals import defer
from handrail.events import Asked
from handrail.messages import Delta, ModelError, Reply, Usage
from handrail.permissions import Answer, Pending
from handrail.testing import ScriptedModel


def scout(call_id: str = "s") -> Call:
    return Call("scout", {"task": "Put a."}, call_id)


def ask_for_put(call: CheckedCall) -> Decision:
    return Ask("May it?") if call.name == "put" else Allow()


def inner_agent(executor: Executor, *more: Reply) -> Agent:
    return Agent(by_turn(calls(put("a", "1")), *more, says("It is put.")), executor)


OUTER = by_turn(calls(scout()), says("All done."))


async def test_the_approver_of_the_parent_answers_questions_inside() -> None:
    world, asked = World(), list[str]()

    async def approver(pending: Pending) -> Answer:
        asked.append(pending.call.name)
        return Allow()

    async with Executor(world.tools, policy=ask_for_put) as inner:
        helper = inner_agent(inner).as_tool("scout", "Look.")
        async with Executor(Toolset(helper), approvals=approver) as outer:
            done = await Agent(OUTER, outer).run("go")

    assert (asked, world.did, done.output) == (["put"], ["put a"], "All done.")
    assert kinds(done.state.messages) == ["It is put."]


async def test_a_question_inside_waits_in_the_state_of_the_parent_and_is_answered_there() -> None:
    world = World()

    async def resume(state: str, **answers: Answer) -> RunResult[str]:
        async with Executor(world.tools, policy=ask_for_put) as inner:
            helper = inner_agent(inner, calls(look("b", "1"))).as_tool("scout", "Look.")
            async with Executor(Toolset(helper), approvals=defer) as outer:
                agent = Agent(OUTER, outer)
                if not state:
                    return await agent.run("go")
                loaded = load_state(state)
                by_name = {one.call.name: one.id for one in loaded.pending}
                given = {by_name[name]: answer for name, answer in answers.items()}
                return await agent.resume(loaded, answers=given)

    first = await resume("")
    assert (first.stop_reason, world.did) == ("pending", [])
    assert [one.call.name for one in first.state.pending] == ["scout", "put"]
    assert [one.question for one in first.state.pending] == ["", "May it?"]

    again = await resume(dump_state(first.state))
    assert (again.stop_reason, world.did) == ("pending", []), "nobody has answered"

    done = await resume(dump_state(again.state), put=Allow())
    assert (done.stop_reason, done.output) == ("answer", "All done.")
    assert world.did == ["put a", "look b"]
    assert (done.state.inner, done.state.pending) == ((), ())


async def test_a_question_inside_is_shown_and_answered_in_the_stream_of_the_parent() -> None:
    world = World()
    async with Executor(world.tools, policy=ask_for_put) as inner:
        helper = inner_agent(inner).as_tool("scout", "Look.")
        async with Agent(OUTER, [helper]).stream("go") as events:
            async for event in events:
                if isinstance(event, InnerEvent) and isinstance(event.event, Asked):
                    assert event.call_id == "s"
                    events.answer(event.event.pending, Allow())

    assert (events.result.output, world.did) == ("All done.", ["put a"])


@dataclass
class Ticket:
    """A ticket."""

    title: str
    price: float


async def test_a_typed_answer_stays_typed() -> None:
    answer = Call("final_answer", {"answer": {"title": "x", "price": 3}}, "i")
    inner = Agent(ScriptedModel([answer]), output=Ticket)
    helper = inner.as_tool("scout", "Look.")

    done = await Agent(OUTER, [helper]).run("go")

    assert done.state.messages[2].results == (
        Result("s", '{"title":"x","price":3.0}', data='{"title":"x","price":3.0}'),
    )
    assert helper.spec.output_schema is not None


async def test_tokens_of_a_sub_agent_count_for_its_parent() -> None:
    used = Usage(input_tokens=100, output_tokens=5)
    inner = Agent(ScriptedModel("found", usage=used)).as_tool("scout", "Look.")
    outer = ScriptedModel([scout()], "done", usage=Usage(input_tokens=10))
    agent = Agent(outer, [inner], limits=Limits(tokens=100, last_word=False))

    done = await agent.run("go")

    assert (done.stop_reason, done.limit, done.state.usage.total) == ("limit", "tokens", 115)


@pytest.mark.parametrize("kind", ["overloaded", "other"])
async def test_a_model_that_fails_inside_is_a_failure_of_the_call(kind: Any) -> None:
    inner = Agent(ScriptedModel(ModelError("429", kind), ModelError("429", kind), "ok"))

    done = await Agent(OUTER, [inner.as_tool("scout", "Look.")]).run("go")

    [result] = done.state.messages[2].results
    assert result.failure is not None
    expected = FailureKind.TRANSIENT if kind == "overloaded" else FailureKind.FAILED
    assert result.failure.kind is expected


async def test_principal_and_deps_are_those_of_the_parent() -> None:
    seen: list[object] = []

    @tool
    async def whose(context: Context) -> str:
        """Say whose it is."""
        seen.append((context.principal, context.deps))
        return "ok"

    inner = Agent(by_turn(calls(Call("whose", "{}", "1")), says("done")), [whose])
    await Agent(OUTER, [inner.as_tool("scout", "Look.")]).run("go", principal="ann", deps=7)

    assert seen == [("ann", 7)]


async def test_events_inside_are_events_of_the_parent() -> None:
    inner = Agent(streamed(by_turn(says("Hm"))))
    shown: list[StreamEvent[Any]] = []
    async with Agent(OUTER, [inner.as_tool("scout", "Look.")]).stream("go") as events:
        shown = [event async for event in events if isinstance(event, InnerEvent)]

    assert shown == [
        InnerEvent("s", Delta("H")),
        InnerEvent("s", Delta("m")),
        InnerEvent("s", says("Hm")),
    ]


async def test_tasks_that_touch_different_things_run_side_by_side() -> None:
    arrived = 0
    both = anyio.Event()

    @tool
    async def meet() -> str:
        """Wait for the other."""
        nonlocal arrived
        arrived += 1
        if arrived == 2:
            both.set()
        await both.wait()
        return "met"

    def touches(task: str) -> Access:
        return writes_file(task)

    inner = Agent(by_turn(calls(Call("meet", "{}", "1")), says("met")), [meet])
    helper = inner.as_tool("scout", "Meet.", touches=touches)
    outer = by_turn(
        calls(Call("scout", {"task": "a"}, "1"), Call("scout", {"task": "b"}, "2")), says("done")
    )
    with anyio.fail_after(10):
        done = await Agent(outer, [helper]).run("go")

    assert kinds(done.state.messages) == ["met", "met"]


async def test_a_task_tool_has_only_the_named_tools() -> None:
    world = World()
    inner = ScriptedModel([look("a", "1"), put("b", "2")], "Looked.")
    async with Executor(world.tools) as executor:
        delegate = task_tool(inner, executor, "look")
        outer = by_turn(calls(Call("task", {"task": "Look around."}, "t")), says("done"))
        done = await Agent(outer, executor.restrict("look")).run("go")
        assert kinds(done.state.messages) == ["unknown_tool"]
        done = await Agent(outer, [delegate]).run("go")

    assert (kinds(done.state.messages), world.did) == (["Looked."], ["look a"])
    assert [spec.name for spec in inner.requests[0].tools.specs] == ["look"]
