"""A cancelled run says so everywhere at once, also if the process that cancels it dies."""

from __future__ import annotations

import anyio
import pytest

from handrail import WRITE, tool
from handrail.agent import Agent
from handrail.runs._store import points
from handrail.runs.durable import DurableRuns
from runs.durable.shop import call_once


class Died(Exception):
    """The process has died."""


def die(wanted: str) -> None:
    def at(name: str) -> None:
        if name == wanted:
            raise Died

    points.on_point = at


async def test_a_run_whose_canceller_died_is_cancelled_and_makes_no_call(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(points, "on_point", points.on_point)  # restored at the end
    paid: list[int] = []

    @tool(effect=WRITE)
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    async with DurableRuns(database, {"shop": Agent(call_once("pay"), [pay])}, poll=0.05) as runs:
        await runs.start("shop", "Pay.", run_id="r")
        await runs.start("shop", "Pay.", run_id="other")
        die("run.cancelled")
        with pytest.raises(Died):
            await runs.cancel("r")
        points.on_point = lambda _: None
        head = runs.store.head("r")
        with anyio.fail_after(15):
            seen = [update.fields async for update in runs.watch("r")]
        async with runs.work(interval=60):  # it does not look for cancelled runs
            await runs.wait("other")
            await runs.start("shop", "Pay.", run_id="last")
            await runs.wait("last")
        again = await runs.cancel("r")

        assert head is not None
        assert (head.status, (await runs.get("r")).status, again) == ("cancelled",) * 2 + (False,)
        assert seen[-1]["status"] == "cancelled"
        assert len(paid) == 2


async def test_a_run_that_has_ended_is_not_cancelled(database: str) -> None:
    @tool(effect=WRITE)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    agent = Agent(call_once("pay"), [pay])
    async with DurableRuns(database, {"shop": agent}, poll=0.05) as runs, runs.work():
        run = await runs.start("shop", "Pay.")
        await runs.wait(run)
        lines = list(runs.store.read(run))

        assert not await runs.cancel(run)
        assert list(runs.store.read(run)) == lines


async def test_two_who_cancel_a_run_write_one_line(database: str) -> None:
    agent = Agent(call_once("pay"), [])
    async with DurableRuns(database, {"shop": agent}) as runs:
        run = await runs.start("shop", "Pay.")
        said: list[bool] = []

        async def cancel() -> None:
            said.append(await runs.cancel(run))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(cancel)
        lines = [line.content for line in runs.store.read(run, kinds=["status"])]

        assert sorted(said) == [False] * 4 + [True]
        assert [line["status"] for line in lines] == ["queued", "cancelled"]
