"""Questions that wait: an answer is for these bytes, counts once, and expires."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from inline_snapshot import snapshot

from handrail import (
    READ,
    WRITE,
    Allow,
    Approvals,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    FailureKind,
    Hook,
    Registry,
    Result,
    Toolset,
    reads_file,
    tool,
    writes_file,
)
from handrail.approvals import FileLedger, defer
from handrail.events import Answered, Asked, Decided, Event
from handrail.permissions import Answer, Edit, Ledger, MemoryLedger, Origin, Pending
from handrail.runs import open_runs
from resuming import resume
from virtual_time import Quick

ran: list[str] = []


@tool(touches=writes_file)
async def save(path: str) -> str:
    """Save a file."""
    ran.append(f"save {path}")
    return f"saved {path}"


@tool(effect=READ, touches=reads_file)
async def load(path: str) -> str:
    """Load a file."""
    ran.append(f"load {path}")
    return f"loaded {path}"


TOOLS = Toolset(save, load)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ran.clear()


class Careful:
    """Asks before a write; its version can change."""

    def __init__(self, version: str = "1") -> None:
        self.version = version
        self.verdict: Callable[[str], Decision] = Ask

    def is_quick(self, _call: CheckedCall) -> bool:
        """Decide in the event loop: some tests look when nothing else can happen there."""
        return True

    def __call__(self, call: CheckedCall) -> Decision:
        asks = call.spec.effect == WRITE and bool(call.id)
        return self.verdict(f"May it {call.accesses[0]}?") if asks else Allow()


def put(path: str, call_id: str) -> Call:
    return Call("save", f'{{"path":"{path}"}}', call_id)


def get(path: str, call_id: str) -> Call:
    return Call("load", f'{{"path":"{path}"}}', call_id)


def waits(results: list[Result]) -> list[Pending]:
    return [one.pending for one in results if one.pending is not None]


def deferring(
    policy: Any = None, *, approvals: Approvals | None = None, **options: Any
) -> Executor:
    approvals = replace(approvals or Approvals(), approver=defer)
    return Executor(TOOLS, policy=policy or Careful(), approvals=approvals, **options)


async def first(executor: Executor, *calls: Call) -> list[Pending]:
    return waits(await executor.run_all(calls or [put("a", "1")]))


# ---------------------------------------------------------------- handed back


async def test_a_question_that_nobody_answers_now_is_handed_back_and_the_model_is_told() -> None:
    async with deferring() as executor:
        [result] = await executor.run_all([put("a", "1")], turn=executor.turn("t", run="r"))

    assert ran == []
    assert result.failure is not None
    assert result.failure.kind is FailureKind.PENDING
    assert result.text == snapshot(
        "Not run yet: waiting for the user's approval. Continue with other work, or end your turn. Request: May it write file:a?"
    )
    assert result.pending is not None
    assert result.pending.id == "r~t~1~0"
    assert replace(result.pending, fingerprint="", asked_at=0, expires_at=0) == Pending(
        run_id="r",
        turn_id="t",
        key="r/t/1",
        position=0,
        round=0,
        call=put("a", "1"),
        effect=WRITE,
        accesses=(writes_file("a"),),
        question="May it write file:a?",
        fingerprint="",
        asked_at=0,
        expires_at=0,
    )


async def test_free_siblings_run_while_one_waits_and_those_behind_it_wait_with_it() -> None:
    calls = [get("b", "1"), put("a", "2"), get("a", "3"), put("a", "4"), get("c", "5")]

    async with deferring() as executor:
        results = await executor.run_all(calls)
        [second, third, fourth] = waits(results)

        assert sorted(ran) == ["load b", "load c"]
        assert (third.question, third.after) == ("", (second.key,))
        assert (fourth.question, fourth.after) == ("May it write file:a?", (second.key, third.key))
        assert results[2].text == snapshot(
            "Not run yet: waiting for an earlier call that needs the user's approval. Continue with other work, or end your turn."
        )

        answers: dict[str, Answer] = {second.id: Allow(), fourth.id: Allow()}
        again = await resume(executor, [second, third, fourth], answers)

    assert [one.text for one in again] == ["saved a", "loaded a", "saved a"]
    assert ran[2:] == ["save a", "load a", "save a"]


async def test_a_call_that_arrives_after_one_was_put_off_waits_behind_it_too() -> None:
    put_off = anyio.Event()

    async def later(pending: Pending) -> Pending:
        put_off.set()
        return pending

    async def calls() -> Any:
        yield put("a", "1")
        await put_off.wait()
        await anyio.wait_all_tasks_blocked()
        yield get("a", "2")
        yield get("b", "3")

    policy = Careful()
    async with Executor(TOOLS, policy=policy, approvals=later) as executor:
        await executor.run(get("x", "0"))
        results = await executor.run_all(calls())

    assert [bool(one.pending) for one in results] == [True, True, False]
    assert ran == ["load x", "load b"]


async def test_what_is_not_answered_yet_stays_pending_and_so_does_what_waits_for_it() -> None:
    async with deferring() as executor:
        [one, two, three] = await first(executor, put("a", "1"), put("b", "2"), get("a", "3"))
        part = await resume(executor, [one, two, three], {two.id: Allow()})

        assert [result.pending for result in part] == [one, None, three]
        assert ran == ["save b"]

        rest = await resume(executor, [one, three], {one.id: Deny("not now")})

    assert [result.text for result in rest] == ["not now", "loaded a"]
    assert ran == ["save b", "load a"]


async def test_what_waits_for_another_does_not_run_before_that_was_answered_even_alone() -> None:
    async with deferring() as executor:
        [one, two] = await first(executor, put("a", "1"), get("a", "2"))

        assert waits(await resume(executor, [two], {})) == [two]
        await resume(executor, [one], {one.id: Allow()})
        [result] = await resume(executor, [two], {})

    assert result.text == "loaded a"
    assert ran == ["save a", "load a"]


async def test_an_edit_that_leads_behind_a_call_that_waits_makes_it_wait_too() -> None:
    async with deferring() as executor:
        [one, two] = await first(executor, put("a", "1"), put("b", "2"))
        [still, behind] = await resume(executor, [one, two], {two.id: Edit({"path": "a"})})

    assert (still.pending, ran) == (one, [])
    assert behind.pending is not None
    assert behind.pending.after == (one.key,)


async def test_a_call_that_was_allowed_waits_with_an_earlier_one_that_was_put_off() -> None:
    put_off, answer = anyio.Event(), anyio.Event()

    async def person(pending: Pending) -> Answer | Pending:
        if pending.call.id == "1":
            return pending
        await answer.wait()
        return Allow()

    async def audit(call: CheckedCall | Call, result: Result) -> Result:
        if call.id == "1":
            put_off.set()
        return result

    results: list[Result] = []
    async with Executor(
        TOOLS, policy=Careful(), approvals=person, hooks=[Hook(after=audit)]
    ) as executor:

        async def turn() -> None:
            results.extend(await executor.run_all([put("a", "1"), put("a", "2")]))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await put_off.wait()
            answer.set()

    [one, two] = waits(results)
    assert (two.question, two.after, ran) == ("May it write file:a?", (one.key,), [])


async def test_a_call_that_is_stopped_just_as_it_is_put_off_is_stopped() -> None:
    asked = anyio.Event()

    async def person(pending: Pending) -> Pending:
        asked.set()
        return pending

    async with Executor(TOOLS, policy=Careful(), approvals=person) as executor:
        turn = executor.turn()
        turn.add(put("a", "1"))
        await asked.wait()
        turn.cancel("1")
        results = await turn.results()

    [one] = results
    assert one.failure is not None
    assert one.failure.kind in (FailureKind.CANCELLED, FailureKind.PENDING)
    assert ran == []


async def test_a_question_that_is_handed_back_again_stays_as_it_is() -> None:
    async with deferring() as executor:
        [pending] = await first(executor)
        [result] = await resume(executor, [pending], {pending.id: pending})  # type: ignore[dict-item]
        assert result.pending == pending
        [done] = await resume(executor, [pending], {pending.id: Allow()})

    assert done.text == "saved a"


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("answer", "expected", "did"),
    [
        (Allow(), Result("1", "saved a"), ["save a"]),
        (Deny("Use b instead."), Result.fail("1", FailureKind.DENIED, "Use b instead."), []),
        (Result("1", "pretend it is saved"), Result("1", "pretend it is saved"), []),
        (
            Result("2", "for another call"),
            Result.fail(
                "1",
                FailureKind.DENIED,
                "Not run: the approver returned an invalid answer. Tell the user.",
            ),
            [],
        ),
    ],
)
async def test_each_answer_has_its_outcome_now_or_later(
    answer: Any, expected: Result, did: list[str]
) -> None:
    async def person(_pending: Pending) -> Any:
        return answer

    async with Executor(TOOLS, policy=Careful(), approvals=person) as executor:
        assert await executor.run(put("a", "1")) == expected
    async with deferring() as executor:
        [pending] = await first(executor)
        assert await resume(executor, [pending], {pending.id: answer}) == [expected]

    assert ran == did * 2


async def test_an_edited_call_is_judged_again_and_asked_about_again_as_it_is_now() -> None:
    shown: list[str] = []

    async def person(pending: Pending) -> Answer:
        shown.append(f"{pending.question} {pending.call.args}")
        return Edit({"path": "b"}) if len(shown) == 1 else Allow()

    async with Executor(TOOLS, policy=Careful(), approvals=person) as executor:
        result = await executor.run(put("a", "1"))

    assert shown == [
        'May it write file:a? {"path":"a"}',
        'Edited, so it needs approval again. May it write file:b? {"path":"b"}',
    ]
    told = 'saved b\n[Note: a person changed the arguments: path="b".]'
    assert (result.text, ran) == (told, ["save b"])


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"path": 1}, "path"),
        ({"path": "denied"}, "never there"),
        ({"path": "hooked"}, "a hook says no"),
    ],
)
async def test_an_edit_passes_the_same_checks_as_any_call(args: dict[str, Any], text: str) -> None:
    policy = Careful()
    policy.verdict = lambda question: Deny("never there") if "denied" in question else Ask(question)

    async def hook(call: CheckedCall) -> Call | Result:
        if "hooked" in str(call.args):
            return Result.fail(call.id, FailureKind.DENIED, "a hook says no")
        return call

    async with deferring(policy, hooks=[Hook(before=hook)]) as executor:
        [pending] = await first(executor)
        [result] = await resume(executor, [pending], {pending.id: Edit(args)})

    assert text in result.text
    assert result.failure is not None
    assert ran == []


async def test_an_edit_to_something_harmless_runs_in_the_place_that_the_call_had() -> None:
    asked = anyio.Event()
    answer = anyio.Event()

    async def person(_pending: Pending) -> Answer:
        asked.set()
        await answer.wait()
        return Edit({"path": "b"})

    policy = Careful()
    policy.verdict = lambda question: Ask(question) if question.endswith("file:a?") else Allow()
    calls = [put("a", "1"), get("a", "2"), put("c", "3"), get("b", "4")]
    results: list[Result] = []
    async with Executor(TOOLS, policy=policy, approvals=person) as executor:

        async def turn() -> None:
            results.extend(await executor.run_all(calls))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await asked.wait()
            await anyio.wait_all_tasks_blocked()
            assert sorted(ran) == ["load b", "save c"]
            answer.set()

    told = 'saved b\n[Note: a person changed the arguments: path="b".]'
    assert [one.text for one in results] == [told, "loaded a", "saved c", "loaded b"]
    assert sorted(ran[2:]) == ["load a", "save b"]


async def test_a_call_that_is_edited_again_and_again_is_refused_in_the_end() -> None:
    async def person(_pending: Pending) -> Answer:
        return Edit({"path": "b"})

    async with Executor(TOOLS, policy=Careful(), approvals=person) as executor:
        result = await executor.run(put("a", "1"))

    assert result.text == "Not run: the call needed approval too many times. Tell the user."
    assert ran == []


# ---------------------------------------------------------------- bound, once, in time


async def test_an_answer_counts_once() -> None:
    async with deferring() as executor:
        [pending] = await first(executor)
        [one] = await resume(executor, [pending], {pending.id: Allow()})
        [two] = await resume(executor, [pending], {pending.id: Allow()})

        for _ in range(20):
            await resume(executor, [pending], {pending.id: Allow()})
        turn = executor.turn(pending.turn_id, run=pending.run_id)
        for _ in range(2):
            turn.answer(pending, Allow())
            await turn.results()

    assert one.text == "saved a"
    assert two.failure is not None
    assert two.failure.kind == FailureKind.UNKNOWN
    assert two.text == snapshot(
        "Not run: this approval was already used. The earlier call may have taken effect: check first."
    )
    assert ran == ["save a"]


async def test_a_yes_that_was_given_at_once_cannot_be_given_again_later() -> None:
    kept: list[Pending] = []

    async def person(pending: Pending) -> Answer:
        kept.append(pending)
        return Allow()

    async with Executor(TOOLS, policy=Careful(), approvals=person) as executor:
        await executor.run(put("a", "1"))
        [again] = await resume(executor, kept, {kept[0].id: Allow()})

    assert again.failure is not None
    assert ran == ["save a"]


async def test_an_answer_that_comes_too_late_counts_no_more() -> None:
    now = [0.0]
    async with deferring(clock=lambda: now[0], approvals=Approvals(timeout=10.0)) as executor:
        [pending] = await first(executor)
        assert pending.expires_at == 10.0
        now[0] = 10.0
        [result] = await resume(executor, [pending], {pending.id: Allow()})

    assert result.text == snapshot(
        "Not run: the approval request had expired. Call again if it is still needed."
    )
    assert ran == []


@pytest.mark.parametrize(
    ("expires_at", "answered_at", "runs"),
    [(1060.0, 940.0, True), (1060.0, 879.0, False), (1060.0, 10.0, False), (math.inf, 10.0, True)],
)
async def test_a_clock_that_was_set_back_does_not_extend_a_request(
    expires_at: float, answered_at: float, *, runs: bool
) -> None:
    now = [1000.0]
    async with deferring(clock=lambda: now[0]) as executor:
        [asked] = await first(executor)
        pending = replace(asked, expires_at=expires_at)
        now[0] = answered_at
        [result] = await resume(executor, [pending], {pending.id: Allow()})

    late = "Not run: the approval request had expired. Call again if it is still needed."
    assert (result.text, ran) == (("saved a", ["save a"]) if runs else (late, []))


async def test_a_yes_under_another_policy_is_asked_again_and_never_runs() -> None:
    policy = Careful()
    async with deferring(policy) as executor:
        [pending] = await first(executor)
        policy.version = "2"
        [again] = await resume(executor, [pending], {pending.id: Allow()})
        assert again.pending is not None
        assert again.pending.question == snapshot(
            "Changed since it was approved, so it needs approval again. May it write file:a?"
        )
        assert ran == []
        [done] = await resume(executor, [again.pending], {again.pending.id: Allow()})

    assert (done.text, ran) == ("saved a", ["save a"])


WRONG_ANSWERS: dict[str, Answer] = {
    "allow": Allow(),
    "deny": Deny("no"),
    "edit": Edit({"path": "b"}),
    "result": Result("1", "done by hand"),
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
async def test_an_answer_for_another_user_leaves_the_approval_for_its_own(name: str) -> None:
    async with deferring() as executor:
        alice = executor.turn("t", run="r", principal="alice")
        alice.add(put("a", "1"), get("a", "2"))
        await alice.results()
        pending, behind = alice.pending

        async def answered(principal: str, answer: Answer) -> list[Result]:
            turn = executor.turn("t", run="r", principal=principal)
            turn.answer(pending, answer)
            return await turn.results()

        [wrong] = await answered("bob", WRONG_ANSWERS[name])
        before = list(ran)
        executor.turn("t", run="r", principal="bob").answer(behind)
        [right] = await answered("alice", Allow())
        [again] = await answered("alice", Allow())

    others = "Not run: this answer is to a request of another user. Tell the user."
    asked = (
        "Not run yet: waiting for the user's approval. Continue with other work, or end your turn. "
        "Request: Changed since it was approved, so it needs approval again. May it write file:a?"
    )
    texts = {"allow": asked, "deny": "no", "edit": others, "result": others}
    assert (wrong.text, before) == (texts[name], [])
    assert (right.text, ran) == ("saved a", ["save a"])
    assert again.failure is not None
    assert again.failure.kind is FailureKind.UNKNOWN


async def test_a_call_that_only_waits_is_not_continued_for_another_user() -> None:
    async with deferring() as executor:
        alice = executor.turn("t", run="r", principal="alice")
        alice.add(put("a", "1"), get("a", "2"))
        await alice.results()
        asked, behind = alice.pending
        await executor.turn("t", run="r", principal="alice").dismiss(asked)
        bob = executor.turn("t", run="r", principal="bob")
        bob.answer(behind)
        [refused] = await bob.results()
        again = executor.turn("t", run="r", principal="alice")
        again.answer(behind)
        [done] = await again.results()

    assert refused.text == "Not run: this answer is to a request of another user. Tell the user."
    assert (done.text, ran) == ("loaded a", ["load a"])


async def test_a_request_that_changed_and_changed_back_keeps_its_approval() -> None:
    policy = Careful()
    async with deferring(policy) as executor:
        [pending] = await first(executor)
        policy.version = "2"
        [again] = await resume(executor, [pending], {pending.id: Allow()})
        policy.version = "1"
        [done] = await resume(executor, [pending], {pending.id: Allow()})
        newer = again.pending
        assert newer is not None
        policy.version = "2"
        [both] = await resume(executor, [newer], {newer.id: Allow()})

    assert (done.text, ran) == ("saved a", ["save a"])
    assert both.failure is not None
    assert both.failure.kind is FailureKind.UNKNOWN


async def test_an_approval_asked_for_again_replaces_the_earlier_one() -> None:
    policy = Careful()
    async with deferring(policy) as executor:
        [pending] = await first(executor)
        policy.version = "2"
        [again] = await resume(executor, [pending], {pending.id: Allow()})
        newer = again.pending
        assert newer is not None
        [done] = await resume(executor, [newer], {newer.id: Allow()})
        policy.version = "1"
        [late] = await resume(executor, [pending], {pending.id: Allow()})

    assert (done.text, ran) == ("saved a", ["save a"])
    assert late.failure is not None
    assert late.failure.kind is FailureKind.UNKNOWN


class TwoProcesses:
    """Two executors with one ledger. Their policies have versions 1 and 2."""

    def __init__(self, make_ledger: Callable[[], Ledger]) -> None:
        self.begun, self.go_on = anyio.Event(), anyio.Event()
        self.first, self.second = (
            Executor(
                Toolset(tool(touches=writes_file)(self.pay)),
                policy=Careful(version),
                approvals=Approvals(approver=defer, ledger=make_ledger()),
            )
            for version in "12"
        )

    async def pay(self, path: str) -> str:
        """Pay."""
        ran.append(f"pay {path}")
        self.begun.set()
        if len(ran) == 1:
            await self.go_on.wait()
        return "paid"

    async def ask_twice(self) -> tuple[Pending, Pending]:
        """The request of the first process, and the one that the second asks instead."""
        [asked] = await first(self.first, Call("pay", {"path": "a"}, "1"))
        [again] = waits(await resume(self.second, [asked], {asked.id: Allow()}))
        return asked, again


@pytest.fixture(params=["memory", "files", "journal"])
def make_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Ledger]:
    memory = MemoryLedger()
    ledgers: dict[str, Callable[[], Ledger]] = {
        "memory": lambda: memory,
        "files": lambda: FileLedger(tmp_path / "ledger"),
        "journal": lambda: open_runs(tmp_path / "journal.db").ledger,
    }
    return ledgers[request.param]


@pytest.mark.parametrize(
    "answer", [Allow(), Deny("no"), Edit({"path": "b"}), Result("1", "by hand")]
)
async def test_while_a_call_runs_the_request_asked_instead_of_its_own_is_used(
    answer: Answer, make_ledger: Callable[[], Ledger]
) -> None:
    both = TwoProcesses(make_ledger)
    results: list[Result] = []

    async def run() -> None:
        results.extend(await resume(both.first, [asked], {asked.id: Allow()}))

    async with both.first, both.second, anyio.create_task_group() as tasks:
        asked, again = await both.ask_twice()
        tasks.start_soon(run)
        await both.begun.wait()
        [other] = await resume(both.second, [again], {again.id: answer})
        both.go_on.set()

    assert other.failure is not None
    assert (other.failure.kind, ran) == (FailureKind.UNKNOWN, ["pay a"])
    assert [result.text for result in results] == ["paid"]


async def test_a_process_that_restarts_asks_the_same_request_again(
    make_ledger: Callable[[], Ledger],
) -> None:
    both = TwoProcesses(make_ledger)
    both.go_on.set()
    async with both.first, both.second:
        asked, again = await both.ask_twice()
        [repeated] = waits(await resume(both.second, [asked], {asked.id: Allow()}))
        [done] = await resume(both.second, [again], {again.id: Allow()})
        [late] = await resume(both.first, [asked], {asked.id: Allow()})

    assert (repeated.id, done.text, ran) == (again.id, "paid", ["pay a"])
    assert late.failure is not None
    assert late.failure.kind is FailureKind.UNKNOWN


async def test_of_twenty_turns_that_use_one_approval_at_once_one_runs() -> None:
    async with deferring() as executor:
        [pending] = await first(executor)
        turns = [executor.turn(pending.turn_id, run=pending.run_id) for _ in range(20)]
        for turn in turns:
            turn.answer(pending, Allow())
        results = [result for turn in turns for result in await turn.results()]

    assert ran == ["save a"]
    assert sorted(one.failure is None for one in results) == [False] * 19 + [True]


@pytest.mark.parametrize("verdict", [lambda _: Deny("not any more"), lambda _: Allow()])
async def test_a_policy_that_changed_its_mind_is_heard_but_an_old_yes_is_none(
    verdict: Callable[[str], Decision],
) -> None:
    policy = Careful()
    async with deferring(policy) as executor:
        [pending] = await first(executor)
        policy.version, policy.verdict = "2", verdict
        [again] = await resume(executor, [pending], {pending.id: Allow()})

    assert ran == []
    assert again.failure is not None
    assert again.failure.kind is (FailureKind.PENDING if again.pending else FailureKind.DENIED)


async def test_a_mode_that_changes_while_the_question_is_open_is_asked_about_again() -> None:
    policy, shown = Careful(), []

    async def person(pending: Pending) -> Answer:
        shown.append(pending.question)
        policy.version = "another"
        return Allow()

    async with Executor(TOOLS, policy=policy, approvals=person) as executor:
        await executor.run(put("a", "1"))

    assert len(shown) == 2
    assert ran == ["save a"]


async def test_a_yes_is_bound_to_what_the_host_says_it_is_bound_to() -> None:
    folder = ["/work"]
    async with deferring(approvals=Approvals(context=lambda _: folder[0])) as executor:
        [pending] = await first(executor)
        folder[0] = "/elsewhere"
        [again] = await resume(executor, [pending], {pending.id: Allow()})

    assert again.pending is not None
    assert ran == []


async def test_a_yes_to_a_tool_that_has_changed_is_none() -> None:
    @tool(name="save", touches=writes_file)
    async def changed(path: str) -> str:
        """Save, and tell everybody."""
        ran.append(f"changed {path}")
        return path

    registry = Registry()
    registry.add(Toolset(save), name="files")
    async with Executor(registry, policy=Careful(), approvals=defer) as executor:
        [pending] = waits(await executor.run_all([put("a", "1")]))
        registry.remove("files")
        registry.add(Toolset(changed), name="files")
        [stale] = await resume(executor, [pending], {pending.id: Allow()})
        assert stale.failure is not None
        assert stale.failure.kind is FailureKind.STALE

        [pending] = waits(await executor.run_all([put("a", "1")])) or [pending]
        executor.refresh_tools()
        [again] = waits(await executor.run_all([put("a", "1")]))
        assert again.fingerprint != pending.fingerprint

    assert ran == []


@pytest.mark.parametrize(
    "change",
    [
        {"call": Call("save", '{"path":"b"}', "1")},
        {"fingerprint": "0" * 64},
    ],
    ids=["arguments", "fingerprint"],
)
async def test_a_yes_to_a_question_that_was_tampered_with_is_asked_again(
    change: dict[str, Any],
) -> None:
    async with deferring() as executor:
        [pending] = await first(executor)
        forged = replace(pending, **change)
        [result] = await resume(executor, [forged], {forged.id: Allow()})

    assert result.pending is not None
    assert ran == []


@pytest.mark.parametrize(
    "change",
    [
        {"call": put("a", "2")},
        {"key": "r/t/2"},
        {"key": "r/t/1#x"},
        {"turn_id": "u"},
        {"run_id": "s"},
    ],
    ids=["call", "key", "number", "turn", "run"],
)
async def test_an_answer_to_a_question_that_does_not_fit_its_turn_is_refused(
    change: dict[str, Any],
) -> None:
    async with deferring() as executor:
        turn = executor.turn("t", run="r")
        turn.add(put("a", "1"))
        [one] = waits(await turn.results())
        with pytest.raises(ValueError, match="r~"):
            turn.answer(replace(one, **change), Allow())

    assert ran == []


def test_a_fingerprint_tells_numbers_and_spellings_apart() -> None:
    @tool
    async def note(value: Any) -> str:
        """Take anything."""
        return str(value)

    async def prints() -> list[str]:
        texts = ["1", "1.0", "true", '"é"', '"e\u0301"', '"1"']
        calls = [Call("note", f'{{"value":{text}}}', "1") for text in texts]
        async with Executor(Toolset(note), policy=lambda *_: Ask("?"), approvals=defer) as executor:
            return [waits([await executor.run(call)])[0].fingerprint for call in calls]

    assert len(set(anyio.run(prints))) == 6


# ---------------------------------------------------------------- no hangs, no leaks


async def test_nobody_to_ask_is_a_no_at_once_and_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Executor(TOOLS, policy=Careful()) as executor:
        result = await executor.run(put("a", "1"))
        await executor.run(put("b", "1"))

    assert result.text == snapshot(
        "Not run: this needs the user's approval, and no one is available to give it. Do what you can without it, and report it at the end. Request: May it write file:a?"
    )
    assert caplog.messages == [
        "calls that need approval are denied: no `approvals=` or `approver=` given"
    ]


async def test_events_tell_who_was_asked_what_and_what_they_said() -> None:
    heard: list[Event] = []

    async def person(_pending: Pending) -> Answer:
        return Deny("no")

    async with Executor(TOOLS, policy=Careful(), approvals=person) as executor:
        events = executor.events()
        await executor.run(put("a", "1"))
    heard = [one async for one in events]

    assert [type(one).__name__ for one in heard] == [
        "Requested",
        "Decided",
        "Asked",
        "Answered",
        "Finished",
    ]
    [asked, answered] = [one for one in heard if isinstance(one, Asked | Answered)]
    assert isinstance(asked, Asked)
    assert isinstance(answered, Answered)
    assert (answered.pending_id, answered.answer) == (asked.pending.id, Deny("no"))


async def test_the_decision_that_let_a_call_run_is_told_with_its_origin() -> None:
    origin = Origin("reads are fine", "rules.toml", 3)
    async with Executor(TOOLS, policy=lambda *_: Allow(origin)) as executor:
        events = executor.events()
        await executor.run_all([get("a", "1")])
        await executor.run_all([get("a", "2"), get("b", "3")])
        await executor.run(get("a", "4"))

    judged = [one async for one in events if isinstance(one, Decided)]
    assert [(one.call_id, one.decision) for one in judged] == [
        (call_id, Allow(origin)) for call_id in "1234"
    ]


async def test_a_ledger_of_the_hosts_own_is_asked_each_time() -> None:
    class Full(MemoryLedger):
        async def claim(self, pending_id: str, _by: str, /) -> bool:
            return not pending_id

    async with deferring(approvals=Approvals(ledger=Full())) as executor:
        [pending] = await first(executor)
        [result] = await resume(executor, [pending], {pending.id: Allow()})

    assert result.failure is not None
    assert ran == []


# ---------------------------------------------------------------- when things break around it


async def test_a_closed_executor_takes_nothing_up_and_the_answer_is_not_used() -> None:
    ledger = MemoryLedger()
    async with deferring(approvals=Approvals(ledger=ledger)) as executor:
        [pending] = await first(executor)
    [closed] = await resume(executor, [pending], {pending.id: Allow()})
    async with deferring(approvals=Approvals(ledger=ledger)) as another:
        [done] = await resume(another, [pending], {pending.id: Allow()})

    assert closed.failure is not None
    assert (closed.failure.kind, done.text, ran) == (FailureKind.CANCELLED, "saved a", ["save a"])


async def test_a_call_does_not_start_after_its_executor_was_left() -> None:
    asked, left = anyio.Event(), anyio.Event()

    class Slow(MemoryLedger):
        async def claim(self, pending_id: str, by: str, /) -> bool:
            asked.set()
            await left.wait()
            return await super().claim(pending_id, by)

    async with (
        anyio.create_task_group() as tasks,
        deferring(approvals=Approvals(ledger=Slow())) as executor,
    ):
        turn = executor.turn()
        turn.add(put("a", "1"))
        [pending] = waits(await turn.results())
        turn.answer(pending, Allow())
        await asked.wait()
        tasks.start_soon(executor.aclose)
        await anyio.wait_all_tasks_blocked()
        left.set()
        results = await turn.results()

    assert [one.failure and one.failure.kind for one in results] == [FailureKind.CANCELLED]
    assert ran == []


async def test_what_breaks_around_a_question_refuses_that_call_and_no_other() -> None:
    def raises(call: CheckedCall) -> str:
        if call.id == "1":
            raise OSError("no folder")
        return ""

    async def yes(_pending: Pending) -> Answer:
        return Allow()

    calls = [put("a", "1"), put("b", "2"), put("c", "\ud800")]
    async with Executor(
        TOOLS, policy=Careful(), approvals=Approvals(approver=yes, context=raises)
    ) as executor:
        unbound, *others = await executor.run_all(calls)

    assert unbound.text == "Not run: the call needed approval too many times. Tell the user."
    assert [one.text for one in others] == ["saved b", "saved c"]


async def test_a_ledger_that_breaks_lets_nobody_pass() -> None:
    class Full(MemoryLedger):
        async def claim(self, pending_id: str, _by: str, /) -> bool:
            raise OSError(f"no room for {pending_id}")

        async def ended(self, call_key: str, /) -> bool:
            raise OSError(f"no sight of {call_key}")

    async with deferring() as executor:
        [one, two] = await first(executor, put("a", "1"), get("a", "2"))
    async with deferring(approvals=Approvals(ledger=Full())) as executor:
        [refused, behind] = await resume(executor, [one, two], {one.id: Allow()})
        [alone] = await resume(executor, [two], {})

    assert refused.text == snapshot(
        "Not run: the approval could not be recorded as used (OSError). Tell the user."
    )
    assert (behind.pending, alone.pending) == (two, two)
    assert ran == []


async def test_a_tool_without_a_time_limit_can_be_asked_about() -> None:
    @tool(timeout=float("inf"))
    async def forever() -> str:
        """Take any time."""
        return "done"

    async def yes(_pending: Pending) -> Answer:
        return Allow()

    async with Executor(Toolset(forever), policy=lambda *_: Ask("?"), approvals=yes) as executor:
        result = await executor.run(Call("forever", {}, "1"))

    assert result.text == "done"


async def test_order_holds_when_a_question_is_asked_anew() -> None:
    async with deferring() as executor:
        [one, two] = await first(executor, put("a", "1"), put("a", "2"))
        [anew] = waits(await resume(executor, [one], {one.id: Edit({"path": "a"})}))
        assert (anew.id != one.id, anew.key) == (True, one.key)

        assert waits(await resume(executor, [two], {two.id: Allow()})) == [two]
        await resume(executor, [anew], {anew.id: Allow()})
        await resume(executor, [two], {two.id: Allow()})

    assert ran == ["save a", "save a"]


async def test_order_holds_over_two_executors_that_share_a_ledger() -> None:
    begun, go = anyio.Event(), anyio.Event()

    @tool(name="save", touches=writes_file)
    async def slow(path: str) -> str:
        """Save slowly."""
        begun.set()
        await go.wait()
        ran.append(f"save {path}")
        return path

    ledger = MemoryLedger()
    options: Any = {"policy": Careful(), "approvals": Approvals(approver=defer, ledger=ledger)}
    async with (
        Executor(Toolset(slow), **options) as here,
        Executor(Toolset(slow), **options) as there,
    ):
        [one, two] = waits(await here.run_all([put("a", "1"), put("a", "2")]))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resume, here, [one], {one.id: Allow()})
            await begun.wait()
            assert waits(await resume(there, [two], {two.id: Allow()})) == [two]
            go.set()
        [done] = await resume(there, [two], {two.id: Allow()})

    assert (done.text, ran) == ("a", ["save a", "save a"])


async def test_an_answer_that_comes_again_does_not_let_those_behind_it_pass() -> None:
    begun, go = anyio.Event(), anyio.Event()

    @tool(name="save", touches=writes_file)
    async def slow(path: str) -> str:
        """Save slowly."""
        begun.set()
        await go.wait()
        ran.append(f"save {path}")
        return path

    options: Any = {"policy": Careful(), "approvals": Approvals(approver=defer)}
    async with (
        Executor(Toolset(slow), **options) as here,
        Executor(Toolset(slow), **options) as there,
    ):
        [one, two] = waits(await here.run_all([put("a", "1"), put("a", "2")]))
        yes: dict[str, Answer] = {one.id: Allow(), two.id: Allow()}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resume, here, [one], yes)
            await begun.wait()
            [used] = await resume(there, [one], yes)
            assert used.failure is not None
            assert waits(await resume(there, [two], yes)) == [two]
            assert waits(await resume(there, [one, two], yes)) == [two]
            go.set()
        await resume(there, [two], yes)

    assert ran == ["save a", "save a"]


async def test_one_that_was_cancelled_while_it_ran_holds_back_nobody() -> None:
    begun = anyio.Event()

    @tool(name="save", touches=writes_file)
    async def slow(path: str) -> str:
        """Save, the first time slowly."""
        ran.append(f"save {path}")
        if len(ran) == 1:
            begun.set()
            await anyio.sleep_forever()
        return path

    options: Any = {"policy": Careful(), "approvals": defer}
    async with Executor(Toolset(slow), **options) as executor:
        [one, two] = waits(await executor.run_all([put("a", "1"), put("a", "2")]))
        turn = executor.turn(one.turn_id, run=one.run_id)
        turn.answer(one, Allow())
        await begun.wait()
        turn.cancel()
        await turn.results()
        [done] = await resume(executor, [two], {two.id: Allow()})

    assert (done.text, ran) == ("a", ["save a", "save a"])


async def test_those_behind_wait_for_all_that_are_put_off_in_whatever_order() -> None:
    first_one = anyio.Event()

    async def person(pending: Pending) -> Pending:
        if pending.call.id == "2":
            await first_one.wait()
        return pending

    async def seen(call: CheckedCall | Call, result: Result) -> Result:
        if call.id == "1":
            first_one.set()
        return result

    async with Executor(
        TOOLS, policy=Careful(), approvals=person, hooks=[Hook(after=seen)]
    ) as executor:
        one, two, three = await first(executor, put("a", "1"), put("a", "2"), get("a", "3"))

    assert (two.after, three.after) == ((one.key,), (one.key, two.key))


async def test_a_version_that_cannot_be_told_fits_no_answer() -> None:
    class Broken(Careful):
        @property
        def version(self) -> str:  # type: ignore[override]
            raise LookupError("gone")

        @version.setter
        def version(self, value: str) -> None: ...

    async def yes(_pending: Pending) -> Answer:
        return Allow()

    async with Executor(TOOLS, policy=Broken(), approvals=yes) as executor:
        result = await executor.run(put("a", "1"))

    assert result.failure is not None
    assert ran == []


async def test_questions_may_be_handed_in_in_any_order() -> None:
    async with deferring() as executor:
        calls = [put("a", "1"), put("a/b", "2"), put("a/b/c", "3")]
        one, two, three = await first(executor, *calls)
        yes: dict[str, Answer] = {p.id: Allow() for p in (one, two, three)}
        edit: dict[str, Answer] = {**yes, one.id: Edit({"path": "d"})}
        again = waits(await resume(executor, [three, one, two], edit))
        assert (again[0], again[2], ran) == (three, two, []), "their answers were not used"
        yes[again[1].id] = Allow()
        done = await resume(executor, again, yes)

    told = 'saved d\n[Note: a person changed the arguments: path="d".]'
    assert [result.text for result in done] == ["saved a/b/c", told, "saved a/b"]
    assert ran == ["save d", "save a/b", "save a/b/c"]


async def test_forged_questions_that_wait_for_each_other_end_too() -> None:
    async with deferring() as executor:
        [one, two] = await first(executor, put("a", "1"), put("b", "2"))
        one = replace(one, after=(two.key,))
        two = replace(two, after=(one.key,))
        results = await resume(executor, [one, two], {one.id: Allow(), two.id: Allow()})

    assert len(results) == 2


async def test_a_hook_does_not_answer_for_an_edit_that_the_policy_denies() -> None:
    policy = Careful()
    policy.verdict = lambda question: Deny("no") if "secret" in question else Ask(question)

    async def cache(call: CheckedCall) -> Call | Result:
        return Result(call.id, "cached") if "secret" in str(call.args) else call

    async with deferring(policy, hooks=[Hook(before=cache)]) as executor:
        [pending] = await first(executor)
        [result] = await resume(executor, [pending], {pending.id: Edit({"path": "secret"})})

    assert result.text == "no"


async def test_a_hook_may_not_send_an_edited_call_to_another_tool() -> None:
    async def other(call: CheckedCall) -> Call:
        return replace(call.call, name="load") if "b" in str(call.args) else call

    async with deferring(hooks=[Hook(before=other)]) as executor:
        [pending] = await first(executor)
        [result] = await resume(executor, [pending], {pending.id: Edit({"path": "b"})})

    assert result.text == snapshot(
        "Not run: a check sent the edited call to another tool. Tell the user."
    )


async def test_only_those_of_a_batch_wait_that_have_to() -> None:
    """One that waits for a call of another batch, which waits for the one put off, need not."""
    asked, answer = anyio.Event(), anyio.Event()

    async def person(pending: Pending) -> Pending | Answer:
        if pending.call.id != "1":
            return Allow()
        asked.set()
        await answer.wait()
        return pending

    @tool(touches=lambda one, two: (writes_file(one), writes_file(two)))
    async def both(one: str, two: str) -> str:
        """Save two."""
        ran.append(f"both {one} {two}")
        return "both"

    def policy(call: CheckedCall) -> Decision:
        return Ask("?") if call.id == "1" else Allow()

    results: list[Result] = []
    async with Executor(TOOLS | Toolset(both), policy=Quick(policy), approvals=person) as executor:

        async def turn() -> None:
            async def calls() -> Any:
                yield put("a", "1")
                await asked.wait()
                tasks.start_soon(executor.run, Call("both", {"one": "a", "two": "b"}, "x"))
                await anyio.wait_all_tasks_blocked()
                yield put("b", "2")
                answer.set()

            results.extend(await executor.run_all(calls()))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)

    assert [bool(one.pending) for one in results] == [True, False]
    assert sorted(ran) == ["both a b", "save b"]


async def test_an_edit_is_judged_for_all_to_see() -> None:
    async def person(pending: Pending) -> Answer:
        return Edit({"path": "b"}) if "file:a" in pending.question else Allow()

    async with Executor(TOOLS, policy=Careful(), approvals=person) as executor:
        events = executor.events()
        await executor.run(put("a", "1"))

    judged = [(str(one.accesses[0]), one.call) async for one in events if isinstance(one, Decided)]
    assert judged == [
        ("write file:a", None),
        ("write file:b", put("b", "1")),
    ]


async def test_many_questions_cost_about_as_many_times_one() -> None:
    async def yes(_pending: Pending) -> Answer:
        return Allow()

    async with Executor(TOOLS, policy=Careful(), approvals=yes) as executor:
        with anyio.fail_after(20):
            results = await executor.run_all([put(f"f{n}", f"{n}") for n in range(300)])

    assert len([one for one in results if one.failure is None]) == 300
