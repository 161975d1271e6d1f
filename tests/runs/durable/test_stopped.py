"""A hook ends a durable run: no other call of the reply starts, and no answer starts one later."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from handrail import (
    READ,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    FailureKind,
    Hook,
    Result,
    StopRun,
    tool,
)
from handrail.agent import Agent
from handrail.approvals import defer
from handrail.messages import ToolResults
from handrail.runs.durable import DurableRuns
from handrail.testing import ScriptedModel
from virtual_time import Quick

ENDED = "Not run: a check ended the run. The budget is spent."


async def test_a_hook_ends_a_durable_run(sqlite: str) -> None:
    did: list[str] = []

    @tool(effect=READ)
    async def look() -> str:
        """Look."""
        did.append("look")
        return "seen"

    @tool(touches=lambda: ())
    async def pay() -> str:
        """Pay."""
        did.append("pay")
        return "paid"

    def stop(call: CheckedCall | Call, result: Result) -> Result:
        if call.name == "look":
            raise StopRun("The budget is spent.")
        return result

    def asks(call: CheckedCall) -> Decision:
        return Ask("Pay?") if call.name == "pay" else Allow()

    options: dict[str, Any] = {"hooks": [Hook(after=stop)], "approvals": defer}
    options["policy"] = Quick(asks)  # the first call waits for a person before `look` starts
    reply = [Call("pay", {}, "1"), Call("look", {}, "2"), Call("pay", {}, "3")]
    model = ScriptedModel(reply, "never", stream=True)
    runs = DurableRuns(sqlite, {"a": Agent(model, [look, pay], **options)}, poll=0.05)
    async with runs.work(interval=0.1):
        run_id = await runs.start("a", "go")
        done = await runs.wait(run_id, seconds=60)

    last = done.state.messages[-1]
    assert isinstance(last, ToolResults)
    assert (done.status, done.reason, done.state.pending) == ("done", "stopped", ())
    assert [one.text for one in last.results] == [ENDED, "seen", ENDED]
    assert did == ["look"]


async def test_a_call_that_was_stopped_leaves_no_result_for_another_worker(sqlite: str) -> None:
    """A worker that has lost its run stops its calls, and its successor must not take that over."""

    @tool
    async def pay(context: Context) -> Result:
        """Pay."""
        return Result.fail(context.call_id, FailureKind.CANCELLED, "Not run.")

    model = ScriptedModel([Call("pay", {}, "1")], "never")
    runs = DurableRuns(sqlite, {"a": Agent(model, [pay])}, poll=0.05)
    async with runs.work(interval=0.1):
        await runs.wait(await runs.start("a", "go", run_id="r"), seconds=60)
    with closing(sqlite3.connect(sqlite)) as connection:
        rows = connection.execute("SELECT key, result FROM handrail_call").fetchall()

    assert rows == [("r/1/1", None)]
