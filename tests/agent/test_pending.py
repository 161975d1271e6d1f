"""Pending calls: a run that waits for approval is a value, and can be resumed in any process."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.stage import World, by_turn, calls, kinds, look, owed, put, says, streamed
from handrail import Allow, Approvals, Ask, CheckedCall, Decision, Deny, Executor
from handrail.agent import Agent, RunResult, RunState, dump_state, load_state
from handrail.approvals import FileLedger, defer
from handrail.messages import Model, Prompt, ToolResults
from handrail.permissions import Answer, Edit

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
    assert kinds(done.state.messages) == ["put a", "seen x", "denied", "put d"]
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
