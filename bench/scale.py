"""What a durable run costs beside a bare DBOS workflow: `python bench/scale.py sqlite|postgres|URL`.

A run has three turns of three READ calls and an answer: 7 records. Its model answers at once. The
bare workflow has 7 steps. The two take turns, each in a new database. All runs are queued before
the clock starts, and idle workers have rows of their own. `--answers N` measures something else: the
time from an answer in this process to the call that it allows in a worker. Numbers are per run, medians of the
rounds. Statements include commits. Rates are printed only if the load average is below the number
of cores; all else is counted, or is CPU time, which depends less on other work on the machine.
With `--commit-delay MS`, a scratch server of PostgreSQL syncs its log and waits before that, as for
a replica. Then the time is spent in waiting, so rates are printed: compare them, not their size.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer

from handrail import Allow
from handrail.runs._engine.dbos_connections import make_engine
from handrail.runs._store.database import Database
from scale_worker import POLL, QUEUE, STATEMENTS, STEP, counting, make_runs

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from services import Postgres

TICKS = os.sysconf("SC_CLK_TCK")
WORKER = Path(__file__).with_name("scale_worker.py")

# what a database has and did


class Figures(NamedTuple):
    """What a round took for each run, and while idle for each second."""

    statements: float
    commits: float
    """Transactions that write, on PostgreSQL."""
    cpu: float
    server: float
    rows: float
    disk: float
    written: float
    rate: float
    idle_cpu: float
    idle_server: float
    idle_statements: float


class Stored(NamedTuple):
    rows: int
    disk: int
    written: int
    commits: int


def look_at(address: str) -> Stored:
    """Return the rows and bytes of a database, and the bytes and transactions of its log so far."""
    if address.startswith("postgresql"):
        with psycopg.connect(address, autocommit=True) as server:
            tables = server.execute(
                "SELECT quote_ident(schemaname) || '.' || quote_ident(relname) "
                "FROM pg_stat_user_tables"
            ).fetchall()
            counts = " + ".join(f"(SELECT COUNT(*) FROM {name})" for (name,) in tables)
            sizes = " + ".join(f"pg_total_relation_size('{name}')" for (name,) in tables)
            wal = "pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
            number = "pg_current_xact_id()::text::bigint"
            query: Any = f"SELECT {counts}, {sizes}, ({wal})::bigint, {number}"
            [row] = server.execute(query).fetchall()
            return Stored(*map(int, row))
    with closing(sqlite3.connect(address)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        names = file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        rows = sum(
            file.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0] for (name,) in names
        )
    return Stored(rows, Path(address).stat().st_size, 0, 0)


def count_done(address: str) -> int:
    sql = "SELECT COUNT(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'"
    if address.startswith("postgresql"):
        with psycopg.connect(address, autocommit=True) as server:
            return int(server.execute(sql).fetchall()[0][0])
    with closing(sqlite3.connect(address, timeout=30)) as file:
        return int(file.execute(sql.replace("dbos.", "")).fetchone()[0])


def spent(pids: Iterable[int]) -> float:
    """Return the CPU seconds of processes and of their children that have ended."""
    total = 0
    for pid in pids:
        if not Path(f"/proc/{pid}").exists():
            continue
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def wrote(pid: int) -> int:
    """Return the bytes that a process has written, to files and elsewhere."""
    lines = Path(f"/proc/{pid}/io").read_text(encoding="utf-8").splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


def find_server(address: str) -> list[int]:
    """Return the processes of a PostgreSQL on this machine, by its port."""
    port = address.rpartition("/")[0].rpartition(":")[2]
    processes: dict[int, tuple[int, str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text(encoding="utf-8").replace("\0", " ")
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        processes[int(folder.name)] = int(fields[1]), command
    parents = {pid for pid, (_, command) in processes.items() if f" -p {port} " in f"{command} "}
    return [pid for pid, (parent, _) in processes.items() if pid in parents or parent in parents]


@contextmanager
def new_database(place: str) -> Generator[str]:
    """An empty database: a file, or one of a server."""
    if not place.startswith("postgresql"):
        with tempfile.TemporaryDirectory() as folder:
            yield f"{folder}/runs.db"
        return
    name = f"scale_{os.getpid()}_{time.monotonic_ns()}"
    with psycopg.connect(place, autocommit=True) as server:
        create: Any = f"CREATE DATABASE {name}"
        server.execute(create)
    yield f"{place.rpartition('/')[0]}/{name}"
    with psycopg.connect(place, autocommit=True) as server:
        drop: Any = f"DROP DATABASE {name} WITH (FORCE)"
        server.execute(drop)


# one round


async def queue_up(program: str, address: str, count: int) -> int:
    """Queue all runs, and return the statements that it took."""
    before = STATEMENTS["count"]
    if program == "handrail":
        async with make_runs(address) as runs:
            for number in range(count):
                await runs.start("bench", "Go.", run_id=f"r{number}")
        return STATEMENTS["count"] - before
    client = DBOSClient(
        system_database_engine=make_engine(Database(address)),
        serializer=DBOSPortableJSONSerializer(),
        application_name="bare",
    )
    for number in range(count):
        options: Any = {"workflow_name": "bare", "queue_name": QUEUE, "app_version": "1"}
        options["workflow_id"] = f"r{number}"
        client.enqueue(options, STEP)
    client.destroy()
    return STATEMENTS["count"] - before


def measure(program: str, place: str, workers: int, count: int, idle: float) -> Figures:
    with new_database(place) as address:
        asyncio.run(create_tables(address))
        before = look_at(address)
        started = asyncio.run(queue_up(program, address, count))
        command = [sys.executable, str(WORKER), program, address, str(idle)]
        pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        several = [
            subprocess.Popen(command, text=True, encoding="utf-8", **pipe)  # type: ignore[call-overload]
            for _ in range(workers)
        ]
        for one in several:
            one.stdout.readline()
        is_postgres = address.startswith("postgresql")
        before_server = spent(find_server(address)) if is_postgres else 0.0
        before_wrote = sum(wrote(one.pid) for one in several)
        began = time.monotonic()
        tell(several)
        while count_done(address) < count:
            time.sleep(0.25)
        seconds = time.monotonic() - began
        middle = spent(find_server(address)) if is_postgres else 0.0
        written = sum(wrote(one.pid) for one in several) - before_wrote
        tell(several)
        reports = [json.loads(one.stdout.readline()) for one in several]
        server = spent(find_server(address)) if is_postgres else 0.0
        for one in several:
            one.communicate()
        after = look_at(address)
    busy, resting = ([sum(column) for column in zip(*part)] for part in zip(*reports))  # noqa: B905
    return Figures(
        statements=(started + busy[1]) / count,
        commits=(after.commits - before.commits) / count,
        cpu=busy[0] / count * 1000,
        server=(middle - before_server) / count * 1000,
        rows=(after.rows - before.rows) / count,
        disk=(after.disk - before.disk) / count / 1000,
        written=((after.written - before.written) or written) / count / 1000,
        rate=count / seconds,
        idle_cpu=resting[0] / workers * 1000,
        idle_server=(server - middle) / idle / workers * 1000,
        idle_statements=resting[1] / workers,
    )


async def create_tables(address: str) -> None:
    async with make_runs(address):
        await asyncio.to_thread(DBOS.migrate, Database(address).url)


def measure_answers(place: str, count: int) -> list[float]:
    """Return the seconds from each answer to its call in a worker."""
    with new_database(place) as address:
        asyncio.run(create_tables(address))
        command = [sys.executable, str(WORKER), "answers", address, "0"]
        pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        worker = subprocess.Popen(command, text=True, encoding="utf-8", **pipe)  # type: ignore[call-overload]
        seconds = asyncio.run(answer_all(address, count, worker))
        worker.communicate()
    return sorted(seconds)


async def answer_all(address: str, count: int, worker: subprocess.Popen[str]) -> list[float]:
    seconds: list[float] = []
    assert worker.stdout is not None
    async with make_runs(address) as runs:
        ids = [await runs.start("pay", "Go.", run_id=f"r{number}") for number in range(count)]
        for run in ids:
            await runs.wait(run)
        for run in ids:
            await asyncio.sleep(random.uniform(0, POLL))  # at any time between two looks
            answered = time.monotonic()
            await runs.answer(f"{run}~1~c~0", Allow())
            name, ran = (await asyncio.to_thread(worker.stdout.readline)).split()
            assert name == run
            seconds.append(float(ran) - answered)
    return seconds


def show_answers(place: str, count: int) -> None:
    load = os.getloadavg()[0]
    seconds = measure_answers(place, count)
    parts = {"p50": 0.5, "p99": 0.99, "longest": 1.0}
    shown = [f"{name} {seconds[ceil(part * count) - 1]:.3f} s" for name, part in parts.items()]
    print(f"{count} answers, load average {load:.1f}: {', '.join(shown)}")


def tell(workers: Sequence[subprocess.Popen[str]]) -> None:
    for one in workers:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()


def median(rounds: Sequence[Figures]) -> Figures:
    return Figures(*(statistics.median(column) for column in zip(*rounds, strict=True)))


HEADS = {
    "statements": "{:.1f}",
    "commits": "{:.1f}",
    "cpu": "{:.1f} ms",
    "server": "{:.1f} ms",
    "rows": "{:.1f}",
    "disk": "{:.1f} kB",
    "written": "{:.1f} kB",
    "rate": "{:.1f}",
}
IDLE = {"idle_cpu": "{:.1f} ms", "idle_server": "{:.1f} ms", "idle_statements": "{:.1f}"}


def show(heads: dict[str, str], rows: dict[str, Figures], *, is_free: bool) -> None:
    print("| program |", " | ".join(heads), "|")
    print("|---|" + "---|" * len(heads))
    for name, one in rows.items():
        cells: list[str] = []
        for head, form in heads.items():
            number = getattr(one, head)
            is_known = number and (head != "rate" or is_free)
            text = form if "/" not in name else "{:.2f}"
            cells.append(text.format(number) if is_known else "")
        print(f"| {name} |", " | ".join(cells), "|")


def compare(place: str, given: argparse.Namespace) -> None:
    """Measure both programs by turns, and print what they took."""
    seen: dict[str, list[Figures]] = {"handrail": [], "bare": []}
    loads: list[float] = []
    for _ in range(given.rounds):
        for program, several in seen.items():
            loads.append(os.getloadavg()[0])
            several.append(measure(program, place, given.workers, given.runs, given.idle))
    rows = {program: median(several) for program, several in seen.items()}
    ours, theirs = rows.values()
    rows["handrail / bare"] = Figures(
        *(one / other if other else 0.0 for one, other in zip(ours, theirs, strict=True))
    )
    cores = os.cpu_count() or 1
    is_free = max(loads) < cores or given.commit_delay > 0
    print(
        f"{given.runs} runs, {given.rounds} rounds, {given.workers} workers, {cores} cores, ",
        end="",
    )
    print(f"load average {min(loads):.1f} to {max(loads):.1f}" + ("" if is_free else ": no rates"))
    show(HEADS, rows, is_free=is_free)
    print("\nidle, each second and worker")
    show(IDLE, rows, is_free=is_free)


def run(place: str, given: argparse.Namespace) -> None:
    if given.answers:
        show_answers(place, given.answers)
    else:
        compare(place, given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", help="sqlite, postgres (a scratch server), or postgresql://...")
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--idle", type=float, default=10.0, help="seconds")
    parser.add_argument("--answers", type=int, default=0)
    parser.add_argument("--commit-delay", type=float, default=0.0, help="milliseconds")
    given = parser.parse_args()
    if given.place != "postgres":
        run(given.place, given)
        return
    delay = f"-c commit_delay={given.commit_delay * 1000:.0f} -c commit_siblings=0"
    server = Postgres.start(f"-c fsync=on {delay}" if given.commit_delay else "")
    try:
        run(server.url, given)
    finally:
        server.stop()


if __name__ == "__main__":
    with counting():
        main()
