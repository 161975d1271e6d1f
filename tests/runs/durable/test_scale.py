"""Long runs, many runs at once, and many that wait: what they cost must not grow with their number."""

from __future__ import annotations

import os
import re
import resource
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from anyio import to_thread

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Text,
    tool,
)
from handrail.agent import Agent, Limits
from handrail.messages import Reply, Request, ToolResults
from handrail.runs._sealing.compression import decompress
from handrail.runs.durable import DurableRuns
from runs.durable.statements import counting

SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
TURNS, SEGMENT = (1000, 20) if SOAK else (20, 5)
AT_ONCE = 1000 if SOAK else 40
PARKED, ANSWERED = (100_000, 200) if SOAK else (300, 5)


@pytest.fixture(params=["sqlite", "postgres"] if SOAK else ["sqlite"])
def large(request: pytest.FixtureRequest) -> str:
    """A database for a long run."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite"))
    return str(request.getfixturevalue("copy_postgres")())


@pytest.fixture(params=["sqlite", "postgres"] if SOAK else ["postgres"])
def crowded(request: pytest.FixtureRequest) -> str:
    """A database for many runs that wait."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite"))
    return str(request.getfixturevalue("copy_postgres")())


@tool(effect=READ)
async def look(place: int) -> str:
    """Look at a place."""
    return f"saw {place}"


@tool(effect=WRITE, touches=lambda amount: Access(WRITE, f"account:{amount}"))
async def pay(amount: int) -> str:
    """Pay to an account."""
    return f"paid {amount}"


def turns_of(request: Request) -> int:
    return sum(isinstance(message, ToolResults) for message in request.messages)


def call_ten(turn: int, name: str, argument: str) -> Reply:
    return Reply(tuple(Call(name, {argument: n}, f"{turn}-{n}") for n in range(10)))


@pytest.mark.parametrize(
    ("name", "argument", "more"), [("look", "place", 0), ("pay", "amount", 20)]
)
async def test_a_turn_costs_few_statements_and_two_more_for_each_payment(
    database: str, name: str, argument: str, more: int
) -> None:
    """One for its reply. In one transaction: four for its events, the first also for its results.

    On PostgreSQL, that transaction is one statement.
    """
    per_turn = more + (2 if database.startswith("postgresql:") else 5)
    seen: list[int] = []

    async def model(request: Request) -> Reply:
        turn = turns_of(request)
        seen.append(sum(not one.startswith("SELECT") for one in statements))
        return call_ten(turn, name, argument) if turn < 4 else Reply((Text("done"),))

    with counting("handrail_") as statements:
        runs = DurableRuns(database, {"a": Agent(model, [look, pay])}, poll=0.05)
        async with runs.work(interval=60):
            run = await runs.start("a", "Go.")
            with anyio.fail_after(60):
                while len(seen) < 5:  # noqa: ASYNC110  a look at the run is a statement
                    await anyio.sleep(0.02)
            await runs.wait(run)

    grown = [after - before for before, after in pairwise(seen[1:])]
    assert grown == [per_turn] * 3


@pytest.mark.timeout(3600)
async def test_a_long_run_writes_and_costs_as_much_at_its_end_as_at_its_start(large: str) -> None:
    cpu: list[float] = []
    stop = anyio.Event()

    async def model(request: Request) -> Reply:
        turn = turns_of(request)
        cpu.append(time.process_time())
        if turn == TURNS - SEGMENT // 2 and not stop.is_set():
            stop.set()
        return call_ten(turn, "look", "place") if turn < TURNS else Reply((Text("done"),))

    agent = Agent(model, [look], limits=Limits(turns=TURNS + 1))
    poll = 0.5 if SOAK else 0.05  # looks for work are no part of a turn
    first, runs = [
        DurableRuns(large, {"a": agent}, poll=each, segment_turns=SEGMENT) for each in (poll, 0.05)
    ]
    async with first.work(interval=60):
        await first.start("a", "Go.", run_id="r")
        await stop.wait()
    seen = len(cpu)
    began = time.monotonic()
    async with runs.work(interval=60):
        with anyio.fail_after(60):
            while len(cpu) == seen:  # noqa: ASYNC110  the model is not asked by this task
                await anyio.sleep(0.005)
        recovered = time.monotonic() - began
        done = await runs.wait("r")
        states = await runs._rows.states_of("r", TURNS)  # noqa: SLF001  what no user sees

    sizes = [len(body) for body in states]
    assert (done.text, done.state and done.state.calls) == ("done", 10 * TURNS)
    assert max(sizes[1:-1]) <= 1.2 * min(sizes[1:-2])  # the first and the last ones are shorter
    if SOAK:
        tenth = TURNS // 10
        start, end = cpu[2 * tenth] - cpu[tenth], cpu[9 * tenth] - cpu[8 * tenth]
        print(  # noqa: T201  the summary of a long run
            f"\n{10 * TURNS} calls: {start / tenth:.5f} s of CPU per turn at the start, "
            f"{end / tenth:.5f} at the end ({end / start:.2f} times), continued after {recovered:.2f} s"
        )
        assert end <= 1.2 * start


@pytest.mark.timeout(3600)
async def test_one_worker_holds_many_runs_at_once(large: str) -> None:
    arrived = 0
    everyone = anyio.Event()

    async def model(request: Request) -> Reply:
        nonlocal arrived
        if turns_of(request):
            return Reply((Text("done"),))
        arrived += 1
        if arrived == AT_ONCE:
            everyone.set()
        await everyone.wait()
        return Reply((Call("look", {"place": 1}, "1"),))

    runs = DurableRuns(large, {"a": Agent(model, [look])}, poll=0.1)
    began = time.monotonic()
    async with runs.work(slots=AT_ONCE, drain_seconds=5):
        ids = [await runs.start("a", "Go.") for _ in range(AT_ONCE)]
        with anyio.fail_after(1800):
            texts = {(await runs.wait(run)).text for run in ids}
    print(f"\n{AT_ONCE} runs at once in {time.monotonic() - began:.1f} s")  # noqa: T201

    assert texts == {"done"}


def ask(call: CheckedCall) -> Decision:
    return Ask("Pay?") if call.name == "pay" else Allow()


COPIES = """
INSERT INTO handrail_run SELECT replace(id, 'run0', 'run' || n), agent, principal, status, segment,
  began, changed, outcome, 0, '', metadata, app FROM handrail_run, numbers WHERE id = 'run0';
INSERT INTO handrail_question SELECT replace(id, 'run0', 'run' || n), 'run' || n, segment,
  {pending}, expires, NULL, NULL, 0
  FROM handrail_question, numbers WHERE run = 'run0';
INSERT INTO handrail_state SELECT 'run' || n, segment, {body}
  FROM (SELECT run, segment, body FROM handrail_state UNION ALL
  SELECT run, segment, body FROM handrail_journal WHERE first = 1) AS s, numbers WHERE run = 'run0';
CREATE TEMP TABLE copied AS SELECT w.*, n FROM dbos.workflow_status w,
  numbers WHERE workflow_uuid = 'run0:1';
UPDATE copied SET workflow_uuid = 'run' || n || ':1', inputs = replace(inputs, 'run0', 'run' || n);
INSERT INTO dbos.workflow_input SELECT 'run' || n || ':1', replace(inputs, 'run0', 'run' || n),
  retention_timestamp FROM dbos.workflow_input, numbers WHERE workflow_uuid = 'run0:1';
ALTER TABLE copied DROP COLUMN n;
INSERT INTO dbos.workflow_status SELECT * FROM copied;
ANALYZE
"""
"""The rows of one run that waits, again and again."""


LONG = (
    ("handrail_question", "pending"),
    ("handrail_state", "body"),
    ("handrail_journal", "body"),
)
"""Columns of it that are bytes."""


def resident() -> int:
    """The memory of this process now, in KiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() // 1024


def unpack(connection: Any, mark: str) -> None:
    """Store long texts as they are, so that SQL can copy them."""
    for table, name in LONG:
        read = f"SELECT {name} FROM {table} WHERE {name} IS NOT NULL"  # noqa: S608
        for (stored,) in connection.execute(read).fetchall():
            plain = f"UPDATE {table} SET {name} = {mark} WHERE {name} = {mark}"  # noqa: S608
            connection.execute(plain, (decompress(stored).encode(), stored))


def copy_parked(url: str, count: int = PARKED) -> None:
    if url.startswith("postgresql"):
        part = "convert_to(replace(convert_from({}, 'UTF8'), 'run0', 'run' || n), 'UTF8')"
        copies = COPIES.format(**{name: part.format(name) for _, name in LONG})
        with psycopg.connect(url) as connection:
            unpack(connection, "%s")
            connection.execute(  # type: ignore[call-overload]
                f"CREATE TEMP TABLE numbers AS SELECT generate_series(1, {count}) AS n; {copies}"
            )
        return
    with closing(sqlite3.connect(url)) as file:
        unpack(file, "?")
        file.commit()
    copies = COPIES.format(**{name: f"replace({name}, 'run0', 'run' || n)" for _, name in LONG})
    script = (
        "CREATE TEMP TABLE numbers AS WITH RECURSIVE c(n) AS "  # noqa: S608  our own number
        f"(SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {count}) SELECT n FROM c; {copies}"
    )
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])"
    command = [sys.executable, "-c", program, url, script.replace("dbos.", "")]
    subprocess.run(command, check=True)  # noqa: S603  not in the memory of this process


@pytest.mark.timeout(3600)
async def test_runs_that_wait_cost_a_worker_nothing(crowded: str) -> None:
    resumed: dict[str, float] = {}

    async def model(request: Request) -> Reply:
        if turns_of(request):
            return Reply((Text("done"),))
        return Reply((Call("pay", {"amount": 1}, "1"),))

    @tool(effect=WRITE, name="pay")
    async def note(amount: int, context: Context) -> str:
        """Pay."""
        resumed[context.run_id] = time.monotonic()
        return f"paid {amount}"

    runs = DurableRuns(crowded, {"a": Agent(model, [note], policy=ask)})
    async with runs.work():
        await runs.start("a", "Go.", run_id="run0")
        await runs.wait("run0")
        memory = resident()
        await to_thread.run_sync(copy_parked, crowded)
        cpu, began = time.process_time(), time.monotonic()
        await anyio.sleep(10 if SOAK else 0.5)  # several looks
        idle = (time.process_time() - cpu) / (time.monotonic() - began)
        grown = resident() - memory
        active = len(runs._segments.calls.active)  # noqa: SLF001  no user needs it
        delays = [
            await approve(runs, f"run{n * (PARKED // ANSWERED) + 1}", resumed)
            for n in range(ANSWERED)
        ]

    delays.sort()
    p50, p99 = delays[len(delays) // 2], delays[int(len(delays) * 0.99)]
    print(  # noqa: T201  the summary of a long run
        f"\n{PARKED} parked: {active} active, {grown} KiB more memory, {100 * idle:.1f} % of a core; "
        f"approve to resumed p50 {p50:.2f} s, p99 {p99:.2f} s, max {delays[-1]:.2f} s"
    )
    assert active == 0
    assert not SOAK or (p99 < 1 and grown < 6144)  # KiB; SQLite keeps pages in this process


class Anything(dict[str, object]):
    """Values for any statement: how it is planned does not depend on them."""

    def __missing__(self, name: str) -> str:
        return "[]" if name == "names" else "1"


def explain(path: str, statement: str) -> list[str]:
    """Return how SQLite reads tables for a statement."""
    with closing(sqlite3.connect(path)) as file:
        return [row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {statement}", Anything())]


async def test_a_look_for_work_reads_no_run_that_waits(sqlite: str) -> None:
    async def model(_request: Request) -> Reply:
        return Reply((Call("pay", {"amount": 1}, "1"),))

    runs = DurableRuns(sqlite, {"a": Agent(model, [pay], policy=ask)}, poll=0.02)
    async with runs.work(interval=0.02):
        await runs.start("a", "Go.", run_id="run0")
        await runs.wait("run0")
        await to_thread.run_sync(copy_parked, sqlite)
        with counting("SELECT") as asked, anyio.fail_after(60):
            while len(asked) < 150:  # noqa: ASYNC110  statements of other tasks
                await anyio.sleep(0.02)
    often = [one for one, count in Counter(asked).items() if count > 1]
    steps = [step for one in often for step in explain(sqlite, one)]

    assert len(often) == 7
    assert sorted(step for step in steps if step.startswith("SCAN")) == [
        "SCAN CONSTANT ROW",
        "SCAN handrail_worker USING INDEX sqlite_autoindex_handrail_worker_1",
        "SCAN p USING COVERING INDEX sqlite_autoindex_handrail_piece_1",  # of replies under way
        "SCAN q USING INDEX handrail_question_answered",
        "SCAN q VIRTUAL TABLE INDEX 1:",
        "SCAN workflow_status USING INDEX idx_workflow_status_pending",
        "SCAN workflow_status USING INDEX idx_workflow_status_pending",
    ]


def explain_for_all(url: str, statement: str) -> list[str]:
    """Return how PostgreSQL reads tables for a statement, whatever its values are."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    for number, name in enumerate(names, 1):
        statement = statement.replace(f"%({name})s", f"${number}")
    values = f"({', '.join(['NULL'] * len(names))})" if names else ""
    with psycopg.connect(url) as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.execute(f"PREPARE look AS {statement.replace('%%', '%')}".encode())
        return [row[0] for row in connection.execute(f"EXPLAIN EXECUTE look{values}".encode())]


async def test_a_look_for_work_uses_an_index_of_the_server(copy_postgres: Any) -> None:
    async def model(_request: Request) -> Reply:
        return Reply((Call("pay", {"amount": 1}, "1"),))

    url = copy_postgres()
    runs = DurableRuns(url, {"a": Agent(model, [pay], policy=ask)}, poll=0.02)
    async with runs.work(interval=0.02):
        await runs.start("a", "Go.", run_id="run0")
        await runs.wait("run0")
        await to_thread.run_sync(copy_parked, url, 5_000)
        with counting("SELECT") as asked, anyio.fail_after(60):
            while len(asked) < 150:  # noqa: ASYNC110  statements of other tasks
                await anyio.sleep(0.02)
    often = {one for one, count in Counter(asked).items() if count > 1 and "_" in one}
    scans = {line.strip(" ->").partition("  ")[0] for one in often for line in scans_of(url, one)}

    assert len(often) >= 6
    assert scans == set()


def scans_of(url: str, statement: str) -> list[str]:
    """Return the tables of runs that PostgreSQL reads as a whole."""
    whole = [line for line in explain_for_all(url, statement) if "Seq Scan on" in line]
    return [line for line in whole if "handrail_worker" not in line and "piece" not in line]


async def approve(runs: DurableRuns, run: str, resumed: dict[str, float]) -> float:
    """Answer the question of a run. Returns the seconds until its call runs."""
    began = time.monotonic()
    await runs.answer(f"{run}~1~1~0", Allow())
    with anyio.fail_after(60):
        while run not in resumed:  # noqa: ASYNC110  a tool of the worker
            await anyio.sleep(0.002)
    return resumed[run] - began
