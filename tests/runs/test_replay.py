"""A replay: recorded replies and results, today's tools and rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from handrail import READ, WRITE, Allow, Ask, Call, Decision, Deny, Executor, Toolset, tool
from handrail.agent import Agent, RunState
from handrail.messages import Prompt, Reply
from handrail.permissions import Answer, CheckedCall, Edit, Pending
from handrail.runs import ReplayDifference, replay_run
from handrail.runs.lines import event_lines, prompt_line, reply_line
from handrail.testing import ScriptedModel

ran: list[str] = []


@tool(effect=READ)
def look(path: str) -> str:
    """Look at a file."""
    ran.append(path)
    return f"text of {path}"


@tool(effect=WRITE)
def put(path: str) -> str:
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


async def record(answers: dict[str, Answer]) -> tuple[RunState, list[dict[str, Any]]]:
    """Run the steps, and return the state and the lines."""
    lines: list[dict[str, Any]] = [prompt_line(0.0, Prompt.of("Go"))]

    async def approve(pending: Pending) -> Answer:
        return answers[pending.call.id]

    def watch(event: object) -> None:
        if isinstance(event, Reply):
            lines.append(reply_line(0.0, event))

    executor = Executor(TOOLS, policy=asks, approvals=approve)
    async with executor:
        feed = executor.events()
        agent = Agent(ScriptedModel(*STEPS), executor)
        done = await agent.run("Go", on_event=watch)
        feed.close()
        events = [line async for event in feed for line in event_lines(event)]
    return done.state, merge(lines, events)


def merge(
    lines: Iterable[dict[str, Any]], events: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Put the events of each turn behind its reply: a journal has them in this order."""
    rest, merged = list(events), list[dict[str, Any]]()
    for line in lines:
        merged.append(line)
        wanted = set(line.get("calls", ()))
        while rest and wanted:
            event = rest.pop(0)
            merged.append(event)
            if event["event"] == "finished":
                wanted.discard(event["call_id"])
    return merged


ALLOW: dict[str, Answer] = {"c1": Allow(), "c2": Allow()}


async def test_the_same_rules_and_tools_differ_in_nothing() -> None:
    state, lines = await record({"c1": Edit({"path": "c"}), "c2": Deny.by_user("No.")})
    ran.clear()

    done = await replay_run(state, lines, TOOLS, policy=asks)

    assert (done.turns, done.calls, done.differences) == (2, 5, ())
    assert ran == []  # no tool ran


async def test_other_rules_decide_otherwise() -> None:
    state, lines = await record(ALLOW)

    def denies(call: CheckedCall) -> Decision:
        return Deny("Never b.") if call.args.get("path") == "b" else asks(call)

    done = await replay_run(state, lines, TOOLS, policy=denies)

    found = [(one.turn, one.call_id, one.tool, one.what) for one in done.differences]
    assert found == [(2, "c1", "put", what) for what in ("decision", "run", "result")]
    decision, ran_or_not, result = done.differences
    assert (decision.recorded, decision.now) == ("ask", "deny")
    assert (ran_or_not.recorded, ran_or_not.now) == ("ran", "did not run")
    assert (result.recorded, "Never b." in result.now) == ("ok: written", True)


async def test_a_call_that_was_refused_then_would_run_now() -> None:
    state, lines = await record({"c1": Deny.by_user("No."), "c2": Allow()})

    done = await replay_run(state, lines, TOOLS, policy=lambda _call: Allow())

    assert [one for one in done.differences if one.call_id == "c1" and one.turn == 2] == [
        ReplayDifference(2, "c1", "put", "decision", "ask", "allow"),
        ReplayDifference(2, "c1", "put", "run", "did not run", "ran"),
    ]


async def test_a_question_without_a_recorded_answer_is_denied() -> None:
    state, lines = await record(ALLOW)

    done = await replay_run(state, lines, TOOLS, policy=lambda _call: Ask("New?"))

    [look_now] = [one for one in done.differences if (one.tool, one.what) == ("look", "result")]
    assert (look_now.recorded, "no answer" in look_now.now) == ("ok: text of a", True)


async def test_of_a_turn_without_events_only_the_result_is_compared() -> None:
    """A forked run has the messages of the other run, and not its events."""
    state, _ = await record(ALLOW)

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

    lines = [{"event": "reply"}, {"event": "answered", "call_id": "c1", **given}]
    await replay_run(state, lines, TOOLS, policy=policy)

    assert (path in seen[1:]) is (path is not None)


async def test_a_run_without_calls_is_replayed() -> None:
    done = await replay_run(RunState(messages=(Prompt.of("Go"),)), [], TOOLS)

    assert (done.turns, done.calls, done.differences) == (0, 0, ())
