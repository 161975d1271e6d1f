"""The turns of a run: their ids, which survive a restart, and hooks that end a run after one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agent.stage import World, by_turn, calls, fill, kinds, look, owed, put, says, streamed
from handrail import (
    Allow,
    Approvals,
    Ask,
    Call,
    CheckedCall,
    Context,
    Executor,
    Hook,
    StopRun,
    Tool,
    Toolset,
    tool,
)
from handrail.agent import Agent, RunState, dump_state, load_state
from handrail.approvals import defer
from handrail.messages import Model, ToolResults
from handrail.permissions import MemoryLedger, Pending

WAYS = pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])


class Till:
    """Records the key of each payment. At the nth, the process is stopped."""

    def __init__(self, dies_at: int = 0) -> None:
        self.keys: list[str] = []
        self._dies_at = dies_at

    @property
    def pay(self) -> Tool[Any, Any]:
        @tool(idempotent=True)
        async def pay(context: Context) -> str:
            """Pay; once for each key, as payment services do."""
            self.keys.append(context.idempotency_key)
            if len(self.keys) == self._dies_at:
                raise KeyboardInterrupt
            return "paid"

        return pay


MODEL = by_turn(
    calls(Call("pay", "{}", "1"), Call("pay", "{}", "2")), calls(Call("pay", "{}", "1")), says("ok")
)


@WAYS
async def test_calls_have_the_same_keys_after_a_kill_and_a_resume(wrap: type[Model]) -> None:
    """Each part has its own executor: only the saved state is passed on."""
    till, saved = Till(dies_at=3), list[str]()

    async def save(state: RunState) -> None:
        saved.append(dump_state(state))

    run = Agent(wrap(MODEL), Toolset(till.pay), save=save).run("go")
    with pytest.raises(KeyboardInterrupt):
        await run
    done = await Agent(wrap(MODEL), Toolset(till.pay)).resume(load_state(saved[-1]))

    run_id = done.state.run_id
    assert till.keys == [f"{run_id}/{key}" for key in ("1/1", "1/2", "2/1", "2/1")]
    assert re.fullmatch("[0-9a-f]{32}", run_id)
    assert kinds(done.state.messages) == ["paid"] * 3


async def test_two_runs_have_no_key_in_common() -> None:
    till = Till()
    async with Executor(Toolset(till.pay)) as executor:
        for _ in range(2):
            await Agent(MODEL, executor).run("go")

    assert len(set(till.keys)) == 6


async def test_a_run_can_be_given_an_id() -> None:
    till = Till()
    done = await Agent(MODEL, Toolset(till.pay)).resume(RunState(run_id="order 77"), "go")

    assert (done.state.run_id, till.keys[0]) == ("order 77", "order 77/1/1")


async def test_a_run_with_another_prompt_continues_its_turn_numbers() -> None:
    till = Till()
    agent = Agent(
        by_turn(
            calls(Call("pay", "{}", "1")), says("ok"), calls(Call("pay", "{}", "1")), says("ok")
        ),
        Toolset(till.pay),
    )
    first = await agent.run("go")
    await agent.resume(load_state(dump_state(first.state)), "again")

    assert till.keys == [f"{first.state.run_id}/{key}" for key in ("1/1", "3/1")]


async def test_a_pending_call_names_its_turn() -> None:
    world = World()

    def asks(_: CheckedCall) -> Ask:
        return Ask("May it?")

    async with Executor(world.tools, policy=asks, approvals=defer) as executor:
        done = await Agent(by_turn(calls(put("a", "c"))), executor).run("go")

    [pending] = done.state.pending
    run_id = done.state.run_id
    assert (pending.run_id, pending.turn_id, pending.id) == (run_id, "1", f"{run_id}~1~c~0")


# ---------------------------------------------------------------- a hook ends the run


def stops_at(name: str) -> Hook:
    def before(call: CheckedCall) -> CheckedCall:
        if call.name == name:
            raise StopRun("The budget is spent.")
        return call

    return Hook(before=before)


@WAYS
async def test_a_hook_ends_the_run_after_the_turn(wrap: type[Model]) -> None:
    world = World()
    model = by_turn(calls(look("a", "1"), put("b", "2")), says("never"))
    async with Executor(world.tools, hooks=[stops_at("put")]) as executor:
        done = await Agent(wrap(model), executor).run("go")

    assert (done.stop_reason, done.stop_detail, done.text) == (
        "stopped",
        "The budget is spent.",
        "",
    )
    assert len(done.state.messages) == 3
    assert isinstance(done.state.messages[-1], ToolResults)
    assert kinds(done.state.messages)[1] == "denied"
    assert "put b" not in world.did
    owed(done.state.transcript())


async def test_a_run_that_a_hook_ended_can_be_resumed() -> None:
    world = World()
    model = by_turn(calls(put("b", "2")), says("done"))
    async with Executor(world.tools, hooks=[stops_at("put")]) as executor:
        stopped = await Agent(model, executor).run("go")
    done = await Agent(model, world.tools).resume(load_state(dump_state(stopped.state)))

    assert (stopped.stop_reason, done.stop_reason, done.text, world.did) == (
        "stopped",
        "answer",
        "done",
        [],
    )


async def test_a_hook_ends_a_run_that_was_resumed() -> None:
    """With a call that is repeated because its result was lost."""
    world = World()
    state = RunState(messages=(*(await stage(world)).messages[:2],), turns=1, calls=1)
    async with Executor(world.tools, hooks=[stops_at("fill")]) as executor:
        done = await Agent(by_turn(calls(), says("never")), executor).resume(state)

    assert (done.stop_reason, done.stop_detail, kinds(done.state.messages)) == (
        "stopped",
        "The budget is spent.",
        ["denied"],
    )


async def stage(world: World) -> RunState:
    return (await Agent(by_turn(calls(fill("a", "1")), says("x")), world.tools).run("go")).state


async def test_a_hook_that_ends_the_run_of_a_task_ends_only_that_run() -> None:
    world = World()
    async with Executor(world.tools, hooks=[stops_at("put")]) as executor:
        helper = Agent(by_turn(calls(put("a", "1"))), executor).as_tool("helper", "Help.")
        outer = Agent(
            by_turn(calls(Call("helper", '{"task": "x"}', "1")), says("done")), Toolset(helper)
        )
        done = await outer.run("go")

    assert (done.stop_reason, done.text) == ("answer", "done")
    [result] = done.state.messages[2].results  # type: ignore[union-attr]
    assert result.text == "Not finished: The budget is spent."


async def test_what_was_approved_before_a_kill_can_be_approved_again() -> None:
    """An idempotent call that is approved immediately both times."""
    till, ledger, saved = Till(dies_at=1), MemoryLedger(), list[str]()

    async def save(state: RunState) -> None:
        saved.append(dump_state(state))

    async def yes(_: Pending) -> Allow:
        return Allow()

    def executor() -> Executor:
        approvals = Approvals(approver=yes, ledger=ledger)
        return Executor(Toolset(till.pay), policy=lambda _: Ask("Pay?"), approvals=approvals)

    model = by_turn(calls(Call("pay", "{}", "1")), says("ok"))
    async with executor() as first:
        with pytest.raises(KeyboardInterrupt):
            await Agent(model, first, save=save).run("go")
    async with executor() as second:
        done = await Agent(model, second).resume(load_state(saved[-1]))

    assert kinds(done.state.messages) == ["paid"]
