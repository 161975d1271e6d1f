"""Questions of a tool to its user: ``context.ask``, answered now or later, by a person alone."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import (
    READ,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Deny,
    Executor,
    Registry,
    Result,
    Toolset,
    tool,
)
from handrail.approvals import defer
from handrail.messages import ToolResults
from handrail.permissions import Answer, Approvals, Approvers, Edit, Pending

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"size": {"type": "integer", "default": 2}, "gift": {"type": "boolean"}},
}
NEEDED: dict[str, Any] = {
    "type": "object",
    "properties": {"size": {"type": "integer"}},
    "required": ["size"],
}


@tool(effect=READ)
async def order(context: Context) -> str:
    """Order."""
    before = context.asked()
    values = await context.ask("Which size?", FORM)
    sure = await context.ask("Sure?", name="sure") if values is not None else None
    return f"{values} {sure} {before is not None}"


@tool(effect=READ)
async def measure(context: Context) -> str:
    """Measure."""
    return str(await context.ask("Which size?", NEEDED, now=True))


def made(approver: Any, policy: Any = lambda _: Allow()) -> Executor:
    approvals = None if approver is None else Approvals(approver=approver)
    return Executor(Toolset(order, measure), policy=policy, approvals=approvals)


def giving(answer: Answer) -> Any:
    async def approver(_: Pending) -> Answer:
        return answer

    return approver


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Edit({"size": 3}), "{'size': 3} {} False"),
        (Edit('{"size": 3, "gift": true}'), "{'size': 3, 'gift': True} {} False"),
        (Allow(), "{'size': 2} {} False"),
        (Deny.by_user(), "None None False"),
    ],
)
async def test_a_tool_gets_what_its_user_says(answer: Answer, text: str) -> None:
    async def approver(pending: Pending) -> Answer:
        return Allow() if pending.question == "Sure?" else answer

    assert (await made(approver).run(Call("order", {}))).text == text


@pytest.mark.parametrize("approver", [None, defer, giving(Allow())])
async def test_no_one_and_no_value_is_no_answer(approver: Any) -> None:
    """A question that must be answered now is not left open."""
    assert await made(approver).run(Call("measure", {}, "c")) == Result("c", "None")


async def test_values_that_do_not_fit_are_never_given_to_the_tool() -> None:
    result = await made(giving(Edit({"size": "many"}))).run(Call("measure", {}))

    assert result.text.startswith("The user's answer does not fit the form.")


async def test_answers_come_later_to_another_executor_one_by_one() -> None:
    saved = ToolResults((await made(defer).turn("t", run="r").run(Call("order", {}, "c")),))
    asked: list[tuple[str, str, str]] = []
    answers = [Edit({"size": 5}), Allow()]
    while saved.questions:
        [pending] = [Pending.from_json(one.to_json()) for one in saved.questions]
        asked.append((pending.kind, pending.question, pending.headline))
        saved = await made(defer).resume(saved, {pending.id: answers.pop(0)})

    assert asked == [
        ("form", "Which size?", "Answer a question"),
        ("form", "Sure?", "Answer a question"),
    ]
    assert saved.results == (Result("c", "{'size': 5} {} True"),)


async def test_a_policy_can_deny_a_question_and_limit_who_answers_but_not_skip_it() -> None:
    def deny(call: CheckedCall) -> Any:
        return Deny("no forms") if call.name == "fill_in" else Allow()

    def limit(call: CheckedCall) -> Any:
        return Ask("Why?", approvers=Approvers((("ops",),))) if call.name == "fill_in" else Allow()

    denied = await made(giving(Allow()), deny).run(Call("order", {}))
    limited = await made(giving(Allow()), limit).turn("t", run="r").run(Call("order", {}))
    unruled = await made(giving(Edit({"size": 1})), None).run(Call("order", {}))

    assert (denied.text, unruled.text) == ("None None False", "{'size': 1} {} False")
    [asked] = ToolResults((limited,)).questions
    assert (asked.kind, asked.question, asked.approvers.groups) == (
        "form",
        "Which size?",
        (("ops",),),
    )


async def test_a_context_of_your_own_has_no_one_to_ask() -> None:
    context = Context(call_id="c", idempotency_key="k")

    assert context.asked() is None
    with pytest.raises(RuntimeError, match="no executor"):
        await context.ask("Which size?", FORM)


async def test_a_question_is_asked_although_the_registry_has_changed() -> None:
    registry = Registry()
    registry.add(Toolset(order), name="own")

    async def approver(_: Pending) -> Answer:
        return Edit({"size": 3})

    executor = Executor(registry, policy=lambda _: Allow(), approvals=Approvals(approver=approver))
    turn = executor.turn("t", run="r")
    registry.add(Toolset(measure), name="more")

    assert (await turn.run(Call("order", {}))).text == "{'size': 3} {} False"
