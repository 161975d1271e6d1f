"""A fleet under attack: workers are killed, stopped and woken, the database restarts."""

from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import psycopg
from anyio import to_thread

from handrail import Allow
from handrail.runs.durable import DurableRuns
from runs.durable.shop import Ledger, make_agent
from runs.durable.workers import Forks, Verdict, judge


class Tables:
    """Reads the tables of the engine and of handrail, from outside."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_postgres = url.startswith("postgresql")

    def read(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query. A database that restarts is asked again."""
        until = time.monotonic() + 30
        while True:
            try:
                return self._read(sql)
            except (psycopg.OperationalError, sqlite3.OperationalError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _read(self, sql: str) -> list[tuple[Any, ...]]:
        if self.is_postgres:
            with psycopg.connect(self.url, autocommit=True) as connection:
                return connection.execute(sql).fetchall()  # type: ignore[call-overload,no-any-return]
        connection = sqlite3.connect(self.url, timeout=30)
        try:
            return connection.execute(sql.replace("dbos.", "")).fetchall()
        finally:
            connection.close()

    def worker(self, pid: int) -> str | None:
        """The id of a worker; None if it is not recorded (any more)."""
        rows = self.read(f"SELECT id FROM handrail_worker WHERE id LIKE '%-{pid}-%'")  # noqa: S608
        return str(rows[0][0]) if rows else None

    def held(self, worker: str) -> int:
        """How many runs a worker has, dead or alive, that no other one has begun."""
        rows = self.read(
            "SELECT COUNT(*) FROM dbos.workflow_status "  # noqa: S608  our own id
            f"WHERE executor_id = '{worker}' AND status IN ('PENDING', 'ENQUEUED')"
        )
        return int(rows[0][0])

    def describe(self, worker: str) -> str:
        """Say why the runs of a worker may not continue: its rows, other workers, and locks."""
        status = "executor_id, workflow_uuid, status, queue_name, started_at_epoch_ms"
        queries = [f"SELECT {status} FROM dbos.workflow_status", "SELECT * FROM handrail_worker"]  # noqa: S608  constants
        if self.is_postgres:
            activity = "pid, state, wait_event, pg_blocking_pids(pid), query"
            queries += [
                "SELECT pid, classid, objid FROM pg_locks WHERE locktype = 'advisory'",
                f"SELECT {activity} FROM pg_stat_activity WHERE query <> ''",  # noqa: S608  constants
            ]
        queries[0] += f" WHERE executor_id = '{worker}' AND status IN ('PENDING', 'ENQUEUED')"
        rows = [str(row) for query in queries for row in (query, *self.read(query))]
        return "\n".join([worker, *rows])

    def has_begun(self, pid: int) -> bool:
        """Whether a worker has begun a run, so that it is past its own start."""
        rows = self.read(
            "SELECT COUNT(*) FROM dbos.workflow_status "  # noqa: S608  a number
            f"WHERE executor_id LIKE '%-{pid}-%'"
        )
        return bool(rows[0][0])

    def can_write(self) -> bool:
        """Whether no one holds rows, or the whole file. A stopped process can.

        On PostgreSQL, it can also get rows later, with a statement that is still under way.
        """
        if self.is_postgres:
            begun = (
                "SELECT pid, xact_start FROM pg_stat_activity WHERE xact_start IS NOT NULL "
                "AND backend_type = 'client backend' AND datname = current_database()"
            )
            before = self.read(begun)
            time.sleep(0.1)
            return not set(before) & set(self.read(begun))
        connection = sqlite3.connect(self.url, timeout=1, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        finally:
            connection.close()
        return True

    def drop_connections(self) -> None:
        self.read(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    @contextmanager
    def lock_file(self) -> Generator[None]:
        """Let no one else write to a SQLite file inside."""
        connection = sqlite3.connect(self.url, timeout=60, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.close()

    @contextmanager
    def lock_runs(self, worker: str) -> Generator[Callable[[], bool]]:
        """Lock the rows of a worker's runs inside. Gives whether someone waits for one."""
        waiting = (
            "SELECT 1 FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        with psycopg.connect(self.url) as connection:
            connection.execute(
                "SELECT 1 FROM dbos.workflow_status "
                "WHERE executor_id = %s AND status = 'PENDING' FOR UPDATE",
                [worker],
            )
            yield lambda: bool(self.read(waiting))

    def free_lock(self, worker: str) -> None:
        """Release the lock of a worker that lives, as a cut network would."""
        if not self.is_postgres:
            (Path(f"{self.url}.workers") / worker).unlink()
            return
        from handrail.runs._store.liveness import PostgresLock

        key = PostgresLock(None, worker)._key  # type: ignore[arg-type]  # noqa: SLF001
        self.read(
            "SELECT pg_terminate_backend(pid) FROM pg_locks "  # noqa: S608  a number
            "WHERE locktype = 'advisory' "
            f"AND ((classid::bigint << 32) | objid::bigint) = {key}"
        )


class Summary(NamedTuple):
    """What a fleet went through, and what the ledger says."""

    kills: int
    stops: int
    restarts: int
    runs: int
    doubled: tuple[str, ...]
    wrong: tuple[str, ...]
    unknown: int
    failovers: tuple[float, ...]

    def __str__(self) -> str:
        times = sorted(self.failovers) or [0.0]
        p50, p99 = times[len(times) // 2], times[min(len(times) - 1, int(len(times) * 0.99))]
        return (
            f"{self.kills} kills, {self.stops} stopped and woken, {self.restarts} restarts of the "
            f"database, {self.runs} runs: {len(self.doubled)} doubled, {len(self.wrong)} lost or wrong, "
            f"{self.unknown} unknown; failover of {len(self.failovers)}: p50 {p50:.2f} s, "
            f"p99 {p99:.2f} s, max {times[-1]:.2f} s; {(self.doubled + self.wrong)[:3]}"
        )


class Fleet:
    """Some workers, and the runs that they work on.

    Args:
        forks: Starts the workers.
        ledger: Where the tools write.
        url: The database.
        options: Of each worker: its poll, its interval, the pause of its tools.
    """

    def __init__(self, forks: Forks, ledger: Path, url: str, **options: Any) -> None:
        self._forks = forks
        self._ledger = ledger
        self._url = url
        self._options = options
        self._chance = random.Random(11)  # noqa: S311  only a test
        self.tables = Tables(url)
        self.pids: list[int] = []
        self.kills = self.stops = self.restarts = self.ends = self.drops = 0
        self.answers = True
        """Whether the questions of runs are answered here."""
        self.failovers: list[float] = []
        self.verdicts: dict[str, Verdict] = {}
        self._open: set[str] = set()
        self._started = 0

    def add_worker(self) -> None:
        self.pids.append(self._forks.spawn(self._ledger, self._url, **self._options))

    def end(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            self._forks.reap(pid)
        self.pids.clear()

    async def keep_busy(self, runs: DurableRuns, count: int) -> None:
        """Start runs until so many are under way, answer their questions, judge those that ended."""
        while len(self._open) < count:
            self._started += 1
            self._open.add(
                await runs.start("shop", "Do it.", run_id=f"{self._options['name']}{self._started}")
            )
        await self.tend(runs)

    async def tend(self, runs: DurableRuns) -> None:
        for pending in await runs.inbox() if self.answers else ():
            try:
                await runs.answer(pending.id, Allow())
            except ValueError:  # a former answer of ours was in time after all
                continue
        for run in list(self._open):
            if (await runs.get(run)).status in {"done", "failed", "cancelled"}:
                self._open.discard(run)
                self.verdicts[run] = await judge(self._ledger, self._url, run, zombies=True)

    async def finish(self, runs: DurableRuns) -> None:
        """Let every run end."""
        with anyio.move_on_after(300):
            while self._open:
                await self.tend(runs)
                await anyio.sleep(0.05)

    async def begin(self, runs: DurableRuns) -> None:
        """Wait until each worker has begun a run: one that cannot start ends, and is no part of it."""

        def all_begun() -> bool:
            return all(self.tables.has_begun(pid) for pid in self.pids)

        with anyio.fail_after(300):
            while not await to_thread.run_sync(all_begun):
                await self.keep_busy(runs, 4)

    async def kill_one(self, runs: DurableRuns) -> None:
        """Kill a worker that has runs, and measure when another one has begun them all."""
        pid, worker = await self._find_busy(runs)
        os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        self._forks.reap(pid)
        self.pids.remove(pid)
        self.kills += 1
        self.add_worker()
        had = await to_thread.run_sync(self.tables.held, worker)
        await self._until(lambda: not self.tables.held(worker))
        if had:
            self.failovers.append(time.monotonic() - began)

    async def end_one(self, runs: DurableRuns) -> int:
        """Let a worker end with SIGTERM, and return its exit code."""
        pid, _ = await self._find_busy(runs)
        os.kill(pid, signal.SIGTERM)
        code = await to_thread.run_sync(self._forks.reap, pid)
        self.pids.remove(pid)
        self.ends += 1
        self.add_worker()
        return os.waitstatus_to_exitcode(code)

    async def drop_all(self) -> None:
        """End all connections to the database."""
        await to_thread.run_sync(self.tables.drop_connections)
        self.drops += 1

    async def fill_disk(self, seconds: float) -> None:
        """Let no worker write beyond the end of the SQLite file's log, as on a full disk."""
        size = await to_thread.run_sync(os.path.getsize, f"{self._url}-wal")
        for limit in (size, resource.RLIM_INFINITY):
            for pid in self.pids:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            await anyio.sleep(seconds)
        self.drops += 1

    async def stop_one(self, runs: DurableRuns) -> None:
        """Stop a worker, let others take its runs over, and wake it: it does not know."""
        pid, worker = await self._find_busy(runs)
        await to_thread.run_sync(self._forks.stop, pid)
        while not await to_thread.run_sync(self.tables.can_write):  # stopped inside a transaction
            os.kill(pid, signal.SIGCONT)
            await anyio.sleep(0.01)
            await to_thread.run_sync(self._forks.stop, pid)
        await self._lose(pid, worker)

    async def freeze_one(self, runs: DurableRuns) -> None:
        """The same, but stop it inside a transaction that has locked a row of its runs."""
        pid, worker = await self._find_busy(runs)
        with self.tables.lock_runs(worker) as is_awaited:
            await self._until(is_awaited)  # it records how its run ended
            await to_thread.run_sync(self._forks.stop, pid)
        await self._lose(pid, worker)

    async def _lose(self, pid: int, worker: str) -> None:
        await to_thread.run_sync(self.tables.free_lock, worker)
        try:
            await self._until(lambda: not self.tables.held(worker))
        except TimeoutError as error:
            error.add_note(await to_thread.run_sync(self.tables.describe, worker))
            raise
        os.kill(pid, signal.SIGCONT)
        self.stops += 1

    async def _find_busy(self, runs: DurableRuns) -> tuple[int, str]:
        """A worker with runs. Those that wait for an answer get it meanwhile."""

        def find() -> list[tuple[int, str]]:
            known = [(pid, self.tables.worker(pid)) for pid in self.pids]
            return [(pid, name) for pid, name in known if name and self.tables.held(name)]

        with anyio.fail_after(300):
            while not (found := await to_thread.run_sync(find)):
                self._replace_ended()
                await self.keep_busy(runs, 4)
        return self._chance.choice(found)

    async def _until(self, done: Callable[[], bool]) -> None:
        with anyio.fail_after(300):
            while not await to_thread.run_sync(done):
                self._replace_ended()
                await anyio.sleep(0.05)

    def _replace_ended(self) -> None:
        """Start a worker for each that has ended by itself, as a supervisor does.

        One that loses its connection while it starts ends with an error.
        """
        for pid in [pid for pid in self.pids if has_ended(pid)]:
            self._forks.reap(pid)
            self.pids.remove(pid)
            self.add_worker()

    @property
    def summary(self) -> Summary:
        seen = self.verdicts.values()
        return Summary(
            self.kills,
            self.stops,
            self.restarts,
            len(self.verdicts),
            tuple(line for verdict in seen for line in verdict.doubled),
            (
                *(text for verdict in seen for text in verdict.wrong),
                *(f"{run} never ended" for run in sorted(self._open)),
            ),
            sum(verdict.unknown for verdict in seen),
            tuple(self.failovers),
        )


def has_ended(pid: int) -> bool:
    """Whether a process that no one has waited for has ended."""
    about = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return about.rpartition(")")[2].split()[0] == "Z"


def make_client(url: str, ledger: Path) -> DurableRuns:
    return DurableRuns(url, {"shop": make_agent(Ledger(ledger))})
