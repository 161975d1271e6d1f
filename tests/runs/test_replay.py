"""A replay: recorded replies and results, today's tools and rules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import count
from typing import Any, TypeAlias

import anyio
import pytest

from handrail import (
    READ,
    WRITE,
    Allow,
    Ask,
    Call,
    Decision,
    Deny,
    Executor,
    Registry,
    Text,
    Toolset,
    tool,
)
from handrail.agent import Agent, RunState, task_tool
from handrail.messages import ModelError, Prompt, Reply, Request, StreamItem
from handrail.permissions import Answer, CheckedCall, Edit, Pending
from handrail.runs import ReplayDifference, replay_run
from replying import WAYS, RunLines, Way, replying
from virtual_time import Quick

ran: list[str] = []


@tool(effect=READ)
async def look(path: str) -> str:
    """Look at a file."""
    ran.append(path)
    return f"text of {path}"


@tool(effect=WRITE)
async def put(path: str) -> str:
    """Write a file."""
    ran.append(path)
    return "written"


TOOLS = Toolset(look, put)
STEPS = [
    [Call("look", {"path": "a"}, "c1"), Call("put", {"path": "a"}, "c2")],
    [Call("put", {"path": "b"}, "c1"), Call("put", {"pth": 1}, "c3"), Call("nope", {}, "c4")],
    "Done.",
]


def asks(call: CheckedCall) -> Decision:
    return Ask("May I?") if call.name == "put" else Allow()


Recorded: TypeAlias = tuple[RunState, list[dict[str, Any]]]


async def record(
    answers: dict[str, Answer],
    way: Way = "whole",
    *,
    steps: Sequence[Any] = STEPS,
    before: RunState | None = None,
) -> Recorded:
    """Run the steps, and return the state and the lines."""
    state = (before or RunState(run_id="r")).add_prompt("Go")
    told = RunLines(state.turns)

    async def approve(pending: Pending) -> Answer:
        return answers[pending.call.id]

    executor = Executor(TOOLS, policy=Quick(asks), approvals=approve, hooks=[told.hook])
    async with executor:
        agent = Agent(replying(way, *steps), executor)
        done = await agent.resume(state, on_event=told.on_event)
    return done.state, told.lines


ALLOW: dict[str, Answer] = {"c1": Allow(), "c2": Allow()}
in_each_way = pytest.mark.parametrize("way", WAYS)


@pytest.mark.parametrize(
    ("way", "look_before", "put_before"),
    [
        ("whole", "", ""),
        (
            "early",
            "requested decided started finished",
            "requested decided waiting asked answered",
        ),
        ("late", "requested decided", "requested decided waiting"),
    ],
)
async def test_each_way_has_another_order(way: Way, look_before: str, put_before: str) -> None:
    """Or the other tests would say nothing about streams."""
    _, lines = await record(ALLOW, way, steps=[STEPS[0], "Done."])

    until_reply = lines[: [line["event"] for line in lines].index("reply")]
    told = [
        " ".join(line["event"] for line in until_reply if line.get("call_id") == call)
        for call in ("c1", "c2")
    ]
    assert told == [look_before, put_before]


@in_each_way
async def test_the_same_rules_and_tools_differ_in_nothing(way: Way) -> None:
    state, lines = await record({"c1": Edit({"path": "c"}), "c2": Deny.by_user("No.")}, way)
    ran.clear()

    done = await replay_run(state, lines, TOOLS, policy=asks)

    assert (done.turns, done.calls, done.differences) == (2, 5, ())
    assert ran == []  # no tool ran


@in_each_way
async def test_other_rules_decide_otherwise(way: Way) -> None:
    state, lines = await record(ALLOW, way)

    def denies(call: CheckedCall) -> Decision:
        return Deny("Never b.") if call.args.get("path") == "b" else asks(call)

    done = await replay_run(state, lines, TOOLS, policy=denies)

    found = [(one.turn, one.call_id, one.tool, one.what) for one in done.differences]
    assert found == [(2, "c1", "put", what) for what in ("decision", "run", "result")]
    decision, ran_or_not, result = done.differences
    assert (decision.recorded, decision.now) == ("ask", "deny")
    assert (ran_or_not.recorded, ran_or_not.now) == ("ran", "did not run")
    assert (result.recorded, "Never b." in result.now) == ("ok: written", True)


@in_each_way
async def test_a_call_that_was_refused_then_would_run_now(way: Way) -> None:
    state, lines = await record({"c1": Deny.by_user("No."), "c2": Allow()}, way)

    done = await replay_run(state, lines, TOOLS, policy=lambda _call: Allow())

    assert [one for one in done.differences if one.call_id == "c1" and one.turn == 2] == [
        ReplayDifference(2, "c1", "put", "decision", "ask", "allow"),
        ReplayDifference(2, "c1", "put", "run", "did not run", "ran"),
    ]


@in_each_way
async def test_a_question_without_a_recorded_answer_is_denied(way: Way) -> None:
    state, lines = await record(ALLOW, way)

    done = await replay_run(state, lines, TOOLS, policy=lambda _call: Ask("New?"))

    [look_now] = [one for one in done.differences if (one.tool, one.what) == ("look", "result")]
    assert (look_now.recorded, "no answer" in look_now.now) == ("ok: text of a", True)


@in_each_way
async def test_of_a_turn_without_events_only_the_result_is_compared(way: Way) -> None:
    """A forked run has the messages of the other run, and not its events."""
    state, _ = await record(ALLOW, way)

    done = await replay_run(state, [], TOOLS, policy=asks)
    denied = await replay_run(state, [], TOOLS, policy=lambda _call: Deny("No."))

    assert (done.calls, done.differences) == (5, ())
    assert {(one.what, one.recorded) for one in denied.differences} == {
        ("result", "ok: text of a"),
        ("result", "ok: written"),
    }


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"answer": "edit", "args": {"path": "z"}}, "z"),
        ({"answer": "edit", "args": 5}, None),
        ({"answer": "result", "text": "x"}, "a"),
    ],
)
async def test_recorded_answers_are_given_again(given: dict[str, Any], path: str | None) -> None:
    state, _ = await record(ALLOW)
    seen: list[Any] = []

    def policy(call: CheckedCall) -> Decision:
        seen.append(call.args.get("path"))
        return Ask("May I?") if call.name == "look" else Allow()

    lines = [{"event": "answered", "turn": 1, "call_id": "c1", **given}]
    await replay_run(state, lines, TOOLS, policy=policy)

    assert (path in seen[1:]) is (path is not None)


@pytest.mark.parametrize("messages", [(), (Prompt.of("Go"),)])
async def test_a_run_without_calls_is_replayed(messages: tuple[Prompt, ...]) -> None:
    done = await replay_run(RunState(messages=messages), [], TOOLS)

    assert (done.turns, done.calls, done.differences) == (0, 0, ())


def denies_put(call: CheckedCall) -> Decision:
    return Deny("No.") if call.name == "put" else Allow()


async def allow(_pending: Pending) -> Answer:
    return Allow()


@in_each_way
async def test_a_forked_run_is_compared_from_its_first_turn(way: Way) -> None:
    """Its journal begins at turn 4: its state has three turns of another run."""
    before, _ = await record(ALLOW)
    fork = before._replace(run_id="fork")
    state, lines = await record(ALLOW, way, steps=[STEPS[0], "Done."], before=fork)

    same = await replay_run(state, lines, TOOLS, policy=asks)
    other = await replay_run(state, lines, TOOLS, policy=denies_put)

    assert [line["turn"] for line in lines if line["event"] == "reply"] == [4, 5]
    assert (same.turns, same.calls, same.differences) == (3, 7, ())
    decisions = [one for one in other.differences if one.what == "decision"]
    assert decisions == [ReplayDifference(4, "c2", "put", "decision", "ask", "deny")]


async def test_without_turns_in_the_lines_no_decision_would_be_found() -> None:
    state, lines = await record(ALLOW, "early")
    without = [{key: line[key] for key in line if key != "turn"} for line in lines]

    right = await replay_run(state, lines, TOOLS, policy=denies_put)
    wrong = await replay_run(state, without, TOOLS, policy=denies_put)

    assert {one.what for one in right.differences} == {"decision", "run", "result"}
    assert {one.what for one in wrong.differences} == {"result"}


async def test_of_a_turn_that_was_tried_again_the_last_attempt_is_compared() -> None:
    """A stream broke after a call that had ended. The next one used the same id."""
    told, attempts = RunLines(), count(1)

    async def model(request: Request) -> AsyncIterator[StreamItem]:
        if any(isinstance(message, Reply) for message in request.messages):
            yield Reply((Text("Done."),))
            return
        call = Call("look" if next(attempts) == 1 else "put", {"path": "a"}, "c1")
        yield call
        await anyio.wait_all_tasks_blocked()
        if call.name == "look":
            raise ModelError("The stream broke.")
        yield Reply((call,), "calls")

    executor = Executor(TOOLS, policy=Quick(asks), approvals=allow, hooks=[told.hook])
    async with executor:
        agent = Agent(model, executor)
        with pytest.raises(ModelError) as failed:
            await agent.run("Go", on_event=told.on_event)
        assert failed.value.state is not None
        done = await agent.resume(failed.value.state, on_event=told.on_event)

    same = await replay_run(done.state, told.lines, TOOLS, policy=asks)
    other = await replay_run(done.state, told.lines, TOOLS, policy=denies_put)

    finished = [line for line in told.lines if line["event"] == "finished"]
    assert [(line["turn"], line["call_id"]) for line in finished] == [(1, "c1"), (1, "c1")]
    assert (same.calls, same.differences) == (1, ())
    assert other.differences[0] == ReplayDifference(1, "c1", "put", "decision", "ask", "deny")


@in_each_way
async def test_calls_of_a_sub_agent_are_no_calls_of_the_run(way: Way) -> None:
    """It runs in the same executor, and its calls have the same ids."""
    told, registry = RunLines(), Registry()
    registry.add(TOOLS, name="shop")
    inner = replying(way, Call("put", {"path": "b"}, "c1"), "Written.")
    steps = [Call("look", {"path": "a"}, "c1"), Call("task", {"task": "Write b."}, "c1"), "Done."]
    executor = Executor(registry, policy=Quick(asks), approvals=allow, hooks=[told.hook])
    registry.add(task_tool(inner, executor, "put"))
    async with executor:
        agent = Agent(replying(way, *steps), executor)
        done = await agent.run("Go", on_event=told.on_event)

    tools = registry.snapshot()
    same = await replay_run(done.state, told.lines, tools, policy=asks)
    other = await replay_run(done.state, told.lines, tools, policy=denies_put)

    started = [line for line in told.lines if line["event"] == "started"]
    places = [(line["turn"], line.get("inner", "")) for line in started]
    assert places == [(1, ""), (2, ""), (2, "c1/1")]
    assert (same.calls, same.differences, other.differences) == (2, (), ())
