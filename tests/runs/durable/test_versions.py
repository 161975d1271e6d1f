"""A new version of the agents rolls out: runs of the old one wait for its workers, or are adopted."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from handrail import Allow
from handrail.runs.durable import DurableRuns
from runs.durable.fleet import Tables
from runs.durable.shop import Ledger, call_once, make_agent
from runs.durable.workers import Forks, Verdict, judge


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@asynccontextmanager
async def version_two(url: str, ledger: Ledger) -> AsyncGenerator[DurableRuns]:
    agents = {"shop": make_agent(ledger), "pay": make_agent(ledger, call_once("pay"))}
    runs = DurableRuns(url, agents, version="2", poll=0.05)
    async with runs.work(interval=0.1, drain_seconds=5):
        yield runs


async def until(done: Callable[[], Awaitable[object]]) -> None:
    with anyio.fail_after(60):
        while not await done():  # noqa: ASYNC110  what it waits for is in another process
            await anyio.sleep(0.02)


async def is_done(runs: DurableRuns, run: str) -> bool:
    return (await runs.get(run)).status == "done"


async def test_without_workers_of_their_version_runs_wait_until_another_adopts_them(
    forks: Forks, database: str, ledger: Ledger
) -> None:
    where = (ledger.path, database)
    killed = await to_thread.run_sync(lambda: forks.run(*where, "r", crash="run.asked:1"))
    async with version_two(database, ledger) as runs:
        [pending] = await runs.inbox()
        await runs.answer(pending.id, Allow())
        await runs.start("pay", "Pay.", run_id="new")
        await until(lambda: is_done(runs, "new"))  # it takes its own runs
        before = {run.id: run.status for run in await runs.list()}
        moved = await runs.adopt("1")
        await until(lambda: is_done(runs, "r"))
        again = await runs.adopt("1")

    assert (killed, before) == (True, {"r": "waiting", "new": "done"})
    assert (moved, again) == (2, 0)  # the segment that died with its worker, and the parked one
    assert await judge(*where, "r") == Verdict()
    assert set(ledger.count().values()) == {1}


async def test_what_a_living_worker_of_the_old_version_runs_stays_with_it(
    forks: Forks, database: str, ledger: Ledger
) -> None:
    tables = Tables(database)
    pid = await to_thread.run_sync(lambda: forks.spawn(ledger.path, database, pause=60))

    async def has_begun() -> bool:
        return tables.read("SELECT COUNT(*) FROM handrail_call") == [(1,)]

    try:
        async with DurableRuns(database, {"pay": make_agent(ledger)}) as old:
            await old.start("pay", "Pay.", run_id="r")
        await until(has_begun)
        worker = tables.worker(pid) or ""
        async with version_two(database, ledger) as runs:
            living = await runs.adopt("1"), tables.held(worker)
            os.kill(pid, signal.SIGKILL)
            await to_thread.run_sync(forks.reap, pid)
            dead = await runs.adopt("1")
            await until(lambda: is_done(runs, "r"))
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    assert (living, dead) == ((0, 1), 1)
    assert await judge(ledger.path, database, "r") == Verdict(unknown=1)
    assert ledger.count() == {}
