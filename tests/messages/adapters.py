"""Texts that the adapters for frameworks add."""

from __future__ import annotations

from handrail import Call, Executor, Result
from handrail.adapters._turns import Turns
from messages.core_approvals import CALL, TOOLS, ask
from messages.row import Row
from messages.stage import describe


async def rows() -> list[Row]:
    """Return the texts of adapters."""
    return [describe("In a framework: an earlier call of the reply is pending", await _behind())]


async def _behind() -> Result:
    """Run two calls that write the same file, as a framework does. The first one waits."""
    async with Executor(TOOLS, policy=ask) as executor:
        turns = Turns(executor)
        opened = turns.open("run", "1", {})
        await opened.run(CALL)
        second = await opened.run(Call("look", {"path": "a.txt"}, "c2"))
        return await turns.settle(opened, second)
