"""A tool asks for what it learns only while it runs, and the policy decides again."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Approvals,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Context,
    Decision,
    Deny,
    Executor,
    FailureKind,
    Hook,
    NeedsLogin,
    Refused,
    Result,
    StopRun,
    Tool,
    Toolset,
    tool,
)
from handrail.approvals import defer
from handrail.events import Asked, Decided, Started, Waiting
from handrail.permissions import Answer, Edit, MemoryLedger, Origin, Pending, Suspended
from virtual_time import Quick

pytestmark = pytest.mark.anyio

PAGE = Access("read", "net:example.org")
HOME, OTHER, SECRET = (Access("write", f"file:{name}") for name in ("home", "other", "secret"))


def make_tool(*more: Access, log: list[str] | None = None) -> Tool[..., Any]:
    """A tool that touches its home, and asks for more."""

    @tool(touches=lambda: [HOME])
    async def save(context: Context) -> str:
        """Save."""
        if log is not None:
            log.append(f"begun {context.attempt}")
        await context.may(*more)
        return f"saved, approved: {context.is_approved}"

    return save


@Quick
def careful(call: CheckedCall) -> Decision:
    """Ask about other files, and deny the secret one."""
    if SECRET in call.accesses:
        return Deny("the file is secret", Origin("no secrets"))
    return Ask("Save?") if OTHER in call.accesses else Allow()


SAVE = Call("save", {}, "c1")


async def test_an_access_that_the_policy_allows_is_used_at_once() -> None:
    log: list[str] = []
    more = Access("write", "file:more")
    async with Executor(Toolset(make_tool(more, log=log)), policy=careful) as executor:
        feed = executor.events()
        result = await executor.run(SAVE)
        feed.close()
        decided = [event.accesses async for event in feed if isinstance(event, Decided)]

    assert (result.text, log) == ("saved, approved: False", ["begun 1"])
    assert decided == [(HOME,), (HOME, more)]


async def test_what_a_call_has_already_is_not_decided_again() -> None:
    async with Executor(Toolset(make_tool(HOME)), policy=careful) as executor:
        feed = executor.events()
        result = await executor.run(SAVE)
        feed.close()
        decided = [event.accesses async for event in feed if isinstance(event, Decided)]

    assert (result.failure, decided) == (None, [(HOME,)])


async def test_without_a_policy_every_access_is_allowed() -> None:
    assert (await Executor(Toolset(make_tool(OTHER))).run(SAVE)).failure is None


async def test_a_context_of_a_test_allows_everything() -> None:
    context: Context = Context(call_id="c1", idempotency_key="k")

    await context.may(OTHER)
    context.may_sync(OTHER)


async def test_a_denied_access_ends_the_call_as_any_denial() -> None:
    result = await Executor(Toolset(make_tool(SECRET)), policy=careful).run(SAVE)
    text = (
        "Not run: the file is secret. Do not work around this. Continue without it, or tell the "
        "user."
    )
    assert result._replace(seconds=None) == Result.fail("c1", FailureKind.DENIED, text)


async def test_a_policy_that_fails_denies_the_access() -> None:
    @Quick
    def fail(call: CheckedCall) -> Decision:
        if len(call.accesses) > 1:
            raise ValueError("oops")
        return Allow()

    result = await Executor(Toolset(make_tool(OTHER)), policy=fail).run(SAVE)

    assert result.failure is not None
    assert (result.failure.kind, result.failure.detail) == (
        FailureKind.DENIED,
        "ValueError('oops')",
    )


async def test_a_tool_can_go_on_without_a_denied_access() -> None:
    @tool(touches=lambda: [HOME])
    async def save(context: Context) -> str:
        """Save."""
        try:
            await context.may(SECRET)
        except Refused:
            await context.may(PAGE)
            return "saved less"
        return "never"

    assert (await Executor(Toolset(save), policy=careful).run(SAVE)).text == "saved less"


async def test_a_person_approves_the_access_and_the_tool_begins_again() -> None:
    log, asked = list[str](), list[Pending]()

    async def approve(pending: Pending) -> Answer:
        asked.append(pending)
        return Allow()

    executor = Executor(Toolset(make_tool(OTHER, log=log)), policy=careful, approvals=approve)
    result = await executor.run(SAVE)

    assert (result.text, log) == ("saved, approved: True", ["begun 1", "begun 2"])
    [pending] = asked
    assert (pending.kind, pending.accesses, pending.added) == ("approval", (HOME, OTHER), (OTHER,))
    assert pending.question == "While it ran, it asked for more: write file:other. Save?"


async def test_a_person_denies_the_access() -> None:
    async def deny(_pending: Pending) -> Answer:
        return Deny.by_user()

    executor = Executor(Toolset(make_tool(OTHER)), policy=careful, approvals=deny)

    assert (await executor.run(SAVE)).text == Deny.by_user().reason


async def test_no_one_is_there_to_approve_it() -> None:
    result = await Executor(Toolset(make_tool(OTHER)), policy=careful).run(SAVE)

    assert result.text == (
        "Not run: this needs the user's approval, and no one is available to give it. Do what you "
        "can without it, and report it at the end. Request: While it ran, it asked for more: write "
        "file:other. Save?"
    )


def elsewhere(ledger: MemoryLedger, *tools: Tool[..., Any], policy: Any = careful) -> Executor:
    """An executor as of another process, which shares the ledger."""
    approvals = Approvals(approver=defer, ledger=ledger)
    return Executor(Toolset(*tools), policy=policy, approvals=approvals)


async def put_off(executor: Executor, call: Call = SAVE) -> Pending:
    """Return the request of a call, as another process reads it."""
    result = await executor.run(call, turn=executor.turn("1", run="R"))
    assert result.pending is not None
    return Pending.from_json(result.pending.to_json())


async def answer(executor: Executor, pending: Pending, given: Answer | None = None) -> Result:
    turn = executor.turn("1", run="R")
    turn.answer(pending, given)
    return await turn.result(pending.call.id)


async def test_the_answer_can_come_later_in_another_process() -> None:
    ledger, log = MemoryLedger(), list[str]()
    pending = await put_off(elsewhere(ledger, make_tool(OTHER, log=log)))
    result = await answer(elsewhere(ledger, make_tool(OTHER, log=log)), pending, Allow())

    assert (result.text, log) == ("saved, approved: True", ["begun 1", "begun 1"])


async def test_an_approval_is_for_no_other_access() -> None:
    ledger, other = MemoryLedger(), Access("write", "file:other/more")

    @Quick
    def ask_for_two(call: CheckedCall) -> Decision:
        return Ask("Save?") if len(call.accesses) > 1 else Allow()

    first = await put_off(elsewhere(ledger, make_tool(OTHER), policy=ask_for_two))
    then = await answer(elsewhere(ledger, make_tool(other), policy=ask_for_two), first, Allow())

    assert then.pending is not None
    assert (then.pending.round, then.pending.added) == (1, (OTHER, other))
    forged = replace(first, accesses=(HOME, other), added=(other,), round=2)
    ledger = MemoryLedger()
    asked = await answer(elsewhere(ledger, make_tool(other), policy=ask_for_two), forged, Allow())
    assert asked.pending is not None
    assert asked.pending.question == (
        "Changed since it was approved, so it needs approval again. Save?"
    )


async def test_an_approval_of_the_call_is_none_of_what_it_asks_for_later() -> None:
    asked: list[tuple[int, tuple[Access, ...]]] = []

    @Quick
    def ask(_call: CheckedCall) -> Decision:
        return Ask("Save?")

    async def approve(pending: Pending) -> Answer:
        asked.append((pending.round, pending.accesses))
        return Allow()

    executor = Executor(Toolset(make_tool(OTHER)), policy=ask, approvals=approve)
    result = await executor.run(SAVE)

    assert (result.failure, asked) == (None, [(0, (HOME,)), (1, (HOME, OTHER))])


async def test_an_approval_works_once() -> None:
    ledger = MemoryLedger()
    pending = await put_off(elsewhere(ledger, make_tool(OTHER)))
    await answer(elsewhere(ledger, make_tool(OTHER)), pending, Allow())
    again = await answer(elsewhere(ledger, make_tool(OTHER)), pending, Allow())

    assert again.failure is not None
    assert again.failure.kind is FailureKind.UNKNOWN


async def test_a_call_that_is_denied_by_now_does_not_run() -> None:
    ledger, log = MemoryLedger(), list[str]()
    pending = await put_off(elsewhere(ledger, make_tool(OTHER)))

    @Quick
    def stricter(call: CheckedCall) -> Decision:
        return Deny("No.") if OTHER in call.accesses else Allow()

    tools = elsewhere(ledger, make_tool(OTHER, log=log), policy=stricter)

    assert ((await answer(tools, pending, Allow())).text, log) == ("No.", [])


async def test_an_edited_call_asks_for_itself() -> None:
    @tool(touches=lambda **_: [HOME])
    async def save(path: str, context: Context) -> str:
        """Save."""
        await context.may(Access("write", f"file:{path}"))
        return f"{path}: {[str(one) for one in context.accesses]}"

    ledger = MemoryLedger()
    pending = await put_off(elsewhere(ledger, save), Call("save", {"path": "other"}, "c1"))
    result = await answer(elsewhere(ledger, save), pending, Edit({"path": "mine"}))

    note = '[Note: a person changed the arguments: path="mine".]'
    assert result.text == f"mine: ['write file:home']\n{note}"


async def test_what_the_tool_declares_by_now_is_still_approved() -> None:
    @tool(name="save", touches=lambda: [HOME, OTHER])
    async def save_more(context: Context) -> str:
        """Save."""
        await context.may(OTHER)
        return f"approved: {context.is_approved}"

    ledger = MemoryLedger()
    pending = await put_off(elsewhere(ledger, make_tool(OTHER)))

    assert (await answer(elsewhere(ledger, save_more), pending, Allow())).text == "approved: True"


async def test_a_tool_that_is_gone_is_not_run() -> None:
    ledger = MemoryLedger()
    pending = await put_off(elsewhere(ledger, make_tool(OTHER)))
    result = await answer(elsewhere(ledger), pending, Allow())

    assert result.failure is not None
    assert result.failure.kind is FailureKind.UNKNOWN_TOOL


def test_a_request_says_which_accesses_were_added() -> None:
    made = Pending(
        run_id="R",
        turn_id="1",
        key="R/1/c1",
        position=0,
        round=0,
        call=SAVE,
        effect=WRITE,
        accesses=(HOME, OTHER),
        question="Save?",
        fingerprint="f",
        asked_at=0.0,
        expires_at=1.0,
        added=(OTHER,),
    )

    assert Pending.from_json(made.to_json()) == made
    assert "added" not in json.loads(replace(made, added=()).to_json())
    with pytest.raises(ValueError, match="'added' must be the last of the accesses"):
        replace(made, added=(HOME,))
    with pytest.raises(ValueError, match="'added' must be the last of the accesses"):
        replace(made, added=(HOME, HOME, OTHER))


# -- tools of any kind ---------------------------------------------------------------------------


async def test_a_plain_function_asks_too() -> None:
    log: list[int] = []

    @tool(touches=lambda: [HOME])
    def save(context: Context) -> str:
        """Save."""
        log.append(context.attempt)
        context.may_sync(PAGE)
        context.may_sync(OTHER)
        return "saved"

    async def approve(_pending: Pending) -> Answer:
        return Allow()

    executor = Executor(Toolset(save), policy=careful, approvals=approve)
    assert ((await executor.run(SAVE)).text, log) == ("saved", [1, 2])


async def test_a_plain_function_is_denied() -> None:
    @tool(touches=lambda: [HOME])
    def save(context: Context) -> str:
        """Save."""
        context.may_sync(SECRET)
        return "never"

    result = await Executor(Toolset(save), policy=careful).run(SAVE)
    assert result.text.startswith("Not run: the file is secret.")


@pytest.mark.parametrize(
    ("access", "detail"),
    [
        (Access("destroy", "file:a"), "is a WRITE tool, but declares destroy file:a."),
        ("file:a", "is a WRITE tool, but declares file:a."),
    ],
)
async def test_only_what_the_effect_permits_can_be_asked_for(access: Any, detail: str) -> None:
    result = await Executor(Toolset(make_tool(access))).run(SAVE)

    assert result.failure is not None
    assert (result.failure.kind, detail in result.failure.detail) == (FailureKind.BUG, True)


async def test_the_blocking_form_says_what_to_write_in_an_event_loop() -> None:
    @tool
    async def save(context: Context) -> str:
        """Save."""
        context.may_sync(OTHER)
        return "never"

    result = await Executor(Toolset(save)).run(SAVE)
    assert result.failure is not None
    assert "Write `await context.may(...)` instead." in result.failure.detail


async def test_a_call_that_has_ended_gets_nothing() -> None:
    kept: list[Context] = []

    @tool
    async def save(context: Context) -> None:
        """Save."""
        kept.append(context)

    await Executor(Toolset(save)).run(SAVE)
    with pytest.raises(RuntimeError, match="called after its call had ended"):
        await kept[0].may(OTHER)


async def test_a_broad_except_does_not_take_a_question_for_a_failure() -> None:
    @tool(touches=lambda: [HOME])
    async def save(context: Context) -> str:
        """Save."""
        try:
            await context.may(OTHER)
        except Exception:  # noqa: BLE001  as tools do
            return "never"
        return "saved"

    async def approve(_pending: Pending) -> Answer:
        return Allow()

    executor = Executor(Toolset(save), policy=careful, approvals=approve)
    assert (await executor.run(SAVE)).text == "saved"


async def test_the_tasks_of_a_tool_are_decided_together() -> None:
    seen: list[tuple[Access, ...]] = []

    def watch(call: CheckedCall) -> Decision:  # in a thread, so that the two overlap
        seen.append(call.accesses)
        return Allow()

    @tool(touches=lambda: [HOME])
    async def save(context: Context) -> str:
        """Save."""
        async with anyio.create_task_group() as group:
            group.start_soon(context.may, OTHER)
            group.start_soon(context.may, SECRET)
        return "saved"

    result = await Executor(Toolset(save), policy=watch).run(SAVE)

    assert (result.text, len(seen)) == ("saved", 4)
    assert set(seen[-1]) == {HOME, OTHER, SECRET}


async def test_a_question_is_about_all_that_a_tool_was_given() -> None:
    asked: list[tuple[Access, ...]] = []

    @tool(touches=lambda: [HOME])
    async def save(context: Context) -> str:
        """Save."""
        if OTHER in context.accesses:
            return "saved"

        async def read_page() -> None:
            with anyio.CancelScope(shield=True):
                await checkpoint()
                await checkpoint()
                await context.may(PAGE)

        async with anyio.create_task_group() as group:
            group.start_soon(read_page)
            group.start_soon(context.may, OTHER)
        return "never"

    async def approve(pending: Pending) -> Answer:
        asked.append(pending.accesses)
        return Allow()

    executor = Executor(Toolset(save), policy=careful, approvals=approve)
    assert ((await executor.run(SAVE)).text, asked) == ("saved", [(HOME, PAGE, OTHER)])


async def test_a_call_can_ask_only_so_often() -> None:
    @tool(touches=lambda: [HOME])
    async def save(context: Context) -> str:
        """Save."""
        await context.may(Access("write", f"file:{context.attempt}"))
        return "never"

    @Quick
    def ask(call: CheckedCall) -> Decision:
        return Ask("Save?") if len(call.accesses) > 1 else Allow()

    async def approve(_pending: Pending) -> Answer:
        return Allow()

    result = await Executor(Toolset(save), policy=ask, approvals=approve).run(SAVE)
    assert result.text == "Not run: the call needed approval too many times. Tell the user."


async def test_a_tool_can_need_one_thing_after_another() -> None:
    log: list[str] = []

    @tool(touches=lambda: [HOME])
    async def save(context: Context) -> str:
        """Save."""
        log.append("begun")
        await context.may(OTHER)
        if len(log) == 2:
            raise NeedsLogin("Sign in.")
        raise Suspended("later")

    async def approve(_pending: Pending) -> Answer:
        return Allow()

    result = await Executor(Toolset(save), policy=careful, approvals=approve).run(SAVE)

    assert result.pending is not None
    assert (result.pending.kind, result.pending.added, len(log)) == ("waiting", (OTHER,), 3)


async def test_hooks_around_a_call_see_one_result() -> None:
    seen: list[str] = []

    async def around(_call: CheckedCall, run: Callable[[], Awaitable[Result]]) -> Result:
        result = await run()
        seen.append(result.text)
        return result

    async def approve(_pending: Pending) -> Answer:
        return Allow()

    hooks = [Hook(around=around)]
    tools = Toolset(make_tool(OTHER))
    await Executor(tools, policy=careful, approvals=approve, hooks=hooks).run(SAVE)

    assert seen == ["saved, approved: True"]


# -- time limits and cancellation ----------------------------------------------------------------


async def test_a_call_is_cancelled_while_its_access_is_decided() -> None:
    begun, free = anyio.Event(), threading.Event()
    loop = anyio.lowlevel.current_token()

    def hang(call: CheckedCall) -> Decision:
        if len(call.accesses) > 1:
            anyio.from_thread.run_sync(begun.set, token=loop)
            free.wait(60)
        return Allow()

    async with Executor(Toolset(make_tool(OTHER)), policy=hang) as executor:
        turn = executor.turn()
        turn.add(SAVE)
        await begun.wait()
        turn.cancel()
        [result] = await turn.results()
        free.set()

    assert result.failure is not None
    assert result.failure.kind is FailureKind.UNKNOWN


async def test_a_call_can_be_cancelled_after_its_access_was_decided() -> None:
    begun = anyio.Event()

    @tool(effect=READ, touches=lambda: [PAGE])
    async def save(context: Context) -> None:
        """Save."""
        await context.may(Access("read", "net:other.example"))
        begun.set()
        await anyio.sleep_forever()

    async with Executor(Toolset(save), policy=lambda _call: Allow()) as executor:
        turn = executor.turn()
        turn.add(SAVE)
        await begun.wait()
        turn.cancel()
        [result] = await turn.results()

    assert result.failure is not None
    assert result.failure.kind is FailureKind.CANCELLED


async def test_a_call_that_shields_itself_gets_nothing_after_it_was_stopped() -> None:
    begun, free, said = anyio.Event(), anyio.Event(), list[str]()

    @tool(touches=lambda: [HOME])
    async def save(context: Context) -> None:
        """Save."""
        with anyio.CancelScope(shield=True):
            begun.set()
            await free.wait()
            try:
                await context.may(Access("write", "file:more"))
                said.append("allowed")
            except Refused as refusal:
                said.append(str(refusal))

    async with Executor(Toolset(save), policy=lambda _call: Allow()) as executor:
        turn = executor.turn()
        turn.add(SAVE)
        await begun.wait()
        turn.cancel()
        free.set()
        await turn.results()

    refused = ["Not run: the call was stopped, and gets no more access."]
    assert said in (refused, [])  # asyncio ends it at once


async def test_a_turn_that_was_closed_gives_a_running_call_nothing_more() -> None:
    begun, free, said = anyio.Event(), anyio.Event(), list[str]()

    @tool(touches=lambda: [HOME])
    async def save(context: Context) -> str:
        """Save."""
        begun.set()
        await free.wait()
        try:
            await context.may(Access("write", "file:more"))
        except Refused as refusal:
            said.append(str(refusal))
        return "saved"

    @tool(touches=lambda: [Access("write", "file:b")])
    async def other() -> str:
        """Another."""
        return "never"

    def before(call: CheckedCall) -> CheckedCall:
        if call.name == "other":
            raise StopRun("enough")
        return call

    async with Executor(
        Toolset(save, other), policy=lambda _call: Allow(), hooks=[Hook(before=before)]
    ) as executor:
        turn = executor.turn()
        turn.add(SAVE)
        await begun.wait()
        turn.add(Call("other", {}, "c2"))
        with suppress(StopRun):
            await turn.result("c2")
        free.set()
        with suppress(StopRun):
            await turn.results()

    assert said == ["Not run: the call was stopped, and gets no more access."]


async def test_a_policy_that_hangs_denies_the_access() -> None:
    free = threading.Event()

    def hang(call: CheckedCall) -> Decision:
        if len(call.accesses) > 1:
            free.wait(60)
        return Allow()

    limits = CallLimits(hook_timeout=0.05)
    result = await Executor(Toolset(make_tool(OTHER)), policy=hang, limits=limits).run(SAVE)
    free.set()

    assert result.text.startswith("Not run: the permission check took more than 0.05 s.")


# -- order ---------------------------------------------------------------------------------------


class Stage:
    """Tools whose calls say when they run, and end when they are told to."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.ends = {name: anyio.Event() for name in "abc"}

    def tools(self, **fixed: Any) -> Toolset:
        @tool(touches=lambda touched, **_: [Access("write", f"file:{touched}")], **fixed)
        async def work(name: str, touched: str, context: Context, more: str = "") -> str:
            """Work."""
            if more:
                await context.may(Access("write", f"file:{more}"))
            self.log.append(f"{name} begins")
            await self.ends[name].wait()
            self.log.append(f"{name} ends")
            return name

        return Toolset(work)

    async def end(self, *names: str) -> None:
        for name in names:
            self.ends[name].set()
            await anyio.wait_all_tasks_blocked()


def work(name: str, touched: str, more: str = "") -> Call:
    return Call("work", {"name": name, "touched": touched, "more": more}, name)


async def test_a_later_call_waits_for_what_was_asked_for() -> None:
    stage = Stage()
    async with Executor(stage.tools()) as executor:
        turn = executor.turn()
        turn.add(work("a", "1", "x"))
        await anyio.wait_all_tasks_blocked()
        turn.add(work("b", "x"))
        await stage.end("b", "a")
        await turn.results()

    assert stage.log == ["a begins", "a ends", "b begins", "b ends"]


async def test_a_call_that_waits_already_waits_for_what_was_asked_for() -> None:
    stage, go = Stage(), anyio.Event()

    @tool(touches=lambda: [Access("write", "file:1")])
    async def ask(context: Context) -> str:
        """Ask."""
        await go.wait()
        await context.may(Access("write", "file:x"))
        stage.log.append("asked")
        await stage.ends["a"].wait()
        stage.log.append("a ends")
        return ""

    async with Executor(Toolset(ask, *stage.tools()), limits=CallLimits(max_running=2)) as executor:
        turn = executor.turn()
        turn.add(Call("ask", {}, "a"), work("b", "y"), work("c", "x"))
        await anyio.wait_all_tasks_blocked()
        go.set()
        await anyio.wait_all_tasks_blocked()
        await stage.end("b", "c", "a")
        await turn.results()

    assert stage.log == ["b begins", "asked", "b ends", "a ends", "c begins", "c ends"]


async def test_a_call_waits_for_a_running_one_that_uses_what_it_asks_for() -> None:
    stage = Stage()
    async with Executor(stage.tools()) as executor:
        feed = executor.events()
        turn = executor.turn()
        turn.add(work("b", "x"), work("a", "1", "x"), work("c", "1"))
        await anyio.wait_all_tasks_blocked()
        await stage.end("c", "b", "a")
        await turn.results()
        feed.close()
        told = [
            (event.call_id, event.on if isinstance(event, Waiting) else event.attempt)
            async for event in feed
            if isinstance(event, Waiting | Started)
        ]

    # `c` touches what `a` touches, and comes after it, also while `a` waits again
    assert stage.log == ["b begins", "b ends", "a begins", "a ends", "c begins", "c ends"]
    told.remove(("b", 1))  # before or after that of `a`
    assert told == [("c", ("a",)), ("a", 1), ("a", ("b",)), ("a", 2), ("c", 1)]


async def test_two_calls_that_ask_for_each_others_do_not_wait_forever() -> None:
    stage = Stage()
    async with Executor(stage.tools()) as executor:
        turn = executor.turn()
        turn.add(work("a", "1", "2"), work("b", "2", "1"))
        await anyio.wait_all_tasks_blocked()
        await stage.end("a", "b")
        results = await turn.results()

    assert [result.text for result in results] == ["a", "b"]
    assert [stage.log[:2], stage.log[2:]] in (
        [["a begins", "a ends"], ["b begins", "b ends"]],
        [["b begins", "b ends"], ["a begins", "a ends"]],
    )


async def test_a_call_is_cancelled_while_it_waits_again() -> None:
    stage = Stage()
    async with Executor(stage.tools()) as executor:
        turn = executor.turn()
        turn.add(work("b", "x"), work("a", "1", "x"), work("c", "1"))
        await anyio.wait_all_tasks_blocked()
        turn.cancel("a")
        await stage.end("c", "b")
        results = await turn.results()

    assert [result.failure and result.failure.kind for result in results] == [
        None,
        FailureKind.UNKNOWN,
        None,
    ]


async def test_the_slot_of_a_tool_is_free_while_its_call_waits_again() -> None:
    stage = Stage()
    limits = CallLimits(max_running_per_tool={"work": 2})
    async with Executor(stage.tools(), limits=limits) as executor:
        turn = executor.turn()
        turn.add(work("b", "x"))
        await anyio.wait_all_tasks_blocked()  # else trio starts them in any order
        turn.add(work("a", "1", "x"), work("c", "2"))
        await anyio.wait_all_tasks_blocked()
        await stage.end("c", "b", "a")
        await turn.results()

    begun, then = sorted(stage.log[:2]), stage.log[2:]  # in any order on trio
    assert begun == ["b begins", "c begins"]
    assert then == ["c ends", "b ends", "a begins", "a ends"]


async def test_a_call_that_runs_alone_has_everything() -> None:
    stage = Stage()
    async with Executor(stage.tools(exclusive=True)) as executor:
        turn = executor.turn()
        turn.add(work("a", "1", "x"), work("b", "2"))
        await stage.end("b", "a")
        await turn.results()

    assert stage.log == ["a begins", "a ends", "b begins", "b ends"]


async def test_a_call_waits_for_an_earlier_one_that_is_pending() -> None:
    @tool(touches=lambda: [OTHER])
    async def change() -> str:
        """Change."""
        return "changed"

    @Quick
    def ask_to_change(call: CheckedCall) -> Decision:
        return Ask("Change?") if call.name == "change" else Allow()

    tools = (change, make_tool(OTHER))
    ledger = MemoryLedger()
    executor = elsewhere(ledger, *tools, policy=ask_to_change)
    turn = executor.turn("1", run="R")
    await executor.run_all([Call("change", {}, "c0"), SAVE], turn=turn)
    first, second = turn.pending

    assert (second.kind, second.after, second.added) == ("waiting", (first.key,), (OTHER,))
    again = elsewhere(ledger, *tools, policy=ask_to_change).turn("1", run="R")
    again.answer(first, Allow())
    again.answer(second)
    results = await again.results()
    assert [result.text for result in results] == ["changed", "saved, approved: False"]


async def test_an_approved_call_waits_for_an_earlier_one_that_is_pending() -> None:
    @tool(touches=lambda: [OTHER])
    async def change() -> str:
        """Change."""
        return "changed"

    @Quick
    def ask(call: CheckedCall) -> Decision:
        return Ask("Do it?") if OTHER in call.accesses else Allow()

    async def approve_saves(pending: Pending) -> Answer | Pending:
        return Allow() if pending.call.name == "save" else pending

    approvals = Approvals(approver=approve_saves)
    executor = Executor(Toolset(change, make_tool(OTHER)), policy=ask, approvals=approvals)
    turn = executor.turn("1", run="R")
    await executor.run_all([Call("change", {}, "c0"), SAVE], turn=turn)
    first, second = turn.pending

    assert (turn.approved, second.after) == ((second.id,), (first.key,))
    again = executor.turn("1", run="R")
    again.answer(first, Allow())
    again.answer(second, Allow())
    results = await again.results()
    assert [result.text for result in results] == ["changed", "saved, approved: True"]


# -- calls that tools make -----------------------------------------------------------------------


async def test_an_inner_call_asks_for_what_its_tool_has() -> None:
    @tool(touches=lambda: [OTHER])
    async def outer() -> str:
        """Work."""
        return (await executor.run(SAVE)).text

    executor = Executor(Toolset(outer, make_tool(OTHER)))

    assert (await executor.run(Call("outer", {}, "o"))).text == "saved, approved: False"


async def test_an_inner_call_waits_for_a_running_one_that_uses_what_it_asks_for() -> None:
    stage = Stage()

    @tool(touches=lambda: [Access("write", "file:o")])
    async def outer() -> str:
        """Work."""
        return (await executor.run(work("a", "1", "x"))).text

    async with Executor(Toolset(outer, *stage.tools())) as executor:
        turn = executor.turn()
        turn.add(work("b", "x"), Call("outer", {}, "o"))
        await anyio.wait_all_tasks_blocked()
        await stage.end("a", "b")
        results = await turn.results()

    assert [result.text for result in results] == ["b", "a"]
    assert stage.log == ["b begins", "b ends", "a begins", "a ends"]


async def test_a_later_call_waits_for_what_an_inner_call_asked_for() -> None:
    stage = Stage()

    @tool(touches=lambda: [Access("write", "file:o")])
    async def outer() -> str:
        """Work."""
        return (await executor.run(work("a", "1", "x"))).text

    async with Executor(Toolset(outer, *stage.tools())) as executor:
        turn = executor.turn()
        turn.add(Call("outer", {}, "o"))
        await anyio.wait_all_tasks_blocked()
        turn.add(work("b", "x"))
        await stage.end("b", "a")
        await turn.results()

    assert stage.log == ["a begins", "a ends", "b begins", "b ends"]


async def test_an_edited_login_keeps_its_place() -> None:
    stage, asked = Stage(), list[str]()

    @tool(touches=lambda path: [Access("write", f"file:{path}")])
    async def save(path: str) -> str:
        """Save."""
        if not asked:
            raise NeedsLogin("Sign in.")
        stage.log.append(f"saved {path}")
        return path

    async def edit(pending: Pending) -> Answer:
        asked.append(pending.question)
        return Edit({"path": "x"})

    async with Executor(Toolset(save, *stage.tools()), approvals=edit) as executor:
        turn = executor.turn()
        turn.add(work("b", "x"), Call("save", {"path": "1"}, "s"), work("c", "x"))
        await anyio.wait_all_tasks_blocked()
        await stage.end("c", "b")
        await turn.results()

    assert stage.log == ["b begins", "b ends", "saved x", "c begins", "c ends"]


async def test_the_question_is_an_event_of_the_call() -> None:
    async def approve(_pending: Pending) -> Answer:
        return Allow()

    async with Executor(Toolset(make_tool(OTHER)), policy=careful, approvals=approve) as executor:
        feed = executor.events()
        await executor.run(SAVE)
        feed.close()
        told = [
            type(event).__name__
            async for event in feed
            if isinstance(event, Decided | Asked | Started)
        ]

    assert told == ["Decided", "Started", "Decided", "Asked", "Started"]
