"""Calls that tools make: edits of waiting ones, and what others are told about them."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from handrail import (
    READ,
    Access,
    Allow,
    Approvals,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Executor,
    Result,
    Toolset,
    tool,
    writes_file,
)
from handrail.approvals import defer
from handrail.events import Waiting
from handrail.messages import Reply, ToolResults
from handrail.permissions import Answer, Edit, MemoryLedger, Pending
from virtual_time import Quick


class Office:
    """Tools that save files, and one that makes calls."""

    def __init__(self) -> None:
        self.executor: Any = None
        self.saved: list[str] = []
        self.inside, self.free = anyio.Event(), anyio.Event()

    @tool(touches=writes_file)
    async def save(self, path: str) -> str:
        """Save."""
        self.saved.append(path)
        if path == "held":
            self.inside.set()
            await self.free.wait()
        return f"saved {path}"

    @tool(effect=READ, touches=lambda **_: Access(READ, "desk:1"))
    async def work(self, paths: list[str]) -> str:
        """Save files."""
        calls = [Call("save", {"path": path}, f"i{at}") for at, path in enumerate(paths)]
        return ", ".join(one.text for one in await self.executor.run_all(calls))


async def test_an_edited_inner_call_no_longer_holds_those_behind_it() -> None:
    def decide(call: CheckedCall) -> Decision:
        return Ask("May it?") if call.id == "i0" and call.args["path"] == "a" else Allow()

    async def person(_pending: Pending) -> Answer:
        await anyio.wait_all_tasks_blocked()
        return Edit({"path": "b"})

    office = Office()
    tools = Toolset.from_object(office)
    async with Executor(tools, policy=Quick(decide), approvals=person) as executor:
        office.executor = executor
        result = await executor.run(Call("work", {"paths": ["a", "a"]}, "1"))

    note = '[Note: a person changed the arguments: path="b".]'
    assert result.text == f"saved b\n{note}, saved a"
    assert sorted(office.saved) == ["a", "b"]


async def test_a_call_that_waits_for_an_inner_one_is_told_its_resource() -> None:
    office = Office()
    async with Executor(Toolset.from_object(office)) as executor:
        office.executor = executor
        feed = executor.events()
        async with anyio.create_task_group() as group:
            group.start_soon(executor.run, Call("work", {"paths": ["held"]}, "1"))
            await office.inside.wait()
            group.start_soon(executor.run, Call("save", {"path": "held"}, "2"))
            await anyio.wait_all_tasks_blocked()
            saved = list(office.saved)
            office.free.set()
        feed.close()
        told = [event async for event in feed if isinstance(event, Waiting)]

    assert saved == ["held"]
    assert [(one.call_id, one.on, one.what) for one in told] == [("2", ("1",), "file:held")]


class Desk:
    """A tool that works with another executor, whose requests it passes on."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.began: list[tuple[str, bool]] = []
        self.approvals = Approvals(approver=defer, ledger=MemoryLedger())

    @tool
    async def send(self, to: str) -> str:
        """Send."""
        self.sent.append(to)
        return f"sent to {to}"

    @tool
    async def note(self, text: str) -> str:
        """Note."""
        return f"noted {text}"

    @tool
    async def work(self, context: Context) -> str:
        """Send two letters through another executor, and note it."""
        self.began.append((context.record, context.has_begun))
        await context.turn("before", [Call("note", {"text": "start"}, "n")], tools=[self.note])
        tools = Toolset.from_object(self).only("send")
        async with Executor(tools, policy=ask_always, approvals=self.approvals) as other:
            turn = other.turn("letters", run=context.idempotency_key)
            if context.record:
                saved = [Pending.from_json(one) for one in json.loads(context.record)]
                turn.adopt(*saved)
                for one in saved:
                    if one.id in context.answers:
                        turn.answer(one, context.answers[one.id])
                results = await turn.results()
            else:
                letters = [Call("send", {"to": name}, name) for name in ("ann", "bob")]
                results = await other.run_all(letters, turn=turn)
            if turn.pending:
                record = json.dumps([one.to_json() for one in turn.pending])
                context.suspend(*turn.pending, record=record)
        return results[-1].text


def ask_always(call: CheckedCall) -> Decision:
    return Ask(f"{call.args}?")


async def test_a_tool_passes_on_the_requests_of_another_executor() -> None:
    desk = Desk()
    tools = Toolset.from_object(desk)
    async with Executor(tools, approvals=defer) as executor:
        reply = Reply((Call("work", {}, "w"),))
        saved = await executor.run_reply(reply, turn=executor.turn("1", run="r"))
    questions = []
    for _ in range(2):
        [question, *_] = saved.questions
        questions.append([one.question for one in saved.questions])
        async with Executor(tools, approvals=defer) as executor:  # as in another process
            read = ToolResults(tuple(Result.from_json(one.to_json()) for one in saved.results))
            saved = await executor.resume(read, {question.id: Allow()})

    assert questions == [["{'to': 'ann'}?", "{'to': 'bob'}?"], ["{'to': 'bob'}?"]]
    assert (desk.sent, saved.results[0].text) == (["ann", "bob"], "sent to bob")
    assert [(bool(record), has_begun) for record, has_begun in desk.began] == [
        (False, False),
        (True, True),
        (True, True),
    ]


async def test_without_an_executor_a_tool_keeps_nothing_and_cannot_wait() -> None:
    context: Context[Any] = Context(call_id="c", idempotency_key="k")

    assert (context.record, context.answers) == ("", {})
    with pytest.raises(RuntimeError, match="This Context has no executor"):
        context.suspend(record="")
