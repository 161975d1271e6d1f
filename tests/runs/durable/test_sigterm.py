"""Workers get SIGTERM during payments that outlast their drain; a ledger outside is the judge."""

from __future__ import annotations

import logging
import os
import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from handrail import Call, Executor, Text, tool
from handrail.agent import Agent
from handrail.messages import Reply, Request
from handrail.runs._serving import ending, worker
from handrail.runs._store.database import Database
from handrail.runs._store.liveness import make_lock
from handrail.runs.durable import DurableRuns
from runs.durable.fleet import Tables
from runs.durable.shop import Ledger, call_once
from runs.durable.slow import SLOW, find_busy, judge_payments, make_slow_agents
from runs.durable.workers import Forks

SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
SIGNALS, PER_RUN, PAUSE = (200, 2, 0.2) if SOAK else (2, 1, 0)
"""On each database. In the soak, a payment of three is made before the signal or just after it."""


class Deploys:
    """Workers that pay slowly. Each gets SIGTERM while it does, and the next one continues."""

    def __init__(self, forks: Forks, ledger: Path, url: str, **options: Any) -> None:
        self._forks = forks
        self._ledger = ledger
        self._open = ledger.with_name("open")
        self._url = url
        times = {"poll": 0.05, "interval": 0.1, "pause": 0, "drain": 0.0, "grace": 0.05}
        self._options = {**times, **options}
        self._pids: list[int] = []
        self.codes: list[int] = []
        """How the workers that got the signal have ended."""
        self.run_ids: list[str] = []

    def _add_worker(self) -> None:
        self._pids.append(self._forks.spawn(self._ledger, self._url, **self._options))

    async def terminate(self, signals: int, per_run: int = 1) -> None:
        """Send so many signals to the workers of runs that then end."""
        try:
            async with DurableRuns(self._url, make_slow_agents(Ledger(self._ledger))) as runs:
                self._add_worker()
                while len(self.codes) < signals:
                    await self._run(runs, min(per_run, signals - len(self.codes)))
                    print(f"\r{len(self.codes)} signals", end="", flush=True)  # noqa: T201
        finally:
            for pid in self._pids:
                os.kill(pid, signal.SIGKILL)
                self._forks.reap(pid)

    async def _run(self, runs: DurableRuns, signals: int) -> None:
        self._open.unlink(missing_ok=True)
        number = len(self.run_ids)
        run = await runs.start(list(SLOW)[number % len(SLOW)], "Pay.", run_id=f"run{number}")
        self.run_ids.append(run)
        ended = [
            pid for _ in range(signals) if (pid := await self._terminate_one(runs, run)) is not None
        ]
        await self._find_busy(runs, run)  # the next worker has taken over
        self._open.touch()
        await runs.wait(run, seconds=120)
        for pid in ended:
            code = await to_thread.run_sync(self._forks.reap, pid)
            self.codes.append(os.waitstatus_to_exitcode(code))

    async def _terminate_one(self, runs: DurableRuns, run: str) -> int | None:
        pid = await self._find_busy(runs, run)
        if pid is not None:
            self._add_worker()
            os.kill(pid, signal.SIGTERM)
            self._pids.remove(pid)
        return pid

    async def _find_busy(self, runs: DurableRuns, run: str) -> int | None:
        """The process that pays now; None if the run has ended."""
        with anyio.fail_after(120):
            while (await runs.get(run)).status in {"queued", "running"}:
                if (pid := find_busy(self._ledger, self._pids)) is not None:
                    return pid
                await anyio.sleep(0.02)
        return None


@pytest.mark.timeout(3600)
async def test_no_payment_that_outlasts_the_drain_is_doubled(
    forks: Forks, tmp_path: Path, database: str
) -> None:
    deploys = Deploys(forks, tmp_path / "ledger", database, pause=PAUSE)
    await deploys.terminate(SIGNALS, PER_RUN)
    paid = await judge_payments(tmp_path / "ledger", database, deploys.run_ids)

    ends = {code: deploys.codes.count(code) for code in set(deploys.codes)}
    print(f"\n{SIGNALS} signals, {len(deploys.run_ids)} runs, exit codes {ends}: {paid}")  # noqa: T201
    assert paid == ((), ())
    assert set(ends) == ({0, 75} if SOAK else {75})


async def test_a_lock_that_is_released_during_a_call_doubles_payments(
    forks: Forks, tmp_path: Path, sqlite: str
) -> None:
    deploys = Deploys(forks, tmp_path / "ledger", sqlite, control="early release")
    await deploys.terminate(2)
    paid = await judge_payments(tmp_path / "ledger", sqlite, deploys.run_ids)

    assert set(paid.doubled) == {"pay run0", "wire run1"}


class Held:
    """A payment that waits in its thread until it is let go, also if it has timed out."""

    def __init__(self, url: str, timeout: float = 600) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        pay = tool(self._pay, name="pay", timeout=timeout)
        self.runs = DurableRuns(url, {"a": Agent(call_once("pay"), [pay])}, poll=0.02)
        self.worker = ""
        self.is_left = False
        self._has_timeout = timeout < 1

    def _pay(self, amount: int) -> str:
        """Pay."""
        self.began.set()
        self.go.wait(60)
        return f"paid {amount}"

    async def work(self) -> None:
        """Start a run, and stop to work on it while it pays."""
        async with self.runs.work(drain_seconds=0, interval=0.05) as working:
            self.worker = working.id
            await self.runs.start("a", "Pay.", run_id="r")
            await self._wait()
        self.is_left = True

    async def serve(self) -> None:
        """Start a run, and get SIGTERM while it pays."""
        async with self.runs:
            await self.runs.start("a", "Pay.", run_id="r")
        async with anyio.create_task_group() as group:
            group.start_soon(partial(self.runs.serve, drain_seconds=0))
            await self._wait()
            if self._has_timeout:
                await self.runs.wait("r", seconds=60)
            os.kill(os.getpid(), signal.SIGTERM)
        self.is_left = True

    async def _wait(self) -> None:
        """Wait until it pays; and until the call has its result, if it times out."""
        await to_thread.run_sync(self.began.wait, 60)
        steps = 2 if self._has_timeout else 0
        while len(await self.runs._rows.steps_of("r", 0)) < steps:  # noqa: SLF001, ASYNC110
            await anyio.sleep(0.02)


def is_dead(url: str, name: str) -> bool:
    """Whether another worker would take over."""
    database = Database(url)
    lock = make_lock(database, name)
    taken = lock.take()
    if taken:
        lock.release()
    database.close()
    return taken


async def test_a_program_keeps_its_lock_until_its_last_call_has_ended(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "GRACE_SECONDS", 0.0)
    held = Held(database)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(held.work)
            while not any("still run" in one for one in caplog.messages):  # noqa: ASYNC110
                await anyio.sleep(0.02)
            during = await to_thread.run_sync(is_dead, database, held.worker)
            await to_thread.run_sync(Tables(database).free_lock, held.worker)
            while await to_thread.run_sync(is_dead, database, held.worker):  # noqa: ASYNC110  until it is taken again
                await anyio.sleep(0.2)
            held.go.set()
    after = await to_thread.run_sync(is_dead, database, held.worker)
    async with held.runs.work(interval=0.1):
        run = await held.runs.wait("r", seconds=60)

    assert (during, after, run.status) == (False, True, "done")
    assert f"1 calls still run: the worker {held.worker} waits for them" in caplog.messages


async def test_a_program_keeps_its_lock_while_the_thread_of_a_call_that_timed_out_runs(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "GRACE_SECONDS", 0.0)
    held = Held(sqlite, timeout=0.5)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(held.work)
            while not (held.is_left or any("still run" in one for one in caplog.messages)):  # noqa: ASYNC110
                await anyio.sleep(0.02)
            during = await to_thread.run_sync(is_dead, sqlite, held.worker)
            held.go.set()
    after = await to_thread.run_sync(is_dead, sqlite, held.worker)

    assert (during, after) == (False, True)
    assert f"1 calls still run: the worker {held.worker} waits for them" in caplog.messages


@pytest.mark.parametrize("timeout", [600, 0.5], ids=["runs", "timed out"])
async def test_the_process_of_a_worker_ends_if_a_call_outlasts_the_drain(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, timeout: float
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(worker, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(ending, "end_process", ended.append)
    monkeypatch.setattr(Executor.aclose, "__defaults__", (0.0,))  # the run ends before the thread
    held = Held(sqlite, timeout)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(held.serve)
            while not (ended or held.is_left):  # noqa: ASYNC110  the signal comes at any time
                await anyio.sleep(0.02)
            held.go.set()

    assert ended == [1]


async def test_a_call_that_comes_after_the_drain_is_left_to_another_worker(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, reply, paid, ended = anyio.Event(), anyio.Event(), list[int](), list[int]()
    monkeypatch.setattr(worker, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(ending, "end_process", ended.append)

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    async def model(request: Request) -> Reply:
        if len(request.messages) > 1:
            return Reply((Text("Done."),))
        asked.set()
        await reply.wait()
        return Reply((Call("pay", {"amount": 1}, "c1"),))

    runs = DurableRuns(sqlite, {"a": Agent(model, [pay])}, poll=0.02)
    async with runs:
        async with runs.work(drain_seconds=0):
            await runs.start("a", "Pay.", run_id="r")
            await asked.wait()
        reply.set()
        with anyio.fail_after(60):
            while not await runs._rows.steps_of("r", 0):  # noqa: SLF001, ASYNC110  the late reply
                await anyio.sleep(0.02)
        late = list(paid)
        async with runs.work(interval=0.1):
            run = await runs.wait("r", seconds=60)
        await runs.serve(on_start=lambda *_: os.kill(os.getpid(), signal.SIGTERM))

    assert (late, paid, run.text) == ([], [1], "Done.")
    assert ended == []  # what the first worker has left does not count


def test_a_process_that_ends_itself_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[object] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(logging, "shutdown", lambda: ended.append("flushed"))

    ending.end_process(3)

    assert ended == ["flushed", 75]
    [said] = caplog.messages
    assert said == (
        "turns or calls outlast the drain, and 3 calls still run: the process ends with exit code "
        "75, and other workers continue the runs"
    )
