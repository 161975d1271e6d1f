"""The model is told what became of its arguments, whoever approves the call, and wherever."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from handrail import (
    Allow,
    Approvals,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Executor,
    Hook,
    Result,
    Toolset,
    tool,
)
from handrail.approvals import defer
from handrail.permissions import Answer, Edit, MemoryLedger, Pending
from resuming import resume

pytestmark = pytest.mark.anyio

REPAIRED = "euros: the string was read as a number"


@tool
async def pay(euros: int, to: str = "", reason: str = "") -> str:
    """Pay."""
    return f"paid {euros} to {to!r} for {reason!r}"


TOOLS = Toolset(pay)
CALL = Call("pay", {"euros": "5"}, "c1")


def ask_if_much(call: CheckedCall) -> Decision:
    return Ask("Pay?") if call.args["euros"] > 3 else Allow()


def answer_with(*answers: Answer) -> Approvals:
    """Return an approver that gives these answers, one for each request."""
    left = iter(answers)

    async def approve(_pending: Pending) -> Answer:
        return next(left)

    return Approvals(approver=approve)


async def test_a_note_on_a_repair_outlives_an_approval() -> None:
    executor = Executor(TOOLS, policy=ask_if_much, approvals=answer_with(Allow()))

    assert (await executor.run(CALL)).text == f"paid 5 to '' for ''\n[Note: {REPAIRED}.]"


async def test_a_note_on_a_repair_outlives_a_restart() -> None:
    asked = await Executor(TOOLS, policy=ask_if_much, approvals=defer).run(CALL)
    assert asked.pending is not None
    saved = Pending.from_json(asked.pending.to_json())

    executor = Executor(TOOLS, policy=ask_if_much, approvals=defer)
    [result] = await resume(executor, [saved], {saved.id: Allow()})

    assert saved.notes == (REPAIRED,)
    assert result.text == f"paid 5 to '' for ''\n[Note: {REPAIRED}.]"


async def test_a_note_on_a_repair_outlives_a_hook_that_changes_the_call() -> None:
    def before(call: CheckedCall) -> Call | CheckedCall:
        return call.with_args(to="Ada") if not call.args["to"] else call

    executor = Executor(
        TOOLS, policy=ask_if_much, approvals=answer_with(Allow()), hooks=[Hook(before=before)]
    )

    assert (await executor.run(CALL)).text == f"paid 5 to 'Ada' for ''\n[Note: {REPAIRED}.]"


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        (
            [Edit({"euros": 3})],
            "paid 3 to '' for ''\n[Note: a person changed the arguments: euros=3, to left out.]",
        ),
        (
            [Edit({"euros": 3, "to": "Ada"})],
            "paid 3 to 'Ada' for ''\n[Note: a person changed the arguments: euros=3.]",
        ),
        (
            [Edit({"euros": 4, "to": "Ada"}), Allow()],
            "paid 4 to 'Ada' for ''\n[Note: a person changed the arguments: euros=4.]",
        ),
        ([Edit({"euros": 5, "to": "Ada"}), Allow()], "paid 5 to 'Ada' for ''"),
        (
            [Edit('{"euros": "3", "to": "Ada", "reason": "the\\nrent"}')],
            """paid 3 to 'Ada' for 'the\\nrent'
[Note: a person changed the arguments: euros=3, reason="the\\nrent"; \
euros: the string was read as a number.]""",
        ),
        (
            [Edit({"euros": 4, "to": "Ada"}), Edit({"euros": 3, "to": "Bob"})],
            """paid 3 to 'Bob' for ''
[Note: a person changed the arguments: euros=4; \
a person changed the arguments: euros=3, to="Bob".]""",
        ),
    ],
)
async def test_the_model_is_told_of_arguments_that_a_person_changed(
    answers: Sequence[Answer], text: str
) -> None:
    executor = Executor(TOOLS, policy=ask_if_much, approvals=answer_with(*answers))
    result = await executor.run(Call("pay", {"euros": 5, "to": "Ada"}, "c1"))

    assert result.text == text


async def test_a_long_argument_is_cut_in_the_note() -> None:
    reason = "x" * 1000
    edit = Edit({"euros": 3, "reason": reason})
    executor = Executor(TOOLS, policy=ask_if_much, approvals=answer_with(edit))
    result = await executor.run(Call("pay", {"euros": 3, "reason": "short"}, "c1"))
    again = await executor.run(Call("pay", {"euros": 5, "reason": "short"}, "c2"))

    assert result.text == "paid 3 to '' for 'short'"
    note = f'[Note: a person changed the arguments: euros=3, reason="{"x" * 78}….]'
    assert again.text == f"paid 3 to '' for '{reason}'\n{note}"


@pytest.mark.parametrize(
    ("answer", "notes"),
    [
        (Allow(), REPAIRED),
        (Edit({"euros": 3}), f"{REPAIRED}; a person changed the arguments: euros=3"),
    ],
)
async def test_a_result_from_before_a_restart_keeps_its_notes(answer: Answer, notes: str) -> None:
    approvals = Approvals(approver=defer, ledger=MemoryLedger())
    async with Executor(TOOLS, policy=ask_if_much, approvals=approvals) as executor:
        turn = executor.turn("1", run="r")
        turn.add(CALL)
        await turn.results()
        [waiting] = turn.pending
    async with Executor(TOOLS, policy=ask_if_much, approvals=approvals) as executor:
        turn = executor.turn("1", run="r", known={"c1": Result("c1", "paid before")})
        turn.answer(waiting, answer)
        [result] = await turn.results()

    assert result.text == f"paid before\n[Note: {notes}.]"


async def test_a_result_of_a_tool_that_is_gone_has_no_notes() -> None:
    async with Executor(TOOLS, policy=ask_if_much, approvals=defer) as executor:
        turn = executor.turn("1", run="r")
        turn.add(CALL)
        await turn.results()
        [waiting] = turn.pending
    async with Executor(Toolset(), approvals=defer) as executor:
        turn = executor.turn("1", run="r", known={"c1": Result("c1", "paid before")})
        turn.answer(waiting, Allow())
        [result] = await turn.results()

    assert result.text == "paid before"
