"""Texts about permissions: denied calls, and calls that wait for approval."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio

from handrail import (
    READ,
    Allow,
    Approvals,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Deny,
    Executor,
    Hook,
    NeedsLogin,
    Result,
    Toolset,
    tool,
    writes_file,
)
from handrail.permissions import Answer, Edit, MemoryLedger, Pending
from messages.row import Row
from messages.stage import describe, run


@tool(touches=writes_file)
async def save(path: str) -> str:
    """Save a file."""
    return f"Saved {path}."


@tool(effect=READ)
async def look(path: str) -> str:
    """Look at a file."""
    return path


CALL = Call("save", {"path": "a.txt"}, "c1")
TOOLS = Toolset(save, look)


def ask(call: CheckedCall) -> Decision:
    """Ask about calls that write."""
    return Allow() if call.name == "look" else Ask("Allow `save` to change a.txt?")


def ask_once(call: CheckedCall) -> Decision:
    """Ask about the file of the call, and allow others."""
    return ask(call) if call.args["path"] == "a.txt" else Allow()


async def defer(pending: Pending) -> Pending:
    """Answer later."""
    return pending


async def approve(_pending: Pending) -> Answer:
    """Approve."""
    return Allow()


async def rows() -> list[Row]:
    """Return the texts about permissions."""
    return [*await _policies(), *await _waiting(), *await _answers(), *await _broken_approvals()]


async def _policies() -> list[Row]:
    def broken(_call: CheckedCall) -> Decision:
        raise RuntimeError

    def silent(_call: CheckedCall) -> Any:
        return None

    def deny(_call: CheckedCall) -> Decision:
        return Deny("The policy's own text.")

    return [
        describe(
            "A policy denies the call: the reason is the policy's",
            await run(TOOLS, CALL, policy=deny),
        ),
        describe("The policy raises", await run(TOOLS, CALL, policy=broken)),
        describe("The policy returns something else", await run(TOOLS, CALL, policy=silent)),
        describe(
            "The call needs approval, and there is no approver", await run(TOOLS, CALL, policy=ask)
        ),
    ]


async def _waiting() -> list[Row]:
    @tool(name="save", needs_approval=True)
    async def careful() -> str:
        """Always ask."""
        return ""

    @tool(name="save")
    async def private() -> str:
        """Need a login."""
        raise NeedsLogin("Sign in to the shop first.", url="https://shop.example/login")

    @tool(name="save", touches=lambda: [writes_file("a")])
    async def more(context: Context) -> str:
        """Ask for more."""
        await context.may(writes_file("b"))
        return ""

    def ask_for_two(call: CheckedCall) -> Decision:
        return Ask("Save it?") if len(call.accesses) > 1 else Allow()

    asking: dict[str, Any] = {"policy": ask_for_two, "approvals": defer}
    async with Executor(TOOLS, policy=ask, approvals=defer) as executor:
        first, behind = await executor.run_all([CALL, replace(CALL, name="look", id="c2")])
    return [
        describe("The call waits for approval", first),
        describe("The call waits behind another", behind),
        describe(
            "The tool has `needs_approval`", await run(careful, Call("save", "{}"), approvals=defer)
        ),
        describe("The tool needs a login", await run(private, Call("save", "{}"), approvals=defer)),
        describe("The tool asks for more access", await run(more, Call("save", "{}"), **asking)),
    ]


async def answered(answer: Answer, *, times: int = 1, **options: Any) -> Result:
    """Return the last result of a call that was answered later, a number of times."""
    given = Approvals(approver=defer, **options.pop("approvals", {}))
    async with Executor(TOOLS, policy=ask, approvals=given, **options) as executor:
        turn = executor.turn("1", run="r")
        pending = (await turn.run(CALL)).pending
        assert pending is not None
        result = Result("", "")
        for _ in range(times):
            turn = executor.turn("1", run="r")
            turn.answer(pending, answer)
            [result] = await turn.results()
        return result


async def _answers() -> list[Row]:
    async def wait(_pending: Pending) -> Answer:
        await anyio.sleep_forever()
        return Allow()

    async def edit(pending: Pending) -> Answer:
        return Edit({"path": f"{pending.round}.txt"})

    async def redirect(call: CheckedCall) -> Call:
        return replace(call.call, name="look") if "b.txt" in str(call.args) else call.call

    times = iter([0.0, 0.0, 10.0, 10.0, 10.0])
    short = Approvals(approver=wait, timeout=0.01)
    return [
        describe("No one answers in time", await run(TOOLS, CALL, policy=ask, approvals=short)),
        describe(
            "The answer comes too late",
            await answered(Allow(), approvals={"timeout": 5}, clock=lambda: next(times)),
        ),
        describe("The approval was used before", await answered(Allow(), times=2)),
        describe(
            "The call is edited again and again", await run(TOOLS, CALL, policy=ask, approvals=edit)
        ),
        describe(
            "The user changes the arguments of the call",
            await run(TOOLS, CALL, policy=ask_once, approvals=edit),
        ),
        describe(
            "A hook sends the edited call to another tool",
            await answered(Edit({"path": "b.txt"}), hooks=[Hook(before=redirect)]),
        ),
        describe("The application dismisses the call", await _dismissed()),
    ]


async def _dismissed() -> Result:
    async with Executor(TOOLS, policy=ask, approvals=defer) as executor:
        turn = executor.turn()
        pending = (await turn.run(CALL)).pending
        assert pending is not None
        return await turn.dismiss(pending)


async def _broken_approvals() -> list[Row]:
    class Full(MemoryLedger):
        async def claim(self, _pending_id: str, _by: str, /) -> bool:
            raise OSError

    async def broken(_pending: Pending) -> Answer:
        raise ConnectionError

    async def silent(_pending: Pending) -> Any:
        return None

    full = Approvals(approver=approve, ledger=Full())
    return [
        describe("The approver raises", await run(TOOLS, CALL, policy=ask, approvals=broken)),
        describe(
            "The approver returns something else",
            await run(TOOLS, CALL, policy=ask, approvals=silent),
        ),
        describe("The ledger raises", await run(TOOLS, CALL, policy=ask, approvals=full)),
    ]
