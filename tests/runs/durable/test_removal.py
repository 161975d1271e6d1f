"""A run that is removed leaves no row: neither ours nor the engine's, whenever the process dies."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from anyio import to_thread

from handrail import WRITE, Allow, Ask, CheckedCall, Decision, tool
from handrail.agent import Agent
from handrail.messages import Prompt
from handrail.permissions import Approvers
from handrail.runs._store import points
from handrail.runs.durable import CallQueue, DurableRuns
from handrail.web.conversations import Conversations
from runs.durable.shop import Ledger, call_once, make_agent, make_model

SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
KEPT = {
    "handrail_schema",
    "handrail_worker",
    "handrail_rule",  # counts of rules by day, of no run
    "dbos_migrations",
    "application_versions",
    "queues",
    "sqlite_sequence",
}
"""Tables with rows of no run."""


def count_rows(url: str) -> dict[str, int]:
    """How many rows of runs each table has, ours and the engine's, if it has any."""
    with closing(connect(url)) as connection:
        names = [row[0] for row in connection.execute(list_tables(url)).fetchall()]
        counts = {
            name: connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0]  # noqa: S608
            for name in names
            if name.rpartition(".")[2] not in KEPT
        }
    return {name: count for name, count in counts.items() if count}


def connect(url: str) -> Any:
    return psycopg.connect(url) if url.startswith("postgresql") else sqlite3.connect(url)


def list_tables(url: str) -> str:
    if url.startswith("postgresql"):
        return (
            "SELECT schemaname || '.' || tablename FROM pg_tables "
            "WHERE schemaname IN ('public', 'dbos')"
        )
    return "SELECT name FROM sqlite_master WHERE type = 'table'"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@asynccontextmanager
async def working(url: str, agent: Agent[Any], **options: Any) -> AsyncGenerator[DurableRuns]:
    runs = DurableRuns(url, {"shop": agent}, poll=0.05, **options)
    async with runs.work(interval=0.1, drain_seconds=5):
        yield runs


async def until(done: Callable[[], Awaitable[object]]) -> None:
    with anyio.fail_after(60):
        while not await done():  # noqa: ASYNC110  what it waits for may be in another process
            await anyio.sleep(0.02)


async def end(runs: DurableRuns, run: str) -> None:
    """Answer what a run asks, until it has ended."""

    async def has_ended() -> bool:
        for pending in await runs.inbox(run_id=run):
            await runs.answer(pending.id, Allow(), by="bob")
        return (await runs.get(run)).status not in {"queued", "running", "waiting"}

    await until(has_ended)


async def has_kept_outputs(url: str) -> bool:
    """Say if the engine has written how each workflow ended, which it does after our own row."""
    counts = {name.rpartition(".")[2]: count for name, count in count_rows(url).items()}
    return counts["workflow_output"] == counts["workflow_status"]


async def test_a_removed_run_leaves_no_row(database: str, ledger: Ledger) -> None:
    """Calls on a queue, a sub-agent and an approval, removed by a process that knows none of them."""
    queues = {"q": CallQueue(tools=["look", "wire"])}
    options: dict[str, Any] = {"principal": "alice", "labels": ["team=a"]}
    async with working(database, make_agent(ledger), queues=queues) as runs:
        for name in ("a", "b", "c", "d"):
            await runs.start("shop", "Do it.", run_id=name, **options)
            await end(runs, name)
        await until(partial(has_kept_outputs, database))
        whole = count_rows(database)
        async with DurableRuns(database, {}) as client:
            await client.remove("a")
            three = count_rows(database)
            pruned = await client.prune(older_than=-1)

    assert whole.keys() > {"handrail_run", "handrail_journal", "handrail_approval"} or {
        name.rpartition(".")[2] for name in whole
    } > {"handrail_run", "handrail_journal", "handrail_approval", "workflow_output"}
    [journal] = [name for name in whole if name.endswith("_journal")]  # as often as it was written
    assert 0 < three.pop(journal) < whole.pop(journal)
    assert three == {name: count // 4 * 3 for name, count in whole.items()}
    assert (pruned, count_rows(database)) == (3, {})


async def test_a_run_that_waits_is_removed_with_its_votes(database: str) -> None:
    def ask(_call: CheckedCall) -> Decision:
        return Ask("Pay?", approvers=Approvers(count=2))

    @tool(effect=WRITE)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    async with working(database, Agent(call_once("pay"), [pay], policy=ask)) as runs:
        await runs.start("shop", "Pay.", run_id="r")
        await runs.wait("r")
        [pending] = await runs.inbox()
        counted = await runs.store.answer(pending.id, Allow(), by="alice")
        whole = count_rows(database)
        await runs.remove("r")

        assert counted.status == "counted"
        assert {name.rpartition(".")[2] for name in whole} >= {"handrail_vote", "handrail_question"}
        assert count_rows(database) == {}
        with pytest.raises(LookupError, match="There is no run 'r'"):
            await runs.remove("r")


class Slow:
    """A payment that takes long, notes how it ended, and may catch its cancellation."""

    def __init__(self) -> None:
        self.began, self.ended = anyio.Event(), anyio.Event()

    def agent(self) -> Agent[Any]:
        @tool(effect=WRITE)
        async def pay(amount: int) -> str:
            """Pay."""
            self.began.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.ended.set()
            return f"paid {amount}"

        return Agent(call_once("pay"), [pay])


async def test_a_run_under_way_is_stopped_and_writes_nothing_afterwards(database: str) -> None:
    slow = Slow()
    async with working(database, slow.agent()) as runs, DurableRuns(database, {}) as client:
        await runs.start("shop", "Pay.", run_id="r")
        await slow.began.wait()
        await client.remove("r")
        with anyio.fail_after(60):
            await slow.ended.wait()
    left = count_rows(database)  # the worker has ended, with all that it wrote

    assert left == {}


async def test_a_removal_waits_for_a_write_under_way_and_removes_what_it_wrote(
    copy_postgres: Callable[[], str], ledger: Ledger
) -> None:
    url = copy_postgres()
    async with working(url, make_agent(ledger)) as runs:
        await runs.start("shop", "Do it.", run_id="r")
        await end(runs, "r")
    async with DurableRuns(url, {}) as runs:
        with closing(psycopg.connect(url)) as writer, closing(connect(url)) as watcher:
            watcher.autocommit = True
            writer.execute("INSERT INTO handrail_journal VALUES ('r', 9, 9, 9, 9, '', '[]')")
            writer.execute("UPDATE handrail_summary SET entries = 9 WHERE run = 'r'")
            async with anyio.create_task_group() as group:
                group.start_soon(runs.remove, "r")
                waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                while not watcher.execute(waiting).fetchall():  # noqa: ASYNC110  of a server
                    await anyio.sleep(0.01)
                writer.commit()

        assert count_rows(url) == {}


@pytest.fixture
def at_point(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], object]], None]:
    """Let something happen at a point, once, before the process goes on."""

    def set_(point: str, act: Callable[[], object]) -> None:
        left = [act]
        found = points.on_point
        monkeypatch.setattr(
            points, "on_point", lambda name: left.pop()() if name == point and left else found(name)
        )

    return set_


async def remove_elsewhere(url: str) -> None:
    async with DurableRuns(url, {}) as client:
        await client.remove("r")


def run_elsewhere(act: Callable[[], Awaitable[object]]) -> None:
    """Wait for a coroutine in another thread."""
    thread = threading.Thread(target=anyio.run, args=(act,))
    thread.start()
    thread.join()


async def test_a_run_that_is_removed_while_it_starts_leaves_no_row(
    database: str, ledger: Ledger, at_point: Callable[[str, Callable[[], object]], None]
) -> None:
    async with DurableRuns(database, {"shop": make_agent(ledger)}) as runs:
        await runs.start("shop", "Do it.", run_id="other")
        whole = count_rows(database)
        at_point("run.started", lambda: run_elsewhere(partial(remove_elsewhere, database)))
        await runs.start("shop", "Do it.", run_id="r")

        assert count_rows(database) == whole


async def test_what_is_queued_while_its_run_is_removed_leaves_no_row(
    database: str, ledger: Ledger, at_point: Callable[[str, Callable[[], object]], None]
) -> None:
    """A start sees the run, and queues it before the removal is complete."""
    async with DurableRuns(database, {"shop": make_agent(ledger)}) as runs:
        await runs.start("shop", "Do it.", run_id="other")
        whole = count_rows(database)
        await runs.start("shop", "Do it.", run_id="r")
        with closing(connect(database)) as connection:
            name = "dbos.workflow_status" if "://" in database else "workflow_status"
            some = connection.execute(f"SELECT * FROM {name} WHERE workflow_uuid = 'r:0'")  # noqa: S608
            names, [row] = [column[0] for column in some.description], some.fetchall()

        def queue() -> None:
            marks = ", ".join(["%s" if "://" in database else "?"] * len(row))
            with closing(connect(database)) as connection:
                connection.execute(f"INSERT INTO {name} ({', '.join(names)}) VALUES ({marks})", row)  # noqa: S608
                connection.commit()

        at_point("runs.removed", queue)
        await runs.remove("r")

        assert count_rows(database) == whole


async def test_a_run_that_is_started_again_while_it_is_removed_goes_on(
    database: str, ledger: Ledger, at_point: Callable[[str, Callable[[], object]], None]
) -> None:
    async def start() -> None:
        async with DurableRuns(database, {"shop": make_agent(ledger)}) as runs:
            await runs.start("shop", "Do it again.", run_id="r")

    async with DurableRuns(database, {"shop": make_agent(ledger)}) as runs:
        await runs.start("shop", "Do it.", run_id="r")
        whole = count_rows(database)
        at_point("runs.removed", lambda: run_elsewhere(start))
        await runs.remove("r")

    assert count_rows(database) == whole


async def test_a_persons_runs_are_erased_and_only_digests_stay(
    database: str, ledger: Ledger
) -> None:
    slow = Slow()
    agents = {"shop": make_agent(ledger), "slow": slow.agent()}
    runs = DurableRuns(database, agents, poll=0.05)
    async with runs.work(interval=0.1, drain_seconds=5):
        for name, who in (("a", "alice"), ("b", "alice"), ("c", "bob")):
            await runs.start("shop", "Do it for me.", run_id=name, principal=who)
        await end(runs, "a")
        await runs.wait("b")
        await runs.start("slow", "Pay.", run_id="d", principal="alice")
        await slow.began.wait()
        chats = Conversations(runs.store)
        await chats.append(await chats.create("alice", "k", title="Pay"), [Prompt.of("Pay.")])
        erased = [await runs.erase("alice"), await runs.erase("alice")]
        await runs.wait("c")
        left = [run.id for run in await runs.list()]
        await runs.remove("c")
    rows = count_rows(database)
    with closing(connect(database)) as connection:
        notes = connection.execute("SELECT name, claimant FROM handrail_approval").fetchall()

    assert (erased, left) == ([3, 0], ["c"])
    assert {name.rpartition(".")[2]: count for name, count in rows.items()} == {
        "handrail_approval": 3
    }
    assert {name.partition(" ")[0] for name, _ in notes} == {"erased"}
    assert all(len(name) == len("erased ") + 64 for name, _ in notes)
    assert all(":" in text and "alice" not in text for _, text in notes)


@pytest.mark.parametrize("way", ["erase", "delete"])
async def test_a_deletion_waits_for_a_message_under_way_and_removes_it(
    copy_postgres: Callable[[], str], way: str
) -> None:
    url = copy_postgres()
    store = Conversations(url)
    await store.append(await store.create("alice", "k"), [Prompt.of("Hello.")])
    async with DurableRuns(url, {}) as runs:
        acts: dict[str, Callable[[], Awaitable[object]]] = {
            "erase": partial(runs.erase, "alice"),
            "delete": partial(store.delete, "alice", "k"),
        }
        with closing(psycopg.connect(url)) as writer, closing(connect(url)) as watcher:
            watcher.autocommit = True
            writer.execute("UPDATE handrail_conversation SET entries = 2")
            writer.execute(
                "INSERT INTO handrail_message SELECT principal, conversation, 1, run, body "
                "FROM handrail_message"
            )
            async with anyio.create_task_group() as group:
                group.start_soon(acts[way])
                waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                while not watcher.execute(waiting).fetchall():  # noqa: ASYNC110  of a server
                    await anyio.sleep(0.01)
                writer.commit()

    assert count_rows(url) == {}


def test_an_id_with_a_slash_is_refused(sqlite: str, ledger: Ledger) -> None:
    """Keys of calls begin with the id and a slash: a run `a/b` would look like a call of `a`."""

    async def start() -> None:
        async with DurableRuns(sqlite, {"shop": make_agent(ledger)}) as runs:
            await runs.start("shop", "Do it.", run_id="a/b")

    with pytest.raises(ValueError, match="must not have a slash: 'a/b'"):
        anyio.run(start)


COPIED = {
    "handrail_run": ("id",),
    "handrail_summary": ("run",),
    "handrail_journal": ("run",),
    "handrail_step": ("run",),
    "handrail_turn": ("run",),
    "handrail_called": ("run",),
    "handrail_call": ("run", "key"),
    "handrail_state": ("run",),
    "workflow_status": ("workflow_uuid",),
    "workflow_input": ("workflow_uuid",),
    "workflow_output": ("workflow_uuid",),
}
"""Tables of a run that has ended, and the columns that begin with its id."""


def copy_run(url: str, count: int, principal: str = "") -> None:
    """Add copies of the run `r`, all in the past, perhaps on behalf of another principal."""
    is_postgres = url.startswith("postgresql")
    numbers = json.dumps(list(range(1, count + 1)))
    array = "json_array_elements_text(CAST(%(numbers)s AS json)) AS n(value)"
    series = array if is_postgres else "json_each(:numbers) AS n"
    with closing(connect(url)) as connection:
        for table, keys in COPIED.items():
            name = f"dbos.{table}" if is_postgres and table.startswith("workflow") else table
            some = connection.execute(f"SELECT * FROM {name} LIMIT 1")  # noqa: S608
            columns = [column[0] for column in some.description]
            changed = {key: f"'r' || n.value || substr(t.{key}, 2)" for key in keys}
            number = "CAST(n.value AS INTEGER)"
            changed |= {"changed": f"1.0 * {number}"} if table == "handrail_run" else {}
            place = f"t.place + {number} * 1000"
            changed |= {"place": place} if table == "handrail_journal" else {}
            chosen = ", ".join(changed.get(column, f"t.{column}") for column in columns)
            connection.execute(
                f"INSERT INTO {name} SELECT {chosen} FROM {name} t CROSS JOIN {series} "  # noqa: S608
                f"WHERE substr(t.{keys[0]}, 2, 1) NOT BETWEEN '0' AND '9'",
                {"numbers": numbers},
            )
        if principal:
            connection.execute(f"UPDATE handrail_run SET principal = '{principal}' WHERE id <> 'r'")  # noqa: S608
        connection.commit()


async def run_once(url: str) -> None:
    """Let one run end: three turns of three calls."""
    script = tuple(tuple(("look", {"place": f"{n}"}) for n in range(3)) for _ in range(3))
    ledger = Ledger(Path(url + ".ledger") if "://" not in url else Path(os.devnull))
    async with working(url, make_agent(ledger, make_model(script))) as runs:
        await runs.start("shop", "Look.", run_id="r")
        await end(runs, "r")


PRUNE = """
import sys, anyio
from handrail.runs.durable import DurableRuns

async def main():
    async with DurableRuns(sys.argv[1], {}) as runs:
        print("ready", flush=True)
        await getattr(runs, sys.argv[2])(**eval(sys.argv[3]))

anyio.run(main)
"""
KILLS = 60 if SOAK else 3


async def test_a_killed_removal_removes_runs_whole_or_not_at_all(
    database: str, tmp_path: Path
) -> None:
    await run_once(database)
    whole = count_rows(database)
    chance = random.Random(3)  # noqa: S311  only a test
    left: list[int] = []
    for _ in range(KILLS):
        await to_thread.run_sync(copy_run, database, 600)
        process = await anyio.open_process(
            [sys.executable, "-c", PRUNE, database, "prune", "{'older_than': 3600}"], stderr=None
        )
        assert process.stdout is not None
        await process.stdout.receive()
        await anyio.sleep(chance.uniform(0, 0.2))  # at any point of it
        with suppress(ProcessLookupError):  # it can have ended
            process.send_signal(signal.SIGKILL)
        await process.wait()
        await until(partial(to_thread.run_sync, is_alone, database))  # a server ends what it began
        rows = count_rows(database)
        [runs] = {count / whole[name] for name, count in rows.items()}  # of each table as many
        left.append(int(runs) - 1)
        async with DurableRuns(database, {}) as client:
            assert await client.prune(older_than=3600) == left[-1]

    print(f"\n{KILLS} kills of a removal of 600 runs, runs left: {left}")  # noqa: T201
    assert count_rows(database) == whole
    assert not SOAK or len(set(left)) > 2  # before, between and after its transactions


KILLED = """
import os, signal, sys, anyio
from handrail.runs.durable import DurableRuns
from runs.durable.statements import LISTENERS, watching

async def main():
    left = int(sys.argv[3])

    def count(*_):
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    async with DurableRuns(sys.argv[1], {}) as runs:
        LISTENERS.append(count)
        await getattr(runs, sys.argv[2])(**eval(sys.argv[4]))

with watching():
    anyio.run(main)
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("prune", {"older_than": 3600}),
        ("erase", {"principal": "alice"}),
        ("remove", {"run_id": "r1"}),
    ],
)
async def test_a_removal_killed_before_any_statement_leaves_whole_runs_and_can_be_repeated(
    database: str, method: str, given: dict[str, Any]
) -> None:
    await run_once(database)
    whole, copies = count_rows(database), 1 if method == "remove" else 2
    left: list[int] = []
    while not left or left[-1] > -1:
        await to_thread.run_sync(copy_run, database, copies, "alice")
        command = [sys.executable, "-c", KILLED, database, method, str(len(left) + 1), str(given)]
        path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = await anyio.run_process(command, env=path, check=False)
        await until(partial(to_thread.run_sync, is_alone, database))
        rows = drop_notes(count_rows(database))
        [runs] = {count / whole[name] for name, count in rows.items()}  # of each table as many
        left.append(int(runs) - 1 if done.returncode == -signal.SIGKILL else -1)
        async with DurableRuns(database, {}) as client:
            if runs > 1:
                await getattr(client, method)(**given)
        assert drop_notes(count_rows(database)) == whole

    print(f"\n{method}: killed before {len(left) - 1} statements, runs left: {left[:-1]}")  # noqa: T201
    assert set(left[:-1]) == {copies, 0}


def drop_notes(rows: dict[str, int]) -> dict[str, int]:
    """Leave out what says that runs were erased."""
    return {name: count for name, count in rows.items() if not name.endswith("handrail_approval")}


def is_alone(url: str) -> bool:
    """Whether no other connection to PostgreSQL is open."""
    if not url.startswith("postgresql"):
        return True
    others = (
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid()"
    )
    with closing(connect(url)) as connection:
        return connection.execute(others).fetchone()[0] == 0


MANY = 100_000 if SOAK else 450


@pytest.mark.timeout(3600)
async def test_many_runs_are_removed_fast_and_in_little_memory(database: str) -> None:
    await run_once(database)
    whole = count_rows(database)
    await to_thread.run_sync(copy_run, database, MANY)
    async with DurableRuns(database, {}) as client:
        first = await client.prune(older_than=3600, max_seconds=0)
        before, began = peak_kilobytes(), time.monotonic()
        rest = await client.prune(older_than=3600)
    seconds, more = time.monotonic() - began, peak_kilobytes() - before

    print(f"\n{rest} runs in {seconds:.1f} s: {rest / seconds:.0f} runs/s, {more // 1024} MB more")  # noqa: T201
    assert (first, first + rest, count_rows(database)) == (200, MANY, whole)
    assert more < 64 * 1024
    assert not SOAK or rest / seconds >= 500


def peak_kilobytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
