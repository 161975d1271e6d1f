"""A tool knows whether a person approved exactly the call that it serves."""

from __future__ import annotations

import pytest

from handrail import (
    READ,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Executor,
    NeedsLogin,
    Toolset,
    tool,
)
from handrail.approvals import defer
from handrail.permissions import Answer, Edit, Pending, Policy
from resuming import resume

pytestmark = pytest.mark.anyio


@tool
async def save(path: str, context: Context) -> str:
    """Save a file."""
    return f"{path}: {context.is_approved}"


TOOLS = Toolset(save)


def careful(call: CheckedCall) -> Decision:
    return Ask("Save?") if call.args["path"] == "secret" else Allow()


async def test_a_call_that_the_policy_allows_was_approved_by_no_one() -> None:
    executor = Executor(TOOLS, policy=careful)

    assert (await executor.run(Call("save", {"path": "a"}, "c1"))).text == "a: False"


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ([Allow()], "secret: True"),
        ([Edit({"path": "a"})], 'a: False\n[Note: a person changed the arguments: path="a".]'),
        ([Edit({"path": "secret"}), Allow()], "secret: True"),
    ],
)
async def test_an_approval_is_for_the_call_that_was_shown(answers: list[Answer], text: str) -> None:
    given = iter(answers)

    async def approve(_pending: Pending) -> Answer:
        return next(given)

    executor = Executor(TOOLS, policy=careful, approvals=approve)

    assert (await executor.run(Call("save", {"path": "secret"}, "c1"))).text == text


@pytest.mark.parametrize(
    ("path", "answers", "texts"),
    [
        ("a", [Allow()], ["a: False", "a: False"]),
        ("secret", [Allow(), Allow()], ["secret: True", "secret: True"]),
        ("secret", [Allow(), Edit({"path": "a"})], ["secret: True", "a: False"]),
    ],
)
async def test_to_sign_in_is_no_approval(
    path: str, answers: list[Answer], texts: list[str]
) -> None:
    given, seen = iter(answers), list[str]()

    @tool(name="save", effect=READ)
    async def save_as_user(path: str, context: Context) -> str:
        """Save a file."""
        seen.append(f"{path}: {context.is_approved}")
        if len(seen) == 1:
            raise NeedsLogin("Sign in.")
        return seen[-1]

    async def approve(_pending: Pending) -> Answer:
        return next(given)

    executor = Executor(Toolset(save_as_user), policy=careful, approvals=approve)
    await executor.run(Call("save", {"path": path}, "c1"))

    assert seen == texts


async def test_an_approval_that_is_given_later_counts_too() -> None:
    executor = Executor(TOOLS, policy=careful, approvals=defer)
    waiting = await executor.run(Call("save", {"path": "secret"}, "c1"))
    assert waiting.pending is not None

    [result] = await resume(executor, [waiting.pending], {waiting.pending.id: Allow()})

    assert result.text == "secret: True"


async def test_an_approval_under_another_policy_is_none() -> None:
    class Careful:
        version = "1"

        def __call__(self, call: CheckedCall) -> Decision:
            return careful(call)

    policy, answers = Careful(), iter([Allow(), Edit({"path": "a"})])

    async def approve(_pending: Pending) -> Answer:
        policy.version = "2"
        return next(answers)

    executor = Executor(TOOLS, policy=policy, approvals=approve)

    result = await executor.run(Call("save", {"path": "secret"}, "c1"))

    assert result.text == 'a: False\n[Note: a person changed the arguments: path="a".]'


def allow(_call: CheckedCall) -> Decision:
    return Allow()


def ask_once(_call: CheckedCall) -> Decision:
    return Ask("Save?", once=True)


@pytest.mark.parametrize("policy", [None, allow, ask_once])
async def test_an_approval_that_is_never_remembered_counts_too(policy: Policy | None) -> None:
    @tool(name="save", needs_approval=policy is not ask_once)
    async def save_carefully(path: str, context: Context) -> str:
        """Save a file."""
        return f"{path}: {context.is_approved}"

    async def approve(_pending: Pending) -> Answer:
        return Allow()

    executor = Executor(Toolset(save_carefully), policy=policy, approvals=approve)

    assert (await executor.run(Call("save", {"path": "a"}, "c1"))).text == "a: True"


@pytest.mark.parametrize(("path", "text"), [("secret", "secret: True"), ("a", "a: False")])
async def test_an_approval_outlives_a_login_in_another_process(path: str, text: str) -> None:
    signed_in = list[str]()

    @tool(name="save", effect=READ)
    async def save_as_user(path: str, context: Context) -> str:
        """Save a file."""
        if not signed_in:
            raise NeedsLogin("Sign in.")
        return f"{path}: {context.is_approved}"

    executor = Executor(Toolset(save_as_user), policy=careful, approvals=defer)
    [asked] = [await executor.run(Call("save", {"path": path}, "c1"))]
    while asked.pending is not None:
        if asked.pending.question == "Sign in.":
            signed_in.append("yes")
        saved = Pending.from_json(asked.pending.to_json())
        executor = Executor(Toolset(save_as_user), policy=careful, approvals=defer)
        [asked] = await resume(executor, [saved], {saved.id: Allow()})

    assert (asked.text, signed_in) == (text, ["yes"])
