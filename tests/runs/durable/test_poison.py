"""A run whose tool ends its process: it runs alone, then it is given up, and the others are well."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from handrail.runs.durable import DurableRun, DurableRuns
from runs.durable.poison import Restarts, count_unknown, make_poison_agents
from runs.durable.shop import Ledger
from runs.durable.slow import find_busy, make_slow_agents
from runs.durable.workers import Forks

SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
GOOD, ROUNDS = (10, 5) if SOAK else (4, 1)
DIED = "Its process died {} times. It continues when someone resumes it."


async def until(done: Callable[[], Awaitable[object]]) -> None:
    with anyio.fail_after(120):
        while not await done():  # noqa: ASYNC110  what it waits for is in another process
            await anyio.sleep(0.02)


async def wait_all(runs: DurableRuns, ids: list[str]) -> list[DurableRun]:
    return [await runs.wait(one, seconds=300) for one in ids]


class Ward:
    """A bad run, and good ones: from before the first death, and from after the second."""

    def __init__(self, forks: Forks, folder: Path, url: str, **options: Any) -> None:
        self.ledger = Ledger(folder / "ledger")
        self._agents = make_poison_agents(self.ledger)
        self._url = url
        self.restarts = Restarts(forks, self.ledger.path, url, deaths=5, **options)
        self.later: list[DurableRun] = []

    async def fill(self) -> DurableRun:
        """Let all runs end, and return the bad one."""
        async with DurableRuns(self._url, self._agents) as runs, self.restarts.keep(2):
            for _ in range(ROUNDS):
                had = len(self.restarts.codes)
                early = [await runs.start("five", "Go.") for _ in range(GOOD)]
                bad = await runs.start("poison", "Go.")
                await until(lambda had=had: self._has_ended(had + 2))  # type: ignore[misc]
                late = [await runs.start("five", "Go.") for _ in range(GOOD)]
                ended = await runs.wait(bad, seconds=300)
                self.later += await wait_all(runs, late)
                assert {run.status for run in await wait_all(runs, early)} == {"done"}
        return ended

    async def _has_ended(self, count: int) -> bool:
        return len(self.restarts.codes) >= count

    async def cure(self, run: str) -> DurableRun:
        """Let the bad run continue with a tool that works."""
        self.ledger.path.with_name("cured").touch()
        async with DurableRuns(self._url, self._agents) as runs:
            await runs.resume(run)
            async with runs.work(interval=0.1):
                return await runs.wait(run, seconds=60)


@pytest.mark.timeout(1800)
async def test_a_run_that_ends_its_process_harms_no_other_run_for_long(
    forks: Forks, tmp_path: Path, database: str
) -> None:
    ward = Ward(forks, tmp_path, database)
    bad = await ward.fill()
    cured = await ward.cure(bad.id)

    unknown = sum(map(count_unknown, ward.later))
    print(f"\n{len(ward.restarts.codes)} crashes, {len(ward.later)} later runs, {unknown} unknown")  # noqa: T201
    assert (bad.status, bad.why) == ("failed", DIED.format(5))
    assert ward.restarts.codes == [139] * 5 * ROUNDS
    assert [(run.status, count_unknown(run)) for run in ward.later] == [("done", 0)] * GOOD * ROUNDS
    assert (cured.status, cured.text) == ("done", "All done.")
    assert ward.ledger.count()[f"pay {bad.id}/1/pay-0"] == 1


async def test_a_bad_run_that_does_not_run_alone_harms_others(
    forks: Forks, tmp_path: Path, sqlite: str
) -> None:
    ward = Ward(forks, tmp_path, sqlite, control="no suspects", pause=0.5)
    bad = await ward.fill()

    assert bad.status == "failed"
    assert sum(map(count_unknown, ward.later)) > 0


async def test_a_call_on_a_queue_that_ends_its_process_is_unknown(
    forks: Forks, tmp_path: Path, sqlite: str
) -> None:
    ward = Ward(forks, tmp_path, sqlite, queued=["render"])
    bad = await ward.fill()

    assert (bad.status, count_unknown(bad)) == ("done", 1)
    assert ward.restarts.codes == [139] * 2 * ROUNDS
    assert sum(map(count_unknown, ward.later)) == 0


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, "done"), (signal.SIGKILL, "failed")]
)
async def test_a_worker_that_is_told_to_stop_has_not_died(  # noqa: PLR0917
    forks: Forks, tmp_path: Path, sqlite: str, number: int, status: str
) -> None:
    ledger = tmp_path / "ledger"
    options: dict[str, Any] = {"poll": 0.05, "interval": 0.1, "pause": 0, "drain": 0.0}
    codes = []
    async with DurableRuns(sqlite, make_slow_agents(Ledger(ledger)), max_deaths=2) as runs:
        run = await runs.start("pay slowly", "Pay.", run_id="r")
        for _ in range(2):
            pid = forks.spawn(ledger, sqlite, grace=0.05, deaths=2, **options)
            await until(lambda pid=pid: is_busy(ledger, pid))  # type: ignore[misc]
            os.kill(pid, number)
            codes.append(os.waitstatus_to_exitcode(await to_thread.run_sync(forks.reap, pid)))
        ledger.with_name("open").touch()
        pid = forks.spawn(ledger, sqlite, grace=0.05, deaths=2, **options)
        ended = await runs.wait(run, seconds=60)
        os.kill(pid, signal.SIGKILL)
        await to_thread.run_sync(forks.reap, pid)

    assert (ended.status, codes) == (status, [75 if status == "done" else -9] * 2)
    assert ended.why == ("" if status == "done" else DIED.format(2))


async def is_busy(ledger: Path, pid: int) -> bool:
    return find_busy(ledger, [pid]) == pid
