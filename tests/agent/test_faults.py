"""A fault at every await of a run: the transcript stays valid, and the run can be resumed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agent.faults import Boom, Faulty, at_tick
from agent.stage import World, by_turn, calls, fill, kinds, look, owed, put, says, streamed
from handrail import Allow, Approvals, Ask, CheckedCall, Decision, Executor, Result
from handrail.agent import Agent, Run, RunState, dump_state, load_state
from handrail.approvals import defer
from handrail.messages import Delta, Model, Prompt, Reply, Request, StreamItem, ToolResults
from handrail.permissions import MemoryLedger

FIRST = calls("First", look("x", "1"), put("a", "2"))
SECOND = calls(fill("b", "1"), put("c", "2"), look("y", "3"), put("d", "4"))
MODEL = by_turn(FIRST, SECOND, says("done"), says("done"))
GOOD = ["seen x", "put a", "full b", "put c", "seen y", "put d"]
EFFECTS = {"put a", "put c", "put d"}
WORDS = {
    (one.name, str(one.args)): good
    for one, good in zip((*FIRST.calls, *SECOND.calls), GOOD, strict=True)
}
TICKS = {"cancel at a tick": False, "interrupt at a tick": True}
FAULTS = pytest.mark.parametrize("fault", ["raise", "cancel", "interrupt", *TICKS])
MOST = 400
"""More awaits than any of these runs has."""


def true_of(did: list[str], state: RunState) -> None:
    """Each side effect happened at most once, and every result is correct."""
    owed(state.transcript())
    asked = [
        one for message in state.messages if isinstance(message, Reply) for one in message.calls
    ]
    for call, end in zip(asked, kinds(state.messages), strict=True):
        good = WORDS[call.name, str(call.args)]
        assert end in (good, "unknown", "cancelled", "denied")
        if good in EFFECTS:
            assert did.count(good) <= 1
            assert end != good or did.count(good) == 1
            assert end != "cancelled" or did.count(good) == 0


def test_the_check_of_transcripts_can_fail() -> None:
    """The checks of this module can fail."""
    open_ = RunState(messages=(Prompt.of("go"), FIRST))
    answered = open_._replace(messages=(*open_.messages, ToolResults((Result("1", "seen x"), Result("2", "put a")))))  # fmt: skip

    owed(open_.transcript())
    true_of(["look x", "put a"], answered)
    for did, state in (([], open_), ([], answered), (["put a", "put a"], answered)):
        with pytest.raises((AssertionError, ValueError)):
            true_of(list(did), state)
        with pytest.raises(AssertionError):
            owed(state.messages[:2])


class Trial:
    """One run with one fault, and the state after it."""

    def __init__(self, model: Model, *, saves: bool) -> None:
        self.world = World()
        self.saved: list[str] = []
        self.agent = Agent(model, self.world.tools, save=self._save if saves else None)
        self.run: Run[Any] = self.agent.run("go")

    async def _save(self, state: RunState) -> None:
        owed(state.transcript())
        await anyio.lowlevel.checkpoint()
        self.saved.append(dump_state(state))

    async def faulty(self, fault: str, at: int) -> bool:
        """Run with the fault at the nth wait. Return whether there was an nth wait."""
        if fault in TICKS:
            return await at_tick(self.run, at, self.run.interrupt if TICKS[fault] else None)
        with anyio.CancelScope() as scope:
            first = {"raise": None, "cancel": scope.cancel, "interrupt": self.run.interrupt}[fault]
            waiting = Faulty(self.run, at, first=first)
            try:
                await waiting
            except* Boom:  # in a separate group if it was raised between two of its tasks
                assert fault == "raise"
        return waiting.waits >= at


@pytest.mark.parametrize("saves", [False, True], ids=["unsaved", "saved"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@FAULTS
async def test_at_every_await(fault: str, *, stream: bool, saves: bool) -> None:
    model = streamed(MODEL) if stream else MODEL
    for at in range(1, MOST):
        trial = Trial(model, saves=saves)
        met = await trial.faulty(fault, at)
        left, before = trial.run.state, list(trial.world.did)
        owed(left.transcript())

        done = await trial.agent.resume(load_state(dump_state(left)))

        assert (done.stop_reason, done.text) == ("answer", "done")
        true_of(trial.world.did, done.state)
        if saves and trial.saved:
            trial.world.did[:] = before
            done = await trial.agent.resume(load_state(trial.saved[-1]))
            assert (done.stop_reason, done.text) == ("answer", "done")
            owed(done.state.transcript())
        if not met:
            break
    assert 4 < at < MOST - 1
    assert kinds(done.state.messages) == GOOD  # without a fault, nothing is lost


def gate(call: CheckedCall) -> Decision:
    return Ask(f"{call.id}?") if call.name == "put" else Allow()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@FAULTS
async def test_at_every_await_of_a_resumed_run(fault: str, *, stream: bool) -> None:
    model = streamed(MODEL) if stream else MODEL
    for at in range(1, MOST):
        trial = Trial(model, saves=False)
        world, ledger = trial.world, MemoryLedger()
        async with Executor(
            world.tools, policy=gate, approvals=Approvals(approver=defer, ledger=ledger)
        ) as executor:
            agent = Agent(model, executor)
            waiting = (await agent.run("go")).state
            answers = {one.id: Allow() for one in waiting.pending}
            trial.run = run = agent.resume(waiting, answers=answers)
            met = await trial.faulty(fault, at)
            owed(run.state.transcript())
            answers = {one.id: Allow() for one in run.state.pending}
            done = await agent.resume(load_state(dump_state(run.state)), answers=answers)
            while done.stop_reason == "pending":
                answers = {one.id: Allow() for one in done.state.pending}
                done = await agent.resume(load_state(dump_state(done.state)), answers=answers)

        assert (done.stop_reason, done.text) == ("answer", "done")
        true_of(world.did, done.state)
        if not met:
            break
    assert 3 < at < MOST - 1
    assert kinds(done.state.messages) == GOOD


class Elsewhere:
    """Code of the application: a model, save or on_event. One of them fails at its nth use."""

    def __init__(self, where: str, at: int) -> None:
        self._where = where
        self.left = at

    def at(self, place: str) -> None:
        self.left -= place == self._where
        if place == self._where and self.left == 0:
            raise Boom

    async def whole(self, request: Request) -> Any:
        self.at("model")
        return await MODEL(request)

    async def pieces(self, request: Request) -> AsyncIterator[StreamItem]:
        async with aclosing(streamed(MODEL)(request)) as pieces:
            async for piece in pieces:
                self.at("model")
                yield piece

    async def save(self, _: RunState) -> None:
        self.at("save")

    def watch(self, _: object) -> None:
        self.at("watch")


@pytest.mark.parametrize("where", ["model", "save", "watch"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_at_every_use_of_code_from_the_application(where: str, *, stream: bool) -> None:
    for at in range(1, MOST):
        world, other = World(), Elsewhere(where, at)
        agent = Agent(other.pieces if stream else other.whole, world.tools, save=other.save)
        run = agent.run("go", on_event=other.watch)
        try:
            await run
        except Boom:
            owed(run.state.transcript())
        else:
            break
        done = await agent.resume(load_state(dump_state(run.state)))
        assert (done.stop_reason, done.text) == ("answer", "done")
        true_of(world.did, done.state)
    assert 3 < at < MOST - 1
    assert other.left > 0


async def test_an_exception_in_on_event_ends_the_run() -> None:
    def watch(happening: object) -> None:
        if isinstance(happening, Delta):
            raise Boom

    world = World()
    run = Agent(streamed(MODEL), world.tools).run("go", on_event=watch)
    with pytest.raises(Boom):
        await run

    assert (len(run.state.messages), world.did) == (1, [])
