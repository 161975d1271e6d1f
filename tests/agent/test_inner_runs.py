"""A sub-agent asks, counts and reports where its parent does, and waits with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from agent.stage import World, by_turn, calls, kinds, look, put, says, streamed
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
    FailureKind,
    Hook,
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
    RunState,
    StreamEvent,
    dump_state,
    load_state,
    task_tool,
)
from handrail.approvals import defer
from handrail.events import Asked, Finished, Started
from handrail.messages import (
    Delta,
    ModelError,
    Prompt,
    Reply,
    Request,
    StreamItem,
    ToolResults,
    Usage,
)
from handrail.permissions import Answer, Approver, Pending
from handrail.testing import ScriptedModel
from virtual_time import Quick


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
    assert (done.state.requests, done.state.pending) == ((), ())


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


async def yes(_: Pending) -> Answer:
    return Allow()


async def no(_: Pending) -> Answer:
    return Deny("no")


@pytest.mark.parametrize(("own", "ran"), [(None, ["put a"]), (no, [])])
async def test_an_own_approver_of_a_sub_agent_answers_instead_of_the_parents(
    own: Approver | None, ran: list[str]
) -> None:
    world = World()
    async with Executor(world.tools, policy=ask_for_put, approvals=own) as inner:
        helper = inner_agent(inner).as_tool("scout", "Look.")
        done = await Agent(OUTER, [helper], approvals=yes).run("go")

    assert (done.output, world.did) == ("All done.", ran)


async def test_sub_agents_of_runs_with_the_same_id_stay_apart() -> None:
    world, both, states = World(), anyio.Event(), dict[str, RunState]()
    waiting: list[str] = []

    async def inner_model(request: Request) -> Reply:
        return calls(put(request.messages[-1].parts[0].text, "1"))

    async def outer_model(request: Request) -> Reply:
        task = request.messages[-1].parts[0].text
        waiting.append(task)
        if len(waiting) == 2:
            both.set()
        await both.wait()
        return calls(Call("scout", {"task": task}, f"s-{task}"))

    inner = Agent(inner_model, world.tools, policy=ask_for_put)
    outer = Agent(outer_model, [inner.as_tool("scout", "Look.")], approvals=defer)
    earlier = RunState((Prompt.of("hi"), says("hello")), run_id="r", turns=1)

    async def run(task: str) -> None:
        states[task] = (await outer.run(task, history=earlier)).state

    async with anyio.create_task_group() as group:
        group.start_soon(run, "a")
        group.start_soon(run, "b")

    asked = {task: [one.call for one in state.pending[1:]] for task, state in states.items()}
    assert asked == {"a": [put("a", "1")], "b": [put("b", "1")]}


async def test_a_call_in_a_tool_of_a_run_is_not_one_of_that_run() -> None:
    world = World()
    inner = Agent(by_turn(calls(put("a", "1"))), world.tools, policy=ask_for_put, approvals=defer)

    @tool
    async def relay() -> str:
        """Let another executor run the call."""
        async with Executor(Toolset(inner.as_tool("scout", "Look."))) as executor:
            return (await executor.run(scout())).text

    done = await Agent(by_turn(calls(Call("relay", "{}", "r")), says("ok")), [relay]).run("go")

    assert kinds(done.state.messages) == [WAITS]
    assert done.state.requests == ()


async def test_a_sub_agent_still_waits_in_the_state_of_a_resumed_run_that_is_left() -> None:
    world, release = World(), anyio.Event()

    @tool
    async def hold() -> str:
        """Wait."""
        world.did.append("hold")
        await release.wait()
        return "held"

    def policy(call: CheckedCall) -> Decision:
        return Ask("May it?") if call.name == "hold" else Allow()

    def agent() -> Agent:
        model = by_turn(calls(put("a", "1")), calls(Call("hold", "{}", "2")), says("It is put."))
        inner = Agent(model, [*world.tools, hold], policy=policy)
        return Agent(OUTER, [inner.as_tool("scout", "Look.")], approvals=defer)

    first = (await agent().run("go")).state
    answers = {one.id: Allow() for one in first.pending if one.question}
    async with agent().stream(history=first, answers=answers) as events:
        async for event in events:
            if isinstance(event, InnerEvent) and isinstance(event.event, Started):
                break
    left = load_state(dump_state(events.state))
    release.set()
    done = await agent().resume(left, answers=answers)

    assert (left.waiting, left.pending) == (first.waiting, first.pending)
    assert (done.output, done.state.requests) == ("All done.", ())
    assert world.did == ["put a", "hold", "hold"], "nothing before the question is repeated"


async def test_a_denied_sub_agent_waits_no_more() -> None:
    world = World()
    inner = Agent(by_turn(calls(put("a", "1"))), world.tools, policy=ask_for_put)
    agent = Agent(OUTER, [inner.as_tool("scout", "Look.")], approvals=defer)
    first = (await agent.run("go")).state

    done = await agent.resume(first, answers={one.id: Deny("no") for one in first.pending})

    assert (done.output, done.state.requests) == ("All done.", ())


async def test_one_of_two_sub_agents_that_wait_keeps_its_question() -> None:
    world = World()

    async def model(request: Request) -> Reply:
        if isinstance(request.messages[-1], ToolResults):
            return says("ok")
        return calls(put(request.messages[-1].parts[0].text, "1"))

    def touches(task: str) -> Access:
        return writes_file(task)

    inner = Agent(model, world.tools, policy=ask_for_put)
    two = [Call("scout", {"task": path}, path) for path in ("a", "b")]
    helper = inner.as_tool("scout", "Look.", touches=touches)
    agent = Agent(by_turn(calls(*two), says("done")), [helper], approvals=defer)
    first = (await agent.run("go")).state
    asked = {one.call.args: one for one in first.pending if one.question}
    a, b = asked['{"path":"a"}'], asked['{"path":"b"}']

    again = (await agent.resume(first, answers={a.id: Allow()})).state

    assert (world.did, [one for one in again.pending if one.question]) == (["put a"], [b])
    [kept] = [one for one in again.requests if one.inner]
    assert (kept.inner, kept.record) == next(
        (one.inner, one.record) for one in first.requests if b in one.inner
    )


async def test_a_sub_agent_that_waits_in_a_call_of_no_reply_asks_nothing() -> None:
    async def model(_: Request) -> AsyncIterator[StreamItem]:
        yield scout()
        await anyio.wait_all_tasks_blocked()  # the sub-agent waits for an answer
        raise ModelError("reset", "network")

    def policy(_: CheckedCall) -> Decision:
        return Ask("May it?")

    tools = World().tools.only("look")
    inner = Agent(by_turn(calls(look("a", "1"))), tools, policy=Quick(policy))
    agent = Agent(model, [inner.as_tool("scout", "Look.")], approvals=defer)
    run = agent.run("go")
    with pytest.raises(ModelError) as failed:
        await run

    assert failed.value.state == run.state
    assert (run.state.requests, run.state.pending) == ((), ())
    assert [one.call for one in run.state.discarded] == [scout()]


async def test_a_question_is_pending_only_if_a_call_waits_for_it() -> None:
    world = World()

    @tool(effect=READ, touches=lambda: ())
    async def hold() -> None:
        """Wait."""
        await anyio.sleep_forever()

    def touches(task: str) -> Access:
        return writes_file(task)

    inner = Agent(by_turn(calls(put("a", "1"))), world.tools, policy=ask_for_put)
    helper = inner.as_tool("scout", "Look.", touches=touches)
    model = by_turn(calls(scout(), Call("hold", "{}", "h")), says("done"))
    async with Agent(model, [helper, hold], approvals=defer).stream("go") as events:
        async for event in events:
            if isinstance(event, Finished):
                break

    assert (event.result.call_id, events.state.requests) == ("s", ())


WAITS = (
    "Not done yet: it has begun, and a call inside it waits for the user's approval. Continue with "
    "other work, or end your turn."
)
NO_ONE = (
    "Not run: this needs the user's approval, and no one is available to give it. Do what you can "
    "without it, and report it at the end. Request: May it?"
)


async def allow(_pending: Pending) -> Answer:
    return Allow()


@pytest.mark.parametrize(
    ("approver", "text", "did"),
    [(allow, "put a", ["put a"]), (None, NO_ONE, [])],
)
async def test_outside_of_a_run_the_approver_of_the_call_answers_if_there_is_one(
    approver: Approver | None, text: str, did: list[str]
) -> None:
    world, told = World(), list[Result]()

    def note(_key: str, _call: CheckedCall | Call, event: object) -> None:
        if isinstance(event, Finished):
            told.append(event.result)

    inner = Executor(world.tools, policy=ask_for_put, hooks=[Hook(observe=note)])
    helper = inner_agent(inner).as_tool("scout", "Look.")
    async with inner, Executor(Toolset(helper), approvals=approver) as executor:
        done = await executor.run(scout())

    assert ([one.text for one in told], done.text, world.did) == ([text], "It is put.", did)


async def test_a_tool_can_read_who_answers_for_its_call() -> None:
    seen: list[Approver | None] = []

    @tool(effect=READ)
    async def ask(context: Context) -> None:
        """Look who answers."""
        seen.append(context.approver)

    for approver in (allow, None):
        async with Executor(Toolset(ask), approvals=approver) as executor:
            await executor.run(Call("ask", {}))
            await executor.run(Call("ask", {}), turn=executor.turn(approver=defer))

    assert seen == [allow, defer, None, defer]
    assert Context(call_id="c1", idempotency_key="k").approver is None
