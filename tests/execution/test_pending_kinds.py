"""The kind of a pending call: what needs approval, what needs a login, what only waits."""

from __future__ import annotations

import pytest

from handrail import (
    READ,
    WRITE,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Executor,
    NeedsLogin,
    Result,
    Toolset,
    tool,
)
from handrail.approvals import defer, render_request, view_request
from handrail.messages import Reply
from handrail.permissions import Pending

pytestmark = pytest.mark.anyio


@tool(effect=READ)
async def mail() -> str:
    """Read mail."""
    raise NeedsLogin("Sign in.", url="https://mail.example")


@tool(effect=WRITE)
async def save(context: Context) -> str:
    """Save it."""
    return f"approved: {context.is_approved}"


class Policy:
    version = "1"

    def __call__(self, call: CheckedCall) -> Decision:
        return Ask("Save?", once=True) if call.id == "c2" else Allow()


def only(results: list[Result]) -> Pending:
    [pending] = [one.pending for one in results if one.pending is not None]
    return pending


async def test_each_pending_call_says_what_it_needs() -> None:
    async with Executor(Toolset(mail, save), policy=Policy(), approvals=defer) as executor:
        turn = executor.turn("t", run="r")
        await executor.run_all([Call("mail", {}, "c1")], turn=turn)
        await executor.run_all([Call("save", {}, "c2"), Call("save", {}, "c3")], turn=turn)

    assert [(one.id, one.kind, one.question) for one in turn.pending] == [
        ("r~t~c1~0", "login", "Sign in. https://mail.example"),
        ("r~t~c2~0", "approval", "Save?"),
        ("r~t~c3~0", "waiting", ""),
    ]


async def test_an_approval_that_must_not_be_remembered_is_no_login() -> None:
    async with Executor(Toolset(save), policy=Policy(), approvals=defer) as executor:
        turn = executor.turn("t", run="r")
        turn.answer(only(await executor.run_all([Call("save", {}, "c2")], turn=turn)), Allow())

        assert [one.text for one in await turn.results()] == ["approved: True"]


async def test_a_login_that_is_asked_for_again_is_still_a_login() -> None:
    policy = Policy()
    async with Executor(Toolset(mail), policy=policy, approvals=defer) as executor:
        turn = executor.turn("t", run="r")
        first = only(await executor.run_all([Call("mail", {}, "c1")], turn=turn))
        policy.version = "2"
        turn.answer(first, Allow())
        second = only(await turn.results())

    assert (first.id, first.kind) == ("r~t~c1~0", "login")
    assert (second.id, second.kind) == ("r~t~c1~1", "login")
    assert second.question.startswith("Changed since it was approved")


async def test_a_page_and_a_terminal_ask_a_person_to_sign_in() -> None:
    async with Executor(Toolset(mail), approvals=defer) as executor:
        pending = only([await executor.run(Call("mail", {}, "c1"))])

    assert view_request(pending).title == "Sign in for mail?"
    assert "question: Sign in. https://mail.example" in [
        line.text for line in render_request(pending).details
    ]


async def test_who_signs_in_does_not_approve_a_call_that_the_policy_asks_about_by_then() -> None:
    signed_in, asks, paid = [False], [False], list[str]()

    @tool(effect=WRITE)
    async def pay() -> str:
        """Pay."""
        if not signed_in[0]:
            raise NeedsLogin("Sign in.", url="https://bank.example")
        paid.append("paid")
        return "paid"

    def policy(_: CheckedCall) -> Decision:
        return Ask("Pay?") if asks[0] else Allow()

    async with Executor(Toolset(pay), policy=policy, approvals=defer) as executor:
        first = await executor.run_reply(Reply((Call("pay", {}, "c1"),)))
        signed_in[0] = asks[0] = True
        second = await executor.resume(first, {one.id: Allow() for one in first.questions})
        before = list(paid)
        third = await executor.resume(second, {one.id: Allow() for one in second.questions})

    assert [one.kind for one in first.questions] == ["login"]
    assert [(one.kind, one.question) for one in second.questions] == [("approval", "Pay?")]
    assert (before, paid, [one.text for one in third.results]) == ([], ["paid"], ["paid"])
