"""Several workers on one database are killed, stopped and woken; the database restarts."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from handrail.runs.migrating import migrate_tables
from runs.durable.fleet import Fleet, Summary, make_client
from runs.durable.workers import Forks
from services import Postgres, find_binaries

SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
KILLS, STOPS, RESTARTS = (400, 40, 15) if SOAK else (3, 2, 1)
"""On each database."""
FAILOVER_SECONDS = 3.0


def check(summary: Summary) -> None:
    print(f"\n{summary}")  # noqa: T201  the summary of a long run
    slow = sorted(summary.failovers)[: int(len(summary.failovers) * 0.99)]
    assert (summary.doubled, summary.wrong) == ((), ())
    assert not SOAK or max(slow, default=0.0) <= FAILOVER_SECONDS


@pytest.mark.timeout(3600)
async def test_killed_and_stopped_workers_lose_and_double_nothing(
    forks: Forks, tmp_path: Path, database: str
) -> None:
    ledger = tmp_path / "ledger"
    fleet = Fleet(forks, ledger, database, name="zombie", pause=0.05)
    try:
        for _ in range(3):
            fleet.add_worker()
        async with make_client(database, ledger) as runs:
            while fleet.kills < KILLS or fleet.stops < STOPS:
                await fleet.keep_busy(runs, 4)
                if fleet.stops * KILLS <= fleet.kills * STOPS and fleet.stops < STOPS:
                    await fleet.stop_one(runs)
                else:
                    await fleet.kill_one(runs)
                if not fleet.kills % 50:
                    print(f"\n{fleet.summary}", flush=True)  # noqa: T201  a long run
            await fleet.finish(runs)
    finally:
        fleet.end()

    check(fleet.summary)
    assert (fleet.kills, fleet.stops) == (KILLS, STOPS)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_a_worker_that_stops_inside_a_transaction_does_not_stall_the_others(
    forks: Forks, tmp_path: Path, database: str
) -> None:
    ledger = tmp_path / "ledger"
    fleet = Fleet(forks, ledger, database, name="frozen", pause=0.1, idle=1.0)
    try:
        for _ in range(2):
            fleet.add_worker()
        async with make_client(database, ledger) as runs:
            await fleet.freeze_one(runs)
            await fleet.finish(runs)
    finally:
        fleet.end()

    check(fleet.summary)
    assert fleet.stops == 1


@pytest.mark.timeout(3600)
async def test_a_restart_of_the_database_loses_and_doubles_nothing(
    forks: Forks, tmp_path: Path
) -> None:
    if find_binaries() is None:
        pytest.skip("needs PostgreSQL: install `postgresql`")
    server = await to_thread.run_sync(Postgres.start)
    ledger = tmp_path / "ledger"
    fleet = Fleet(forks, ledger, server.url, name="restart", pause=0.05)
    try:
        await to_thread.run_sync(migrate_tables, server.url)
        for _ in range(2):
            fleet.add_worker()
        async with make_client(server.url, ledger) as runs:
            await fleet.begin(runs)
            while fleet.restarts < RESTARTS:
                await fleet.keep_busy(runs, 3)
                await anyio.sleep(0.3)  # at any point of the runs
                await to_thread.run_sync(server.halt)
                await anyio.sleep(0.2)
                await to_thread.run_sync(server.launch)
                fleet.restarts += 1
                await fleet.keep_busy(runs, 3)
            await fleet.finish(runs)
    finally:
        fleet.end()
        await to_thread.run_sync(server.stop)

    check(fleet.summary)
    assert fleet.restarts == RESTARTS
