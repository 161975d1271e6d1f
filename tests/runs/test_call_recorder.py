"""`RunRecord.recorder`: an agent that saves its states continues after a crash as a worker does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.stage import Recorded, kinds
from handrail import Call, Context, Effect, Executor, Hook, Retry, Toolset, Transient, tool
from handrail.agent import Agent, Limits, Run, RunState, task_tool
from handrail.messages import Reply, ToolResults
from handrail.runs import RunRecord, RunStore, open_runs
from handrail.runs._store.port import DatabaseError
from replying import WAYS, Way, replying

CALLS = [Call("pay", {"number": 1}, "c1"), Call("pay", {"number": 2}, "c2")]


class Crash(Exception):
    """The process ends here, as far as the run can know."""


class Shop:
    """A tool that must not be repeated, and how often it took effect."""

    run: Run[Any]

    def __init__(self, stops_at: int = 0) -> None:
        self.paid = list[int]()
        self.stops_at = stops_at
        self.tools = Toolset(tool(self.pay))

    async def pay(self, number: int) -> str:
        """Pay."""
        self.paid.append(number)
        if number == self.stops_at:
            self.stops_at = 0
            self.run.interrupt()
            await anyio.sleep_forever()
        return f"paid {number}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with open_runs(tmp_path / "runs.db") as store:
        yield store


def begun(store: RunStore) -> RunRecord:
    record = RunRecord(store, "r")
    record.keep(RunState(run_id="r").add_prompt("Go"))
    return record


async def crash(record: RunRecord, way: Way, shop: Shop) -> None:
    """Run until the results of the first turn are to be saved, and no further."""

    async def save(state: RunState) -> None:
        if isinstance(state.messages[-1], ToolResults):
            raise Crash
        await record.save(state)

    agent = Agent(replying(way, CALLS), shop.tools, save=save)
    shop.run = agent.run_recorded(record.state(), record.recorder)
    with pytest.raises(Crash):
        await shop.run


async def finish(store: RunStore, way: Way, shop: Shop) -> list[str]:
    """Continue the run in another process, and return the outcome of each call."""
    record = RunRecord(store, "r")
    agent = Agent(replying(way, "Done."), shop.tools, save=record.save)
    done = await agent.run_recorded(record.state(), record.recorder)
    assert (done.stop_reason, done.text) == ("answer", "Done.")
    return kinds(done.state.messages)


@pytest.mark.parametrize("way", WAYS)
async def test_calls_that_have_ended_keep_their_results(store: RunStore, way: Way) -> None:
    shop = Shop()
    await crash(begun(store), way, shop)

    assert await finish(store, way, shop) == ["paid 1", "paid 2"]
    assert shop.paid == [1, 2]


async def test_without_a_recorder_their_results_are_lost(store: RunStore) -> None:
    shop, record = Shop(), begun(store)
    await crash(record, "whole", shop)
    agent = Agent(replying("whole", "Done."), shop.tools)

    done = await agent.resume(record.state())

    assert (kinds(done.state.messages), shop.paid) == (["unknown", "unknown"], [1, 2])


async def test_a_record_outlives_an_attempt_but_no_process_unless_the_run_is_recorded() -> None:
    seen = list[tuple[str, bool]]()

    @tool(effect=Effect.READ, retry=Retry(attempts=2, base=0))
    async def build(context: Context) -> str:
        """Build."""
        seen.append((context.record, await context.store_record("job 1")))
        if len(seen) == 1:
            raise Transient("Again.")
        return "done"

    async with Executor(Toolset(build)) as executor:
        assert (await executor.run(Call("build", {}, "c1"))).text == "done"
        assert (await executor.run(Call("build", {}, "c2"))).text == "done"

    assert seen == [("", False), ("job 1", False), ("", False)]
    assert not await Context(call_id="c", idempotency_key="k").store_record("text")


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_that_was_stopped_is_not_repeated(store: RunStore, way: Way) -> None:
    shop = Shop(stops_at=1)
    await crash(begun(store), way, shop)

    assert await finish(store, way, shop) == ["unknown", "paid 2"]
    assert shop.paid == [1, 2]


async def test_a_call_runs_only_if_that_is_recorded(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, record = Shop(), begun(store)

    def refuse(*_: Any) -> int:
        raise DatabaseError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(store.database._driver, "write", refuse)  # noqa: SLF001
        agent = Agent(replying("whole", CALLS, "Done."), shop.tools, save=record.save)
        done = await agent.run_recorded(record.state(), record.recorder)

    assert (kinds(done.state.messages), shop.paid) == (["transient", "transient"], [])


async def test_your_executor_must_record_its_calls(store: RunStore) -> None:
    record, other = begun(store), Hook(after=lambda _call, result: result)
    given = {"limits": Limits(seconds=60)}
    agents = [
        Agent(replying("whole", "Done."), Executor(Toolset(), hooks=hooks), **given)
        for hooks in ([], [record.recorder.hook, other], [other, record.recorder.hook])
    ]

    for agent in agents[:2]:
        with pytest.raises(TypeError, match="This Executor does not record its calls"):
            agent.run_recorded(record.state(), record.recorder)
    done = await agents[2].run_recorded(record.state(), record.recorder)

    assert done.text == "Done."


async def test_calls_of_a_sub_agent_are_part_of_one_that_is_recorded(store: RunStore) -> None:
    shop, record = Shop(), begun(store)
    inner = replying("whole", CALLS, "All paid.")
    async with Executor(shop.tools, hooks=[record.recorder.hook]) as executor:
        task = task_tool(inner, executor, "pay")
        outer = replying("whole", [Call("task", {"task": "Pay."}, "t")], "Done.")
        async with Executor(Toolset(task), hooks=[record.recorder.hook]) as both:
            done = await Agent(outer, both).run_recorded(record.state(), record.recorder)

    assert (kinds(done.state.messages), shop.paid) == (["All paid."], [1, 2])


async def test_a_run_is_recorded_under_its_own_id(store: RunStore) -> None:
    record = begun(store)
    agent = Agent(replying("whole", CALLS), Shop().tools)

    with pytest.raises(ValueError, match="the id 'other' cannot be recorded as 'r'"):
        await agent.run_recorded(RunState(run_id="other").add_prompt("Go"), record.recorder)


async def test_an_engine_does_not_run_calls_of_which_it_has_no_rows() -> None:
    shop = Shop()
    left = RunState(run_id="r").add_prompt("Go")
    left = left._replace(messages=(*left.inbox, Reply(tuple(CALLS), "calls")), inbox=(), turns=1)

    done = await Agent(replying("whole", "Done."), shop.tools).run_recorded(left, Recorded())

    assert (kinds(done.state.messages), shop.paid) == (["unknown", "unknown"], [])
