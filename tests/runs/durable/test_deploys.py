"""A deploy brings another agent: workers that do not have it leave its runs to those that do."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from handrail import Text
from handrail.agent import Agent
from handrail.messages import Reply, Request
from handrail.runs.durable import DurableRuns
from runs.durable.fleet import Tables
from runs.durable.poison import count_unknown
from runs.durable.shop import Ledger, call_once, make_agent
from runs.durable.workers import Forks

SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
STARTS = 200 if SOAK else 20


@contextmanager
def serving(forks: Forks, ledger: Path, url: str, *agents: str, **others: Any) -> Generator[int]:
    options: dict[str, Any] = {"poll": 0.05, "interval": 0.1, "pause": 0, **others}
    pid = forks.spawn(ledger, url, agents=agents, **options)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        forks.reap(pid)


def count_taken(url: str, pid: int) -> Counter[str]:
    """How many segments a worker has taken, by queue."""
    rows = Tables(url).read(
        "SELECT queue_name FROM dbos.workflow_status "  # noqa: S608  a number
        f"WHERE executor_id LIKE '%-{pid}-%'"
    )
    return Counter(str(row[0]) for row in rows)


@pytest.mark.timeout(600)
async def test_an_old_worker_leaves_the_runs_of_a_new_agent_to_new_workers(
    forks: Forks, tmp_path: Path, database: str
) -> None:
    ledger = tmp_path / "ledger"
    agents = {name: make_agent(Ledger(ledger), call_once(name)) for name in ("pay", "wire")}
    async with DurableRuns(database, agents) as client:
        with serving(forks, ledger, database, "pay") as old:
            await client.wait(await client.start("pay", "Go."), seconds=60)  # it takes its own
            early = await client.start("wire", "Go.")
            await client.wait(await client.start("pay", "Go."), seconds=60)
            before = (await client.get(early)).status
            with serving(forks, ledger, database, "pay", "wire") as new:
                ids = [early, *[await client.start("wire", "Go.") for _ in range(STARTS - 1)]]
                with anyio.fail_after(300):
                    ended = Counter([(await client.wait(one, seconds=300)).status for one in ids])
                taken = [await to_thread.run_sync(count_taken, database, pid) for pid in (old, new)]

    assert (before, ended) == ("queued", {"done": STARTS})
    assert taken == [{"handrail agent pay": 2}, {"handrail agent wire": STARTS}]


async def test_an_old_worker_puts_back_a_queued_call_of_a_new_agent(
    forks: Forks, tmp_path: Path, sqlite: str
) -> None:
    ledger, tables = tmp_path / "ledger", Tables(sqlite)
    agents = {"wire": make_agent(Ledger(ledger), call_once("wire"))}
    calls = "SELECT executor_id FROM workflow_status WHERE name = 'handrail.call' AND status = "
    async with DurableRuns(sqlite, agents) as client:
        ids: list[str] = []
        queued: dict[str, Any] = {"queued": ["wire"]}
        with serving(forks, ledger, sqlite, "wire", **queued):
            with serving(forks, ledger, sqlite, "pay", **queued) as old, anyio.fail_after(60):
                while not (delayed := tables.read(f"{calls}'DELAYED'")):  # any worker takes it
                    ids.append(await client.start("wire", "Go."))
                    await anyio.sleep(0.1)
            ended = [await client.wait(run, seconds=60) for run in ids]

    assert f"-{old}-" in delayed[0][0]
    assert {(one.status, one.text, count_unknown(one)) for one in ended} == {
        ("done", "All done.", 0)
    }
    assert set(Ledger(ledger).count().values()) == {1}


async def test_an_agent_with_many_runs_leaves_slots_to_the_others(sqlite: str) -> None:
    begun: list[str] = []
    go = anyio.Event()

    def make(name: str) -> Agent[str]:
        async def model(_request: Request) -> Reply:
            begun.append(name)
            await go.wait()
            return Reply((Text("done"),))

        return Agent(model)

    runs = DurableRuns(sqlite, {name: make(name) for name in "abc"}, poll=0.05)
    async with runs:
        ids = [await runs.start(name, "Go.") for name in "aaaab"]
        async with runs.work(slots=3, interval=60):
            with anyio.fail_after(60):
                while len(begun) < 3:  # noqa: ASYNC110  the engine begins them
                    await anyio.sleep(0.02)
                first = sorted(begun)
                go.set()
                ended = [(await runs.wait(one)).text for one in ids]

    assert (first, ended) == (["a", "a", "b"], ["done"] * 5)
