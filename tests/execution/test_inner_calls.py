"""Calls that tools make: edits of waiting ones, and what others are told about them."""

from __future__ import annotations

from typing import Any

import anyio

from handrail import (
    READ,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Executor,
    Toolset,
    tool,
    writes_file,
)
from handrail.events import Waiting
from handrail.permissions import Answer, Edit, Pending
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
