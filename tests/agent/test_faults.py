"""A fault at every await of a run: what is left is a good transcript, and the run goes on from it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agent.faults import Boom, Faulty
from agent.stage import World, by_turn, calls, fill, kinds, look, owed, put, says, streamed
from handrail import Allow, Ask, Call, Decision, Executor, Result, Spec
from handrail.agent import Agent, Run, State, dump, load
from handrail.approvals import defer
from handrail.judgement import MemoryLedger
from handrail.messages import Delta, Model, Piece, Prompt, Reply, Request, Results

FIRST = calls("First", look("x", "1"), put("a", "2"))
SECOND = calls(fill("b", "1"), put("c", "2"), look("y", "3"), put("d", "4"))
MODEL = by_turn(FIRST, SECOND, says("done"), says("done"))
GOOD = ["seen x", "put a", "full b", "put c", "seen y", "put d"]
EFFECTS = {"put a", "put c", "put d"}
WORDS = {
    (one.name, str(one.args)): good
    for one, good in zip((*FIRST.calls, *SECOND.calls), GOOD, strict=True)
}
MOST = 400
"""More waits than any of these runs has."""


def true_of(did: list[str], state: State) -> None:
    """Each effect happened at most once, and every result is true of it."""
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


def test_what_is_owed_can_be_missed() -> None:
    """The checks of this page find what they look for."""
    open_ = State(messages=(Prompt.of("go"), FIRST))
    told = open_._replace(messages=(*open_.messages, Results((Result("1", "seen x"), Result("2", "put a")))))  # fmt: skip

    owed(open_.transcript())
    true_of(["look x", "put a"], told)
    for did, state in (([], open_), ([], told), (["put a", "put a"], told)):
        with pytest.raises((AssertionError, ValueError)):
            true_of(list(did), state)
        with pytest.raises(AssertionError):
            owed(state.messages[:2])


class Trial:
    """One run that meets one fault, and the state that it leaves."""

    def __init__(self, model: Model, *, saves: bool) -> None:
        self.world = World()
        self.saved: list[str] = []
        self.agent = Agent(model, self.world.tools, save=self._save if saves else None)
        self.run: Run[Any] = self.agent.run("go")

    async def _save(self, state: State) -> None:
        owed(state.transcript())
        await anyio.lowlevel.checkpoint()
        self.saved.append(dump(state))

    async def faulty(self, fault: str, at: int) -> bool:
        """Run with the fault at the nth wait; whether there was an nth wait."""
        with anyio.CancelScope() as scope:
            first = {"raise": None, "cancel": scope.cancel, "interrupt": self.run.interrupt}[fault]
            waiting = Faulty(self.run, at, first=first)
            try:
                await waiting
            except* Boom:  # in a group of its own, where it was thrown between two of its tasks
                assert fault == "raise"
        return waiting.waits >= at


@pytest.mark.parametrize("saves", [False, True], ids=["unsaved", "saved"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("fault", ["raise", "cancel", "interrupt"])
async def test_at_every_await(fault: str, *, stream: bool, saves: bool) -> None:
    model = streamed(MODEL) if stream else MODEL
    for at in range(1, MOST):
        trial = Trial(model, saves=saves)
        met = await trial.faulty(fault, at)
        left, before = trial.run.state, list(trial.world.did)
        owed(left.transcript())

        done = await trial.agent.resume(load(dump(left)))

        assert (done.stop, done.text) == ("answer", "done")
        true_of(trial.world.did, done.state)
        if saves and trial.saved:
            trial.world.did[:] = before
            done = await trial.agent.resume(load(trial.saved[-1]))
            assert (done.stop, done.text) == ("answer", "done")
            owed(done.state.transcript())
        if not met:
            break
    assert 4 < at < MOST - 1
    assert kinds(done.state.messages) == GOOD  # without a fault, nothing is lost


def gate(call: Call, spec: Spec, _: Any) -> Decision:
    return Ask(f"{call.id}?") if spec.name == "put" else Allow()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("fault", ["raise", "cancel", "interrupt"])
async def test_at_every_await_of_a_run_that_was_answered(fault: str, *, stream: bool) -> None:
    model = streamed(MODEL) if stream else MODEL
    for at in range(1, MOST):
        world, ledger = World(), MemoryLedger()
        async with Executor(world.tools, policy=gate, approver=defer, ledger=ledger) as executor:
            agent = Agent(model, executor)
            waiting = (await agent.run("go")).state
            answers = {one.id: Allow() for one in waiting.pending}
            run = agent.resume(waiting, answers=answers)
            with anyio.CancelScope() as scope:
                first = {"raise": None, "cancel": scope.cancel, "interrupt": run.interrupt}[fault]
                faulty = Faulty(run, at, first=first)
                try:
                    await faulty
                except* Boom:
                    assert fault == "raise"
            owed(run.state.transcript())
            done = await agent.resume(load(dump(run.state)), answers=answers)
            while done.stop == "pending":
                answers = {one.id: Allow() for one in done.state.pending}
                done = await agent.resume(load(dump(done.state)), answers=answers)

        assert (done.stop, done.text) == ("answer", "done")
        true_of(world.did, done.state)
        if faulty.waits < at:
            break
    assert 4 < at < MOST - 1
    assert kinds(done.state.messages) == GOOD


class Elsewhere:
    """Code of somebody else: a model, a save, a watcher; one of them breaks at its nth use."""

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

    async def pieces(self, request: Request) -> AsyncIterator[Piece]:
        async with aclosing(streamed(MODEL)(request)) as pieces:
            async for piece in pieces:
                self.at("model")
                yield piece

    async def save(self, _: State) -> None:
        self.at("save")

    def watch(self, _: object) -> None:
        self.at("watch")


@pytest.mark.parametrize("where", ["model", "save", "watch"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_at_every_place_where_code_of_somebody_else_runs(where: str, *, stream: bool) -> None:
    for at in range(1, MOST):
        world, other = World(), Elsewhere(where, at)
        agent = Agent(other.pieces if stream else other.whole, world.tools, save=other.save)
        run = agent.run("go", watch=other.watch)
        try:
            await run
        except Boom:
            owed(run.state.transcript())
        else:
            break
        done = await agent.resume(load(dump(run.state)))
        assert (done.stop, done.text) == ("answer", "done")
        true_of(world.did, done.state)
    assert 3 < at < MOST - 1
    assert other.left > 0


async def test_a_watched_word_that_fails_ends_the_run_with_its_exception() -> None:
    def watch(happening: object) -> None:
        if isinstance(happening, Delta):
            raise Boom

    world = World()
    run = Agent(streamed(MODEL), world.tools).run("go", watch=watch)
    with pytest.raises(Boom):
        await run

    assert (len(run.state.messages), world.did) == (1, [])
