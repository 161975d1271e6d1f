"""A replayed run decides the calls of its programs again, under today's rules."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    tool,
)
from handrail.agent import Agent, RunState
from handrail.permissions import Answer, Edit, Pending, Policy
from handrail.programs import with_programs
from handrail.runs import ReplayDifference, replay_run
from replying import RunLines, replying


@pytest.fixture
def anyio_backend() -> str:
    """The event loop makes no difference."""
    return "asyncio"


CODE = "import asyncio\nx = await look(at=1)\nawait asyncio.gather(pay(euros=1), pay(euros=2))\nawait pay(euros=3)"
paid: list[int] = []


@tool(effect=READ, touches=lambda at: Access(READ, f"shelf:{at}"), metadata={"program": "only"})
async def look(at: int) -> int:
    """Look."""
    return at


@tool(effect=WRITE, touches=lambda **_: Access(WRITE, "account:a"), metadata={"program": "also"})
async def pay(euros: int) -> int:
    """Pay."""
    paid.append(euros)
    return euros


TOOLS = with_programs([look, pay])


def asks(call: CheckedCall) -> Decision:
    return Ask("Pay?") if call.args.get("euros", 0) > 1 else Allow()


async def record() -> tuple[RunState, list[dict[str, Any]]]:
    """Run the program between two payments of the model: pay 2 is edited, and pay 3 denied."""
    paid.clear()
    told = RunLines()

    async def approve(pending: Pending) -> Answer:
        return Edit({"euros": 1}) if '"euros":2' in str(pending.call.args) else Deny("No.")

    program = Call("run_program", {"code": CODE}, "c/1")
    steps = [[Call("pay", {"euros": 1}, "p0")], [program], [Call("pay", {"euros": 1}, "p1")], "Ok"]
    async with Executor(TOOLS, policy=asks, approvals=approve, hooks=[told.hook]) as executor:
        agent = Agent(replying("whole", *steps), executor)
        state = RunState(run_id="r").add_prompt("Go")
        done = await agent.resume(state, on_event=told.on_event)
    return done.state, told.lines


async def replay(policy: Policy) -> tuple[int, tuple[ReplayDifference, ...]]:
    state, lines = await record()
    assert paid == [1, 1, 1, 1]
    done = await replay_run(state, lines, TOOLS, policy=policy)
    assert paid == [1, 1, 1, 1]
    return done.calls, done.differences


async def test_the_same_rules_differ_in_nothing() -> None:
    assert await replay(asks) == (7, ())


async def test_other_rules_differ_inside_the_program_and_outside() -> None:
    def denies(call: CheckedCall) -> Decision:
        return Deny("No more.") if call.args.get("euros") == 1 else asks(call)

    def reads_nothing(call: CheckedCall) -> Decision:
        return Deny("Closed.") if call.name == "look" else asks(call)

    _, differences = await replay(denies)
    found = [(one.turn, one.call_id, one.what) for one in differences]
    inside = ReplayDifference(2, "c%2F1/.1/p0", "look", "decision", "allow", "deny")

    assert found == [
        (1, "p0", "decision"),
        (1, "p0", "run"),
        (1, "p0", "result"),
        (2, "c%2F1/.2/p1", "decision"),
        (2, "c%2F1/.2/p1", "run"),
        (2, "c%2F1/.2/p2", "run"),
        (3, "p1", "decision"),
        (3, "p1", "run"),
        (3, "p1", "result"),
    ]
    assert (await replay(reads_nothing))[1][0] == inside
