"""An executor refuses wrong options when it is made, and says what to write instead."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Generator
from typing import Any

import pytest

from handrail import (
    Allow,
    Approvals,
    Ask,
    Call,
    CheckedCall,
    Executor,
    Registry,
    Result,
    Toolset,
    tool,
)
from handrail.approvals import callback
from handrail.permissions import Pending
from handrail.policy import Rulebook


@tool
async def put(path: str) -> str:
    """Put a text there."""
    return path


def get(path: str) -> str:
    """Get a text."""
    return path


TOOLS = Toolset(put)
PUT = Call("put", {"path": "a"}, "c1")
DONE = Result("c1", "a")
POLICY = "must be a function that decides about a CheckedCall, or a Rulebook."
APPROVER = "must be an async function that answers a Pending, such as terminal()"


def refused(*args: Any, **options: Any) -> str:
    with pytest.raises(TypeError) as raised:
        Executor(*args, **options)
    return str(raised.value)


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        (put, "Executor(Tool): pass a Toolset, as in `Executor(Toolset(put))`."),
        (get, "Executor(function): pass a Toolset, as in `Executor(Toolset(get))`."),
        ([put], "Executor(list): pass a Toolset, as in `Executor(Toolset(*tools))`."),
        ((put,), "Executor(tuple): pass a Toolset, as in `Executor(Toolset(*tools))`."),
        (Toolset, "Executor(Toolset): pass a Toolset, as in `Executor(Toolset(...))`."),
        ("put", "Executor(str): pass a Toolset, as in `Executor(Toolset(...))`."),
        (None, "Executor(NoneType): pass a Toolset, as in `Executor(Toolset(...))`."),
    ],
)
def test_tools_that_are_not_in_a_set_are_refused(tools: Any, why: str) -> None:
    assert refused(tools) == why


async def test_tools_in_a_set_or_a_registry_run() -> None:
    registry = Registry()
    registry.add(TOOLS)

    assert [await Executor(tools).run(PUT) for tools in (TOOLS, registry)] == [DONE, DONE]


class OwnPolicy:
    def __call__(self, _call: CheckedCall) -> Allow:
        return Allow()

    def decide(self, call: CheckedCall, _more: object = None) -> Allow:
        return self(call)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (Rulebook, "this is a class. Pass an instance, such as Rulebook(...)."),
        (OwnPolicy, "this is a class. Pass an instance, such as OwnPolicy(...)."),
        ("ask", POLICY),
        (True, POLICY),
        (Ask("Sure?"), POLICY),
    ],
)
def test_a_policy_that_cannot_decide_is_refused(policy: Any, why: str) -> None:
    given = policy.__name__ if isinstance(policy, type) else repr(policy)
    with pytest.raises(TypeError) as raised:
        Executor(TOOLS).restrict("put", policy=policy)

    assert refused(TOOLS, policy=policy) == f"Executor(policy={given}): {why}"
    assert str(raised.value) == f"restrict(policy={given}): {why}"


@pytest.mark.parametrize(
    "policy",
    [
        None,
        OwnPolicy(),
        OwnPolicy().decide,
        functools.partial(OwnPolicy.decide, OwnPolicy()),
        lambda _call: Allow(),
        Rulebook(),
    ],
    ids=["none", "object", "method", "partial", "lambda", "rules"],
)
async def test_whatever_can_decide_is_a_policy(policy: Any) -> None:
    executor = Executor(TOOLS, policy=policy, approvals=approve)
    restricted = Executor(TOOLS, approvals=approve).restrict("put", policy=policy)

    assert [await executor.run(PUT), await restricted.run(PUT)] == [DONE, DONE]


async def approve(_pending: Pending) -> Allow:
    return Allow()


async def approve_with(_more: object, _pending: Pending) -> Allow:
    return Allow()


class OwnApprover:
    async def __call__(self, _pending: Pending) -> Allow:
        return Allow()

    async def ask(self, pending: Pending) -> Allow:
        return await self(pending)


class Answering(Awaitable[Allow]):
    """Its instances are awaitable, so the class itself is an approver."""

    def __init__(self, _pending: Pending) -> None:
        pass

    def __await__(self) -> Generator[Any, Any, Allow]:
        return Allow()
        yield


@pytest.mark.parametrize(
    ("approver", "why"),
    [
        (True, APPROVER),
        ("terminal", APPROVER),
        (Allow(), APPROVER),
        (Approvals, "this is a class. Pass an instance, such as Approvals(...)"),
        (OwnApprover, "this is a class. Pass an instance, such as OwnApprover(...)"),
    ],
)
def test_an_approver_that_cannot_answer_is_refused(approver: Any, why: str) -> None:
    given = approver.__name__ if isinstance(approver, type) else repr(approver)
    also = ", or an Approvals" if why == APPROVER else ""
    with pytest.raises(TypeError) as raised:
        Approvals(approver=approver)

    assert refused(TOOLS, approvals=approver) == f"Executor(approvals={given}): {why}{also}."
    assert str(raised.value) == f"Approvals(approver={given}): {why}."


@pytest.mark.parametrize(
    "approver",
    [
        approve,
        OwnApprover(),
        OwnApprover().ask,
        functools.partial(approve_with, 1),
        lambda pending: approve(pending),  # noqa: PLW0108  a plain function that returns an awaitable
        Answering,
        callback(lambda _pending: True),
        Approvals(approver=approve),
    ],
    ids=["function", "object", "method", "partial", "lambda", "class", "callback", "approvals"],
)
async def test_whatever_returns_an_awaitable_is_an_approver(approver: Any) -> None:
    executor = Executor(TOOLS, policy=lambda _call: Ask("Sure?"), approvals=approver)

    assert await executor.run(PUT) == DONE


async def test_an_approver_that_is_not_async_denies_and_says_how_to_wrap_it() -> None:
    plain: Any = lambda _pending: True  # noqa: E731
    result = await Executor(TOOLS, policy=lambda _call: Ask("?"), approvals=plain).run(PUT)

    assert result.text == "Not run: the approval request failed (TypeError). Tell the user."
    assert result.failure is not None
    assert result.failure.detail == repr(
        TypeError(
            "The approver is not async: make it `async def`, or wrap it with "
            "`handrail.approvals.callback`."
        )
    )


@pytest.mark.parametrize("approver", [lambda: None, lambda _one, _other: None])
def test_an_approver_takes_one_request(approver: Any) -> None:
    why = "must take one argument, a Pending."
    with pytest.raises(TypeError) as raised:
        Approvals(approver=approver)

    assert str(raised.value) == f"Approvals(approver=<lambda>): {why}"
    assert refused(TOOLS, approvals=approver) == f"Executor(approvals=<lambda>): {why}"
