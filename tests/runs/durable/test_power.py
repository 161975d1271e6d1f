"""The power is cut: the database is left as its last sync left it; a ledger outside is the judge."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import threading
from contextlib import closing, nullcontext
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from crash_points import DURABLE_POINTS
from handrail.runs._store.database import Database
from handrail.runs._store.port import DatabaseError
from handrail.runs._store.threads import Threads
from runs.durable.statements import counting
from runs.durable.workers import Forks, Verdict, judge

CUTS = 50 if os.environ.get("HANDRAIL_PROFILE") == "soak" else 3
FIRST = ["call.ran:1", "call.stored:2", "turn.recorded:1", "answer.given:1"]
PER_RUN = 4


def cut_power(path: str) -> None:
    """Leave of a database what was synced."""
    for file in (Path(path), Path(f"{path}-wal")):
        synced = Path(f"{file}.synced")
        if synced.exists():
            shutil.copy(synced, file)
        elif file != Path(path):
            file.unlink(missing_ok=True)
    Path(f"{path}-shm").unlink(missing_ok=True)


def cut_often(  # noqa: PLR0917
    forks: Forks, where: tuple[Path, str], run: str, how: list[str | float], control: str = ""
) -> int:
    """Cut the power of the workers of a run, then let one finish it. Returns how often it was cut."""
    cuts = 0
    for one in how:
        crash, after = (one, 0.0) if isinstance(one, str) else ("", one)
        killed = forks.run(*where, run, crash=crash, kill_after=after, synced=True, control=control)
        if killed:
            cut_power(where[1])
        cuts += killed
    assert not forks.run(*where, run, synced=True, control=control)
    return cuts


@pytest.mark.timeout(3600)
async def test_no_payment_is_doubled_by_a_power_cut(
    forks: Forks, tmp_path: Path, sqlite: str
) -> None:
    chance = random.Random(3)  # noqa: S311  only a test
    cuts, verdicts = 0, dict[str, Verdict]()
    while cuts < CUTS:
        run = f"run{len(verdicts)}"
        points = [f"{chance.choice(DURABLE_POINTS)}:{chance.randint(1, 2)}", chance.uniform(0.1, 1)]
        how: list[str | float] = [chance.choice(points) for _ in range(PER_RUN)]
        where = (tmp_path / "ledger", sqlite)
        cuts += await to_thread.run_sync(
            cut_often, forks, where, run, how if verdicts else list(FIRST)
        )
        verdicts[run] = await judge(tmp_path / "ledger", sqlite, run)

    unknown = sum(one.unknown for one in verdicts.values())
    print(f"\n{cuts} power cuts, {len(verdicts)} runs, {unknown} unknown")  # noqa: T201
    assert {run: seen for run, seen in verdicts.items() if seen.doubled or seen.wrong} == {}


async def test_without_a_sync_for_each_commit_a_power_cut_doubles_payments(
    forks: Forks, tmp_path: Path, sqlite: str
) -> None:
    where = (tmp_path / "ledger", sqlite)
    cuts = await to_thread.run_sync(cut_often, forks, where, "r", ["call.stored:1"], "normal sync")

    assert cuts == 1
    assert (await judge(tmp_path / "ledger", sqlite, "r")).doubled == ("pay r/1/pay-2",)


class Writer:
    """Adds names to a table of a database, many at once."""

    def __init__(self, path: str) -> None:
        self.database = Database(path)
        self.failed: list[str] = []

    async def add(self, *names: str) -> None:
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(self._add, name)

    async def _add(self, name: str) -> None:
        try:
            await self.database.write("INSERT INTO handrail_approval VALUES (:name, '')", name=name)
        except DatabaseError:
            self.failed.append(name)

    async def find(self) -> set[str]:
        rows = await self.database.read("SELECT name FROM handrail_approval")
        return {name for (name,) in rows if name.startswith("name ")}


async def test_what_waits_for_the_disk_is_written_together(sqlite: str) -> None:
    writer = Writer(sqlite)
    names = [f"name {number}" for number in range(200)]
    with counting("COMMIT") as commits:
        await writer.add(*names)
    found = await writer.find()
    writer.database.close()

    assert (found, writer.failed) == (set(names), [])
    assert 200 / 64 <= len(commits) < 20


async def test_a_statement_that_fails_fails_alone(sqlite: str) -> None:
    writer = Writer(sqlite)
    await writer.add("name 1", "name 1", "name 2")
    found = await writer.find()
    writer.database.close()

    assert (found, writer.failed) == ({"name 1", "name 2"}, ["name 1"])


async def test_what_could_not_be_committed_has_failed(sqlite: str) -> None:
    writer = Writer(sqlite)
    checked = "REFERENCES handrail_worker (id) DEFERRABLE INITIALLY DEFERRED"  # by the commit
    await writer.database.write(f"CREATE TABLE checked (id TEXT {checked})")

    async def add_wrong() -> None:
        with pytest.raises(DatabaseError, match="FOREIGN KEY"):
            await writer.database.write("INSERT INTO checked VALUES (:id)", id="nobody")

    names = {f"name {number}" for number in range(50)}
    async with anyio.create_task_group() as group:
        group.start_soon(add_wrong)
        group.start_soon(writer.add, *names)
    found = await writer.find()
    await writer.add("name 50")
    after = await writer.find()
    writer.database.close()

    assert found == names - set(writer.failed)
    assert after == found | {"name 50"}


async def test_each_statement_has_its_own_outcome_if_sqlite_undoes_what_is_written_together(
    sqlite: str,
) -> None:
    writer = Writer(sqlite)
    await writer.database.write(
        "CREATE TRIGGER undo BEFORE INSERT ON handrail_approval WHEN NEW.name LIKE '%full' "
        "BEGIN SELECT RAISE(ROLLBACK, 'undone, as by a full disk'); END"
    )
    parts, several = ("name 5", "name 6"), dict[str, list[int]]()

    async def add_both() -> None:
        steps = [
            ("INSERT INTO handrail_approval VALUES (:name, '')", [{"name": one}]) for one in parts
        ]
        several["changed"] = await writer.database.transact(steps, 0)

    with closing(sqlite3.connect(sqlite, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with anyio.create_task_group() as group:
            group.start_soon(writer.add, "name 1", "name 2", "name full", "name 3")
            group.start_soon(add_both)
            group.start_soon(writer.add, "name 1", "name also full", "name 4")
            await anyio.wait_all_tasks_blocked()
            with counting("INSERT INTO handrail_approval") as tried:
                other.execute("COMMIT")  # what waits is written together
                while not several or len(writer.failed) < 3:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
    found = await writer.find()
    writer.database.close()

    assert found == {f"name {number}" for number in range(1, 7)}
    assert writer.failed == ["name full", "name 1", "name also full"]
    assert several == {"changed": [1, 1]}
    assert len(tried) >= 10  # two together, then each of eight alone


async def test_a_part_whose_guard_changes_no_row_changes_nothing_and_undoes_no_other_part(
    sqlite: str,
) -> None:
    opened = Database(sqlite)
    put = "INSERT INTO handrail_approval VALUES (:name, '') ON CONFLICT DO NOTHING"
    done: dict[str, list[int]] = {}

    async def add(*names: str) -> None:
        steps = [(put, [{"name": f"name {name}"}]) for name in names]
        done["".join(names)] = await opened.transact(steps, 2)

    await add("1", "2")
    with closing(sqlite3.connect(sqlite, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with anyio.create_task_group() as group:
            for names in ("03", "45", "61", "26", "78"):
                group.start_soon(add, *names)
            await anyio.wait_all_tasks_blocked()
            other.execute("COMMIT")  # what waits is written together
    rows = await opened.read("SELECT name FROM handrail_approval WHERE name LIKE 'name%'")
    opened.close()

    assert done == {"12": [1, 1], "03": [1, 1], "45": [1, 1], "61": [], "26": [], "78": [1, 1]}
    assert sorted(name for (name,) in rows) == [
        f"name {number}" for number in (0, 1, 2, 3, 4, 5, 7, 8)
    ]


async def test_a_transaction_that_fails_changes_nothing(database: str) -> None:
    opened = Database(database)
    add = ("INSERT INTO handrail_approval VALUES (:name, '')", [{"name": "name 1"}])
    with pytest.raises(DatabaseError):
        await opened.transact([add, ("INSERT INTO nowhere VALUES (1)", [{}])], 0)
    with pytest.raises(DatabaseError):
        await opened.transact([add, add], 0)
    changed = await opened.transact([add], 0)
    rows = await opened.read("SELECT name FROM handrail_approval WHERE name LIKE 'name%'")
    opened.close()

    assert (changed, rows) == ([1], [("name 1",)])


async def test_threads_end_after_what_waits() -> None:
    threads = Threads(1, nullcontext)
    began, go, done = threading.Event(), threading.Event(), list[int]()

    def wait() -> None:
        began.set()
        go.wait(60)

    async with anyio.create_task_group() as group:
        group.start_soon(threads.run, wait)
        await to_thread.run_sync(began.wait, 60)
        group.start_soon(threads.run, done.append, 1)
        group.start_soon(threads.run, done.append, 2)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(to_thread.run_sync, threads.close)
        while threads._threads:  # noqa: SLF001, ASYNC110  another thread closes them
            await anyio.sleep(0.01)
        go.set()

    assert done == [1, 2]


async def test_threads_that_end_leave_later_work_to_new_ones() -> None:
    threads = Threads(1)
    began, go, done = threading.Event(), threading.Event(), list[int]()

    def wait() -> None:
        began.set()
        go.wait(60)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(threads.run, wait)
            await to_thread.run_sync(began.wait, 60)
            group.start_soon(to_thread.run_sync, threads.close)
            while threads._threads:  # noqa: SLF001, ASYNC110  another thread closes them
                await anyio.sleep(0.01)
            try:
                await threads.run(done.append, 1)
            finally:
                go.set()
    threads.close()

    assert done == [1]
