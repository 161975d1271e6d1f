"""Pending calls: a run that waits for approval is a value, and can be resumed in any process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.stage import Recorded, World, by_turn, calls, kinds, look, owed, put, says, streamed
from handrail import (
    Allow,
    Approvals,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    HandrailError,
    Result,
    Toolset,
    tool,
    writes_file,
)
from handrail.agent import Agent, RunResult, RunState, dump_state, load_state
from handrail.approvals import FileLedger, defer
from handrail.messages import Model, Prompt, ToolResults
from handrail.permissions import Answer, Approver, Edit, MemoryLedger, Origin, Pending, Policy

WAYS = pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])
WORKER = Path(__file__).with_name("worker.py")


def gate(call: CheckedCall) -> Decision:
    """Asks before ``put``."""
    return Ask(f"{call.id}?") if call.name == "put" else Allow()


TURN = calls(put("a", "1"), look("x", "2"), put("b", "3"), put("c", "4"))
MODEL = by_turn(TURN, says("done"))


def by_call(state: RunState, **answers: Answer) -> dict[str, Answer]:
    """Map answers by call id to answers by the id of the pending call."""
    return {one.id: answers[f"c{one.call.id}"] for one in state.pending if f"c{one.call.id}" in answers}  # fmt: skip


@WAYS
async def test_a_run_with_pending_calls_ends_and_lists_them(wrap: type[Model]) -> None:
    world = World()
    async with Executor(world.tools, policy=gate, approvals=defer) as executor:
        done = await Agent(wrap(MODEL), executor).run("go")

    assert (done.stop_reason, world.did) == ("pending", ["look x"])
    assert done.state.messages == (Prompt.of("go"), TURN)
    assert [one.call for one in done.state.pending] == [put("a", "1"), put("b", "3"), put("c", "4")]
    assert (done.state.open, done.state.turns, done.state.calls) == ((), 1, 4)
    assert kinds(done.state.transcript()) == ["pending", "seen x", "pending", "pending"]
    owed(done.state.transcript())


@WAYS
async def test_answers_approve_deny_or_edit_calls(wrap: type[Model]) -> None:
    world = World()
    async with Executor(world.tools, policy=gate, approvals=defer) as executor:
        agent = Agent(wrap(MODEL), executor)
        state = (await agent.run("go")).state
        answers = by_call(state, c1=Allow(), c3=Deny("Not b."), c4=Edit('{"path":"d"}'))
        edited = await agent.resume(state, answers=answers)
        done = await agent.resume(edited.state, answers=by_call(edited.state, c4=Allow()))

    assert edited.stop_reason == "pending"
    assert kinds(edited.state.transcript()) == ["put a", "seen x", "denied", "pending"]
    assert (done.stop_reason, done.text) == ("answer", "done")
    told = 'put d\n[Note: a person changed the arguments: path="d".]'
    assert kinds(done.state.messages) == ["put a", "seen x", "denied", told]
    assert sorted(world.did) == ["look x", "put a", "put d"]
    owed(done.state.transcript())


@pytest.mark.parametrize("order", list(permutations("134")), ids="".join)
async def test_answers_can_be_given_in_parts_and_in_any_order(order: tuple[str, ...]) -> None:
    world = World()
    async with Executor(world.tools, policy=gate, approvals=defer) as executor:
        agent = Agent(MODEL, executor)
        done: RunResult[Any] = await agent.run("go")
        for call_id in order:
            assert done.stop_reason == "pending"
            answers = by_call(done.state, **{f"c{call_id}": Allow()})
            done = await agent.resume(load_state(dump_state(done.state)), answers=answers)
            owed(done.state.transcript())

    assert (done.stop_reason, done.text) == ("answer", "done")
    assert kinds(done.state.messages) == ["put a", "seen x", "put b", "put c"]
    assert sorted(world.did) == ["look x", "put a", "put b", "put c"]


async def test_without_an_answer_a_run_stays_pending_and_keeps_new_messages() -> None:
    world = World()
    async with Executor(world.tools, policy=gate, approvals=defer) as executor:
        agent = Agent(by_turn(calls(put("a", "1")), says("done")), executor)
        first = await agent.run("go")
        second = await agent.resume(first.state, "Hurry.")
        third = await agent.resume(
            load_state(dump_state(second.state)), "Now.", answers=by_call(second.state, c1=Allow())
        )

    assert second.state == first.state.add_prompt("Hurry.")
    assert third.state.messages[2:] == (
        ToolResults(third.state.messages[2].results),
        Prompt.of("Hurry."),
        Prompt.of("Now."),
        says("done"),
    )
    owed(third.state.transcript())


async def test_an_answer_is_used_once() -> None:
    world = World()
    async with Executor(world.tools, policy=gate, approvals=defer) as executor:
        agent = Agent(by_turn(calls(put("a", "1")), says("done")), executor)
        first = await agent.run("go")
        answers = by_call(first.state, c1=Allow())
        await agent.resume(first.state, answers=answers)
        again = await agent.resume(first.state, answers=answers)

    assert (again.stop_reason, world.did) == ("answer", ["put a"])
    [kind] = kinds(again.state.messages)
    assert kind in ("denied", "unknown")


async def test_a_call_after_one_answered_in_another_process_runs_without_a_durable_ledger() -> None:
    world = World()
    model = by_turn(calls(put("a", "1"), put("a", "2")), says("done"))
    done: RunResult[Any] | None = None
    for _ in range(3):
        async with Executor(world.tools, policy=gate, approvals=defer) as executor:
            agent = Agent(model, executor)
            if done is None:
                done = await agent.run("go")
            else:
                first = done.state.pending[0]
                done = await agent.resume(
                    load_state(dump_state(done.state)), answers={first.id: Allow()}
                )

    assert done is not None
    assert (done.stop_reason, kinds(done.state.messages)) == ("answer", ["put a", "put a"])


# ---------------------------------------------------------------- another process


def worker(folder: Path, **order: Any) -> dict[str, Any]:
    """The outcome of an order in another process."""
    ran = subprocess.run(  # noqa: S603
        [sys.executable, str(WORKER)],
        input=json.dumps({"folder": str(folder), **order}).encode(),
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    outcome: dict[str, Any] = json.loads(ran.stdout)
    return outcome


async def left(folder: Path, model: Model) -> tuple[RunState, RunState]:
    """A run with three pending calls, and its outcome in this process."""
    world, ledger = World(), FileLedger(folder / "another")
    async with Executor(
        world.tools, policy=gate, approvals=Approvals(approver=defer, ledger=ledger)
    ) as executor:
        agent = Agent(model, executor)
        waiting = (await agent.run("go")).state
        answers = {one.id: Allow() for one in waiting.pending}
        return waiting, (await agent.resume(waiting, answers=answers)).state


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_run_resumed_in_another_process_ends_the_same(tmp_path: Path, *, stream: bool) -> None:
    waiting, here = anyio.run(left, tmp_path, streamed(MODEL) if stream else MODEL)

    first = worker(tmp_path, state=dump_state(waiting), answers=["4", "1"], stream=stream)
    second = worker(tmp_path, state=first["state"], answers=["3"], stream=stream)

    assert (first["stop"], second["stop"]) == ("pending", "answer")
    assert load_state(second["state"]) == here
    *early, late = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert (sorted(early), late) == (["put a", "put c"], "put b")


def test_an_answer_used_in_one_process_cannot_be_used_in_another(tmp_path: Path) -> None:
    waiting, _ = anyio.run(left, tmp_path, MODEL)

    order = {"state": dump_state(waiting), "answers": ["1", "3", "4"], "stream": False}
    first, second = worker(tmp_path, **order), worker(tmp_path, **order)

    assert kinds(load_state(first["state"]).messages) == ["put a", "seen x", "put b", "put c"]
    assert set(kinds(load_state(second["state"]).messages)) <= {"seen x", "denied", "unknown"}
    did = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert sorted(did) == ["put a", "put b", "put c"]


# ---------------------------------------------------------------- answers that wait

BEHIND = by_turn(calls(put("a", "1"), put("a", "2")), says("done"))


class Later:
    """Runs of one agent, each in an executor with a ledger of its own, as in another process."""

    def __init__(self, policy: Policy = gate, *, clock: Callable[[], float] = time.time) -> None:
        self.world, self.asked = World(), list[str]()
        self._policy, self._clock = policy, clock
        self.text = ""

    @property
    def state(self) -> RunState:
        return load_state(self.text)

    async def run(self, approver: Approver = defer, **answers: Answer) -> RunResult[Any]:
        approvals = Approvals(approver=approver)
        options: Any = {"policy": self._policy, "approvals": approvals, "clock": self._clock}
        async with Executor(self.world.tools, **options) as executor:
            agent = Agent(BEHIND, executor)
            if not self.text:
                done = await agent.run("go")
            else:
                given = by_call(self.state, **answers)
                self.asked += [one.call.id for one in self.state.pending if one.id in given]
                done = await agent.resume(self.state, answers=given)
        self.text = dump_state(done.state)
        return done


@pytest.mark.parametrize(
    ("answer", "did"),
    [
        (Allow(Origin("a rule")), ["put a", "put a"]),
        (Edit({"path": "a"}), ["put a"]),
        (Result("2", "by hand"), ["put a"]),
    ],
    ids=["allow", "edit", "result"],
)
async def test_a_call_answered_behind_an_open_one_is_not_asked_again(
    answer: Answer, did: list[str]
) -> None:
    later = Later()
    await later.run()
    blocked = await later.run(c2=answer)
    assert (blocked.stop_reason, later.world.did) == ("pending", [])
    assert [one.call.id for one in later.state.pending] == ["1"]
    assert [(one.pending_id, one.fingerprint) for one in later.state.answers] == [
        (one.id, one.fingerprint) for one in later.state.requests if one.call.id == "2"
    ]

    done = await later.run(c1=Allow())
    assert (later.asked, later.world.did) == (["2", "1"], did)
    assert later.state.answers == ()
    if isinstance(answer, Edit):  # other arguments are another call, and the policy asks about it
        done = await later.run(c2=Allow())
        assert later.world.did == ["put a", "put a"]
    assert done.stop_reason == "answer"
    owed(done.state.transcript())


async def test_an_answer_that_waits_is_replaced_by_a_later_one() -> None:
    later = Later()
    await later.run()
    await later.run(c2=Allow())
    [kept] = later.state.answers
    async with Executor(later.world.tools, policy=gate, approvals=defer) as executor:
        first = later.state.pending[0]
        answers: dict[str, Answer] = {
            first.id: Allow(),
            kept.pending_id: Deny("Not a second time."),
        }
        done = await Agent(BEHIND, executor).resume(later.state, answers=answers)

    assert (kinds(done.state.messages), later.world.did) == (["put a", "denied"], ["put a"])


async def test_an_answer_that_waits_keeps_who_gave_it() -> None:
    later = Later()
    await later.run()
    await later.run(c2=Allow(by="ana", via="phone", seen="1f"))
    plain = json.loads(later.text)
    [stored] = plain["answers"]

    assert load_state(later.text).answers[0].answer == Allow(by="ana", via="phone", seen="1f")
    del stored[-1]["allow"]
    stored[-1]["result"] = Result("c2", "made up").to_json()
    with pytest.raises(HandrailError, match=r"^Not a saved run state: unknown answer\.$"):
        load_state(json.dumps(plain))


async def test_an_answer_that_waits_stays_while_the_run_does_nothing() -> None:
    later = Later()
    await later.run()
    await later.run(c2=Allow())
    before = later.text
    await later.run()
    assert (later.text, len(later.state.answers)) == (before, 1)

    async with Executor(later.world.tools, policy=gate, approvals=defer) as executor:
        run = Agent(BEHIND, executor).resume(later.state, answers=by_call(later.state, c1=Allow()))
        run.interrupt()
        stopped = await run
    assert (dump_state(stopped.state), later.world.did) == (before, [])


async def test_an_answer_that_waits_expires_with_its_request() -> None:
    now = 1000.0
    later = Later(clock=lambda: now)
    await later.run()
    await later.run(c2=Allow())
    now += 25 * 60 * 60
    done = await later.run(c1=Deny("No."))

    assert (kinds(done.state.messages), later.world.did) == (["denied", "denied"], [])


def tamper(state: RunState, **changes: Any) -> RunState:
    """A state whose second call is another one than the person has approved."""
    first, second = state.waiting
    assert second.pending is not None
    return state._replace(waiting=(first, second._replace(pending=replace(second.pending, **changes))))  # fmt: skip


@pytest.mark.parametrize("whole", [False, True], ids=["call", "call and fingerprint"])
async def test_an_answer_that_waits_never_approves_another_call(*, whole: bool) -> None:
    later, other = Later(), Later()
    await later.run()
    await later.run(c2=Allow())
    changes: dict[str, Any] = {"call": put("secret", "2"), "accesses": ()}
    if whole:  # whoever can write the state can also compute the fingerprint of another call
        model = by_turn(calls(put("a", "1"), put("secret", "2")), says("done"))
        async with Executor(other.world.tools, policy=gate, approvals=defer) as executor:
            state = (await Agent(model, executor).resume(RunState(run_id=later.state.run_id), "go")).state  # fmt: skip
        changes["fingerprint"] = state.requests[1].fingerprint
    later.text = dump_state(tamper(later.state, **changes))
    done = await later.run(c1=Allow())

    assert (done.stop_reason, later.world.did) == ("pending", ["put a"])
    assert [one.call for one in done.state.pending] == [put("secret", "2")]
    control = await later.run(c2=Allow())
    assert (control.stop_reason, later.world.did) == ("answer", ["put a", "put secret"])


async def test_a_call_that_a_new_policy_denies_does_not_run_with_an_answer_that_waited() -> None:
    later = Later()
    await later.run()
    await later.run(c2=Allow())
    strict = Later(lambda call: Deny("Never.") if call.id == "2" else gate(call))
    strict.text = later.text
    done = await strict.run(c1=Allow())

    assert (kinds(done.state.messages), strict.world.did) == (["put a", "denied"], ["put a"])


async def test_a_state_that_is_saved_while_an_answer_is_used_does_not_have_it() -> None:
    later, seen = Later(), list[RunState]()
    await later.run()
    await later.run(c2=Allow())

    @tool(touches=writes_file)
    async def put(path: str) -> str:
        """Put something somewhere."""
        seen.append(run.state)
        return f"put {path}"

    async with Executor(Toolset(put), policy=gate, approvals=defer) as executor:
        run = Agent(BEHIND, executor).resume(later.state, answers=by_call(later.state, c1=Allow()))
        done = await run

    assert done.stop_reason == "answer"
    assert [state.answers for state in seen] == [(), ()]
    assert [[one.call.id for one in state.pending] for state in seen] == [["1", "2"], ["1", "2"]]


@pytest.mark.parametrize("edit", [False, True], ids=["allow", "edit"])
async def test_a_call_that_an_approver_allowed_before_it_had_to_wait_is_not_asked_again(
    *, edit: bool
) -> None:
    later, questions = Later(), list[str]()

    async def approver(pending: Pending) -> Answer | Pending:
        questions.append(pending.call.id)
        if pending.call.id == "1":
            return pending
        return Edit({"path": "a"}) if edit and questions.count("2") == 1 else Allow()

    blocked = await later.run(approver)
    assert (blocked.stop_reason, later.world.did) == ("pending", [])
    assert [one.call.id for one in later.state.pending] == ["1"]
    done = await later.run(c1=Allow())

    assert (done.stop_reason, later.world.did) == ("answer", ["put a", "put a"])
    assert sorted(questions) == ["1", "2", *(["2"] if edit else [])]


async def test_the_answer_to_a_question_inside_waits_in_the_state_of_the_parent() -> None:
    world, text, asked = World(), "", list[list[str]]()
    inside = by_turn(calls(put("a", "1"), put("a", "2")), says("put"))
    outside = by_turn(calls(Call("scout", {"task": "Put."}, "s")), says("done"))
    for answers in ({}, {"c2": Allow()}, {"c1": Allow()}):
        async with Executor(world.tools, policy=gate) as inner:
            scout = Agent(inside, inner).as_tool("scout", "Put.")
            async with Executor(Toolset(scout), approvals=defer) as executor:
                state = load_state(text) if text else RunState().add_prompt("go")
                given = by_call(state, **answers)
                done = await Agent(outside, executor).resume(state, answers=given)
                text = dump_state(done.state)
                asked.append([one.call.id for one in load_state(text).pending if one.question])

    assert asked == [["1", "2"], ["1"], []]
    assert (done.stop_reason, world.did) == ("answer", ["put a", "put a"])


async def test_a_state_of_a_sub_agent_does_not_keep_answers_that_are_in_use() -> None:
    seen = list[RunState]()

    @tool(touches=writes_file)
    async def put_(path: str) -> str:
        """Put something somewhere."""
        seen.append(run.state)
        return f"put {path}"

    inside = by_turn(calls(put("a", "1"), put("a", "2")), says("put"))
    outside = by_turn(calls(Call("scout", {"task": "Put."}, "s")), says("done"))
    async with Executor(Toolset(put_).renamed({"put_": "put"}), policy=gate) as inner:
        scout = Agent(inside, inner).as_tool("scout", "Put.")
        async with Executor(Toolset(scout), approvals=defer) as executor:
            agent = Agent(outside, executor)
            state = (await agent.run("go")).state
            state = (await agent.resume(state, answers=by_call(state, c2=Allow()))).state
            [kept] = state.answers
            run = agent.resume(state, answers=by_call(state, c1=Allow()))
            done = await run

    assert (done.stop_reason, kept.answer) == ("answer", Allow())
    assert [at.answers for at in seen] == [(), ()]
    assert [at.requests[0].record.count("allow") for at in seen] == [0, 0]


async def test_an_approval_that_waits_is_recorded_for_a_restart() -> None:
    world, recorder, questions = World(), Recorded(), list[str]()

    async def approver(pending: Pending) -> Answer | Pending:
        questions.append(pending.call.id)
        return pending if pending.call.id == "1" else Allow()

    agent = Agent(BEHIND, world.tools, policy=gate, approvals=approver)
    start = RunState(run_id="r").add_prompt("go")
    done = await agent.run_recorded(start, recorder)
    recorder.restart()
    again = await agent.run_recorded(start, recorder)

    assert again == done
    assert [(one.pending_id, one.answer) for one in done.state.answers] == [("r~1~2~1", Allow())]
    assert sorted(questions) == ["1", "2"], "a recorded turn asks nothing"

    recorder.texts.clear()
    recorder.restart()
    answers = {one.id: Allow() for one in done.state.pending}
    last = await agent.run_recorded(done.state, recorder, answers=answers)
    assert (last.stop_reason, world.did) == ("answer", ["put a", "put a"])
    assert sorted(questions) == ["1", "2"]


@WAYS
async def test_an_answer_to_no_open_question_is_refused(wrap: type[Model]) -> None:
    world, ledger = World(), MemoryLedger()
    approvals = Approvals(approver=defer, ledger=ledger)
    async with Executor(world.tools, policy=gate, approvals=approvals) as executor:
        agent = Agent(wrap(by_turn(calls(put("a", "1")), says("done"))), executor)
        state = (await agent.run("go", principal="alice")).state
        [first] = state.pending
        with pytest.raises(LookupError) as unknown:
            await agent.resume(state, answers={"no-such": Allow()})
        again = (await agent.resume(state, answers={first.id: Allow()}, principal="bob")).state
        [second] = again.pending
        with pytest.raises(LookupError) as outdated:
            agent.stream(history=again, answers={first.id: Allow()})
        with pytest.raises(LookupError) as ended:
            await agent.run(history=RunState((Prompt.of("go"),)), answers={first.id: Allow()})

    assert world.did == []
    assert str(unknown.value) == (
        f"There is no open question 'no-such'. Open questions: {first.id!r}."
    )
    assert str(outdated.value) == (
        f"The question {first.id!r} is outdated: it was asked again as {second.id!r}, since the "
        "call changed. Show the new question, and answer that."
    )
    assert str(ended.value) == f"There is no open question {first.id!r}. Open questions: none."
    assert second.question == "Changed since it was approved, so it needs approval again. 1?"


async def test_a_question_about_edited_arguments_says_so() -> None:
    world = World()
    async with Executor(world.tools, policy=gate, approvals=defer) as executor:
        agent = Agent(by_turn(calls(put("a", "1")), says("done")), executor)
        state = (await agent.run("go")).state
        edited = {state.pending[0].id: Edit('{"path":"d"}')}
        state = (await agent.resume(state, answers=edited)).state
        asked = [one.question for one in state.pending]
        done = await agent.resume(state, answers={state.pending[0].id: Allow()})

    assert asked == ["Edited, so it needs approval again. 1?"]
    assert (done.stop_reason, world.did) == ("answer", ["put d"])


async def test_questions_leave_out_calls_that_only_wait() -> None:
    world = World()
    async with Executor(world.tools, policy=gate, approvals=defer) as executor:
        agent = Agent(by_turn(calls(put("a", "1"), look("a", "2")), says("done")), executor)
        result = await agent.run("go")
        done = await agent.resume(
            result.state, answers={one.id: Allow() for one in result.questions}
        )

    assert [one.call.id for one in result.questions] == ["1"]
    assert [one.call.id for one in result.state.pending] == ["1", "2"]
    assert (done.stop_reason, done.questions) == ("answer", ())
