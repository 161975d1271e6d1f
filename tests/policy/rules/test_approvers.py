"""Who may answer: data beside a rule, carried by the request."""

from __future__ import annotations

import json

import pytest

from handrail import Allow, Approvals, Ask, Call, CheckedCall, Decision, Executor, Toolset, tool
from handrail.events import Asked
from handrail.permissions import Answer, Approvers, Pending
from handrail.policy import InvalidRule, Level, Rulebook, parse
from resuming import resume

LEADS = """
[[rule]]
id = "large refunds"
decide = "ask"
tools = "refund"
approvers = ["payments-leads", "cfo"]
not_requester = true
count = 2
"""
SECURITY = """
[[rule]]
decide = "ask"
tools = "refund"
approvers = ["security"]
count = 3
"""


@tool
async def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


def read(*texts: str) -> Rulebook:
    return Rulebook(
        [
            rule
            for number, text in enumerate(texts)
            for rule in parse(text, file=f"{number}.toml", level=Level.USER).rules
        ]
    )


async def ask(policy: object, approved: list[Pending]) -> Pending:
    """Return the request for a refund; an approver would allow it."""

    async def approver(pending: Pending) -> Answer:
        approved.append(pending)
        return Allow()

    executor = Executor(Toolset(refund), policy=policy, approvals=Approvals(approver=approver))
    feed = executor.events()
    async with executor:
        await executor.run(Call("refund", {"order": "A1"}, "c1"))
    [pending] = [event.pending async for event in feed if isinstance(event, Asked)]
    return pending


async def test_a_request_says_who_may_answer_and_no_approver_is_asked() -> None:
    approved: list[Pending] = []

    pending = await ask(read(LEADS), approved)

    assert pending.approvers == Approvers((("payments-leads", "cfo"),), not_requester=True, count=2)
    assert (pending.once, approved) == (True, [])
    assert Pending.from_json(pending.to_json()) == pending


async def test_without_such_keys_anyone_may_answer() -> None:
    approved: list[Pending] = []
    plain = "\n".join(LEADS.splitlines()[:5])

    pending = await ask(read(plain), approved)

    assert (pending.approvers, pending.once, approved) == (Approvers(), False, [pending])
    assert "approvers" not in json.loads(pending.to_json())  # as older versions wrote it


@pytest.mark.parametrize("order", [(LEADS, SECURITY), (SECURITY, LEADS)])
async def test_if_several_rules_ask_all_of_them_apply(order: tuple[str, str]) -> None:
    approvers = (await ask(read(*order), [])).approvers

    assert set(approvers.groups) == {("payments-leads", "cfo"), ("security",)}
    assert (approvers.not_requester, approvers.count) == (True, 3)


async def test_a_call_that_changed_keeps_who_may_answer() -> None:
    limits = Approvers((("leads",),))

    class Changing:
        version = "1"

        def __call__(self, _call: CheckedCall) -> Decision:
            return Ask("Refund?", approvers=limits)

    policy = Changing()
    executor = Executor(Toolset(refund), policy=policy, approvals=Approvals(approver=_never))
    async with executor:
        first = await executor.run(Call("refund", {"order": "A1"}, "c1"))
        assert first.pending is not None
        policy.version = "2"
        [again] = await resume(executor, [first.pending], {first.pending.id: Allow()})

    assert again.pending is not None
    assert (again.pending.approvers, again.pending.round) == (limits, 1)


async def _never(pending: Pending) -> Answer:
    raise AssertionError(pending)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("approvers = []", "approvers must be a list of people and groups, got []"),
        ("approvers = 'jo'", 'approvers must be a list of people and groups, got "jo"'),
        ("approvers = [' ']", 'approvers must be a list of people and groups, got [" "]'),
        ("approvers = [1]", "approvers must be a list of people and groups, got [1]"),
        ("not_requester = 1", "not_requester must be true or false, got 1"),
        ("count = 0", "count must be an integer from 1 to 10, got 0"),
        ("count = true", "count must be an integer from 1 to 10, got true"),
        ("count = 11", "count must be an integer from 1 to 10, got 11"),
    ],
)
def test_other_values_are_refused(line: str, reason: str) -> None:
    with pytest.raises(InvalidRule, match=r"r\.toml:1: ") as caught:
        parse(f"[[rule]]\ndecide = 'ask'\ntools = 'x'\n{line}", file="r.toml", level=Level.USER)

    assert caught.value.reason == reason


@pytest.mark.parametrize("line", ["approvers = ['jo']", "not_requester = true", "count = 2"])
@pytest.mark.parametrize("decide", ["allow", "deny"])
def test_the_keys_are_for_a_rule_that_asks(line: str, decide: str) -> None:
    text = f"[[rule]]\ndecide = '{decide}'\ntools = 'x'\n{line}"
    key = line.partition(" ")[0]

    with pytest.raises(InvalidRule, match=f"{key} is only for a rule with decide = 'ask'"):
        parse(text, file="r.toml", level=Level.USER)
