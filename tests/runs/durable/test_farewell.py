"""A worker that stops leaves nothing: no row that says it died, and no run that waits for it."""

from __future__ import annotations

import logging

import anyio
import pytest

from handrail import Text
from handrail.agent import Agent
from handrail.messages import Reply, Request
from handrail.runs.durable import DurableRuns
from runs.durable.fleet import Tables


class Desk:
    """An agent that replies when it may."""

    def __init__(self) -> None:
        self.asked, self.may_reply = anyio.Event(), anyio.Event()

    def make_runs(self, url: str) -> DurableRuns:
        async def model(_request: Request) -> Reply:
            self.asked.set()
            await self.may_reply.wait()
            return Reply((Text("done"),))

        return DurableRuns(url, {"a": Agent(model)}, poll=0.05)


async def test_a_worker_that_stopped_is_not_taken_for_dead(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "handrail")
    desk, tables = Desk(), Tables(database)
    desk.may_reply.set()
    runs = desk.make_runs(database)
    workers = "SELECT id FROM handrail_worker"
    async with runs.work(interval=0.1) as worker:
        await runs.wait(await runs.start("a", "Go."), seconds=60)
        during = tables.read(workers)
    after = tables.read(workers)
    async with runs.work(interval=0.1):
        await runs.wait(await runs.start("a", "Go."), seconds=60)

    assert (during, after) == ([(worker.id,)], [])
    assert "died" not in caplog.text


async def test_what_a_stopped_worker_could_not_end_waits_for_the_next(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "handrail")
    desk = Desk()
    async with desk.make_runs(database) as runs:
        run = await runs.start("a", "Go.", run_id="r")
        with anyio.fail_after(60):
            async with runs.work(interval=0.1, drain_seconds=0):
                await desk.asked.wait()
            left = await runs._engine.find("r:0")  # noqa: SLF001
            desk.may_reply.set()
            async with runs.work(interval=60):  # it looks for dead workers once
                ended = await runs.wait(run, seconds=60)

    assert (left, ended.text) == ("queued", "done")
    assert "died" not in caplog.text
