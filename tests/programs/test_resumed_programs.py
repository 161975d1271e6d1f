"""Approvals in the middle of programs: saved as JSON, and answered in other processes."""

from __future__ import annotations

import os
from typing import Any

import pytest

from handrail import (
    WRITE,
    Access,
    Allow,
    Approvals,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Deny,
    Executor,
    Result,
    Toolset,
    tool,
)
from handrail.agent import Agent, InnerEvent, dump_state, load_state
from handrail.approvals import defer
from handrail.messages import Reply, Request, Text, ToolResults
from handrail.permissions import Edit
from handrail.programs import program_tool
from programs.tools import Shop, ask_about_refunds, find_workers

FIVE = """
import asyncio
import random

seen = []

async def attempt(order):
    try:
        seen.append(await refund(order=order))
    except Exception as error:
        seen.append(str(error))

luck = random.random()
await orders(user="ann")
await attempt(1)
await attempt(2)
await attempt(3)
await asyncio.gather(attempt(4), orders(user="bob"), attempt(5))
seen + [luck]
"""


WAITING = 1_000 if os.environ.get("HANDRAIL_PROFILE") == "soak" else 100


def reply(code: str) -> Reply:
    return Reply((Call("run_program", {"code": code}, id="c"),))


def copy(saved: ToolResults) -> ToolResults:
    """As another process reads it."""
    return ToolResults(tuple(Result.from_json(one.to_json()) for one in saved.results))


async def resume(shop: Shop, saved: ToolResults, answers: dict[str, Any]) -> ToolResults:
    """Answer in a new executor, as a new process would."""
    approvals = Approvals(approver=defer)
    async with Executor(shop.with_program(), policy=ask_about_refunds, approvals=approvals) as one:
        return copy(await one.resume(copy(saved), answers))


async def begin(shop: Shop, code: str) -> ToolResults:
    async with Executor(shop.with_program(), policy=ask_about_refunds, approvals=defer) as one:
        return copy(await one.run_reply(reply(code), turn=one.turn("1", run="r")))


async def test_five_approvals_are_answered_each_in_a_new_process() -> None:
    shop = Shop()
    saved = await begin(shop, FIVE)
    answers: list[Any] = [
        Allow(),
        Deny("Not this one."),
        Edit({"order": 30}),
        Allow(),
        Deny("Late."),
    ]
    history = []
    for answer in answers:
        pending = saved.questions[0]
        history.append((pending.question, [*shop.refunded], shop.reads))
        saved = await resume(shop, saved, {pending.id: answer})
        while "Edited" in saved.questions[0].question if saved.questions else False:
            saved = await resume(shop, saved, {saved.questions[0].id: Allow()})

    assert history == [
        ("Refund 1?", [], 1),
        ("Refund 2?", [1], 1),
        ("Refund 3?", [1], 1),
        ("Refund 4?", [1, 30], 2),
        ("Refund 5?", [1, 30, 4], 2),
    ]
    assert saved.questions == ()
    assert shop.refunded == [1, 30, 4]
    assert saved.results[0].text.startswith(
        '["refunded 1", "[denied] Not this one.", "refunded 30", "refunded 4", "[denied] Late.", 0.'
    )


async def test_one_approval_of_a_gather_can_be_answered_before_the_others() -> None:
    shop = Shop()
    code = "import asyncio\nawait asyncio.gather(refund(order=1), refund(order=2), refund(order=3))"
    saved = await begin(shop, code)
    ids = [pending.id for pending in saved.questions]
    after = await resume(shop, saved, {ids[1]: Allow()})
    then = [pending.id for pending in after.questions]
    done = await resume(shop, after, {ids[0]: Allow(), ids[2]: Allow()})

    assert then == [ids[0], ids[2]]
    assert done.results[0].text == '["refunded 1", "refunded 2", "refunded 3"]'
    assert sorted(shop.refunded) == [1, 2, 3]
    assert shop.refunded[0] == 2


async def test_an_expired_approval_denies_the_call_and_the_program_goes_on() -> None:
    shop, now = Shop(), [1_000.0]
    tools, approvals = shop.with_program(), Approvals(approver=defer, timeout=10.0)
    code = "try:\n    await refund(order=1)\nexcept PermissionError as e:\n    print(e)"
    async with Executor(
        tools, policy=ask_about_refunds, approvals=approvals, clock=lambda: now[0]
    ) as executor:
        saved = await executor.run_reply(reply(code), turn=executor.turn("1", run="r"))
        now[0] += 60
        done = await executor.resume(saved, {saved.questions[0].id: Allow()})
    assert "the approval request had expired" in done.results[0].text
    assert shop.refunded == []


async def test_an_answer_is_used_once() -> None:
    shop = Shop()
    approvals = Approvals(approver=defer)
    async with Executor(shop.with_program(), policy=ask_about_refunds, approvals=approvals) as one:
        saved = await one.run_reply(reply("await refund(order=1)"), turn=one.turn("1", run="r"))
        answers = {saved.questions[0].id: Allow()}
        first = await one.resume(saved, answers)
        second = await one.resume(saved, answers)
    assert (first.results[0].text, shop.refunded) == ("refunded 1", [1])
    assert "already used" in second.results[0].text


async def test_an_answer_to_nothing_is_refused() -> None:
    shop = Shop()
    saved = await begin(shop, "await refund(order=1)")
    with pytest.raises(LookupError, match="There is no open question 'x'"):
        await resume(shop, saved, {"x": Allow()})


async def test_a_turn_takes_an_answer_to_a_call_inside_a_pending_one() -> None:
    shop = Shop()
    async with Executor(shop.with_program(), policy=ask_about_refunds, approvals=defer) as one:
        turn = one.turn("1", run="r")
        waiting = await one.run(reply("await refund(order=1)").calls[0], turn=turn)
        [question] = turn.questions
        turn.answer(question, Allow())
        [done] = await turn.results()
    assert waiting.text == (
        "Not done yet: it has begun, and a call inside it waits for the user's approval. Continue "
        "with other work, or end your turn."
    )
    assert (done.text, shop.refunded) == ("refunded 1", [1])


async def test_many_waiting_programs_hold_no_worker() -> None:
    shop = Shop()
    workers = len(find_workers())
    async with Executor(shop.with_program(), policy=ask_about_refunds, approvals=defer) as one:
        code = "await refund(order=1)"
        calls = [Call("run_program", {"code": code}, id=f"c{n}") for n in range(WAITING)]
        results = await one.run_all(calls, turn=one.turn("1", run="r"))
    assert all(result.pending is not None for result in results)
    assert len(find_workers()) - workers <= 2 * 8  # of the pool, and free


def make_agent(shop: Shop, code: str) -> Agent[str]:
    async def model(request: Request) -> Reply:
        ended = any(isinstance(message, ToolResults) for message in request.messages)
        return Reply((Text("Done."),)) if ended else reply(code)

    return Agent(
        model, shop.with_program(), policy=ask_about_refunds, approvals=Approvals(approver=defer)
    )


async def test_an_agent_is_saved_and_resumed_in_the_middle_of_a_program() -> None:
    shop = Shop()
    code = "a = await refund(order=1)\nb = await refund(order=2)\n[a, b]"
    result = await make_agent(shop, code).run("Go.")
    asked = []
    while result.stop_reason == "pending":
        state = load_state(dump_state(result.state))
        asked += [pending.question for pending in state.questions]
        answers = {pending.id: Allow() for pending in state.questions}
        result = await make_agent(shop, code).resume(state, answers=answers)
    [results] = [one for one in result.state.messages if isinstance(one, ToolResults)]
    assert asked == ["Refund 1?", "Refund 2?"]
    assert results.results[0].text == '["refunded 1", "refunded 2"]'
    assert (result.text, shop.refunded) == ("Done.", [1, 2])


async def test_the_stream_of_an_agent_has_the_calls_of_a_program_inside() -> None:
    shop = Shop()
    agent = make_agent(shop, "await orders(user='a')\nawait refund(order=1)")
    async with agent.stream("Go.") as events:
        seen = [event async for event in events if isinstance(event, InnerEvent)]
    inner = [(event.call_id, type(event.event).__name__) for event in seen]
    assert ("c", "Requested") in inner
    assert ("c", "Asked") in inner
    assert inner.count(("c", "Requested")) == 2


async def test_a_tool_that_does_not_repeat_its_calls_is_stopped() -> None:
    made: list[int] = []

    @tool(effect=WRITE, touches=lambda number: Access(WRITE, f"n:{number}"))
    async def add(number: int) -> str:
        """Add a number."""
        made.append(number)
        return f"added {number}"

    rounds = 0

    @tool(effect=WRITE, touches=lambda: ())
    async def both(context: Context) -> str:
        """Add two numbers."""
        nonlocal rounds
        rounds += 1
        await context.turn("a", [Call("add", {"number": rounds}, id="x")], tools=["add"])
        [last] = await context.turn("b", [Call("add", {"number": 9}, id="x")], tools=["add"])
        return last.text

    def policy(call: Any) -> Any:
        from handrail import Ask

        return Ask("9?") if call.name == "add" and call.args["number"] == 9 else Allow()

    async with Executor(Toolset(add, both), policy=policy, approvals=defer) as executor:
        turn = executor.turn("1", run="r")
        saved = await executor.run_reply(Reply((Call("both", {}, id="c"),)), turn=turn)
        done = await executor.resume(copy(saved), {saved.questions[0].id: Allow()})
    assert "did not repeat its calls" in done.results[0].text
    assert made == [1]


async def test_a_context_without_an_executor_makes_no_calls() -> None:
    context: Context = Context(call_id="c", idempotency_key="k")
    with pytest.raises(RuntimeError, match="This Context has no executor"):
        await context.turn("1", [], tools=[])
    assert not context.has_begun


LEFT = """\
Stopped before its end: the user denied this call. Do not work around this. Continue without it, or tell the user.
It had begun, and these calls inside it have ended. Do not repeat them:
- refund({"order":1})
- refund({"order":-1}) [failed]"""
NOTHING_RAN = "Not run: the user denied this call. Do not work around this. Continue without it, or tell the user."


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            "await refund(order=1)\ntry:\n    await refund(order=-1)\nexcept RuntimeError:\n    pass\nawait refund(order=2)",
            LEFT,
        ),
        ("await refund(order=2)", NOTHING_RAN),
    ],
    ids=["two have ended", "none has"],
)
async def test_a_program_that_is_denied_itself_names_the_calls_that_ran(
    code: str, text: str
) -> None:
    shop, approvals = Shop(), Approvals(approver=defer)

    def policy(call: CheckedCall) -> Decision:
        return Ask("Refund it?") if call.args.get("order") == 2 else Allow()

    async with Executor(shop.with_program(), policy=policy, approvals=approvals) as executor:
        turn = executor.turn("1", run="r")
        turn.add(Call("run_program", {"code": code}, "c"))
        await turn.ended()
        [pending] = turn.pending
        result = await turn.dismiss(pending)

    assert (result.text, pending.kind) == (text, "waiting")


CHANGED = """
It had begun before, and these calls of it have ended. Do not repeat them:
- {}"""


@pytest.mark.parametrize("gone", ["refund", "orders"])
@pytest.mark.parametrize("version", ["same", "newer"])
async def test_a_program_that_cannot_continue_names_the_calls_it_made_before(
    gone: str, version: str
) -> None:
    """A tool was removed while it waited: the model would pay again."""
    shop = Shop()
    code = "a = await refund(order=1)\nx = await orders(user='a')\nawait refund(order=2)"
    approvals = Approvals(approver=defer)

    def policy(call: CheckedCall) -> Decision:
        return Ask("Refund it?") if call.args.get("order") == 2 else Allow()

    async with Executor(shop.with_program(), policy=policy, approvals=approvals) as executor:
        saved = await executor.run_reply(reply(code), turn=executor.turn("1", run="r"))
    left = shop.tools().without(gone)
    functions = left if version == "newer" else shop.tools()
    tools = Toolset(*left, program_tool(functions))
    async with Executor(tools, policy=policy, approvals=approvals) as executor:
        done = await executor.resume(copy(saved), {saved.questions[0].id: Allow()})

    [result] = done.results
    assert result.failure is not None
    assert (result.failure.kind, shop.refunded) == ("unknown", [1])
    calls = ['refund({"order":1})', 'orders({"user":"a"})']
    unnamed = calls[1:] if (gone, version) == ("orders", "newer") else calls
    assert result.text.endswith(CHANGED.format("\n- ".join(unnamed)))
    assert "It had made no call" not in result.text
