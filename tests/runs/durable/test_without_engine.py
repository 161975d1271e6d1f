"""Whoever reads and answers needs no engine: SQLite needs nothing, PostgreSQL only its driver."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from handrail import Call, CheckedCall, HandrailError, Text, tool
from handrail.agent import Agent
from handrail.messages import Reply, Request, ToolResults
from handrail.permissions import Ask
from handrail.runs import JournalError, open_runs
from handrail.runs.durable import DurableRuns

REFUSE = """
import sys
for name in ("dbos", "sqlalchemy"):
    sys.modules[name] = None  # as if it were not installed
"""
READ = """
from contextlib import closing
from handrail.runs import open_runs
with closing(open_runs(where).records()) as records:
    print([row.id for row in records.runs().rows], len(records.inbox().rows))
with open_runs(where) as runs:
    print(runs.head("r").status)
"""
ANSWER = """
import anyio
from handrail import Allow
from handrail.runs import open_runs
from handrail.runs.durable import DurableRuns

async def main():
    async with DurableRuns(where, {}) as runs:
        [pending] = await runs.inbox()
        print((await runs.get("r")).status, [run.id for run in await runs.list()])
    print((await open_runs(where).answer(pending.id, Allow(), by="jo")).text)

anyio.run(main)
"""
COMMAND = """
from handrail.cli._main import main

def command(*words):
    sys.argv = ["handrail", "runs", *words, "--database", where]
    try:
        main()
    except SystemExit as end:
        print(end.code)
"""
INBOX = """
command("inbox")
"""
DELETE = """
command("cancel", "r")
command("prune", "r")
command("inbox")
"""
START = """
import anyio
from handrail.agent import Agent
from handrail.runs.durable import DurableRuns

async def model(request):
    raise NotImplementedError

async def main():
    async with DurableRuns(where, {"a": Agent(model)}) as runs:
        await runs.start("a", "Go.")

anyio.run(main)
"""
TABLES = """
import sys
from contextlib import closing
from handrail.runs._store.database import Database
from handrail.runs._store.schema import migrate
with closing(Database(where)) as database:
    migrate(database)
    rows = database.read_now("SELECT name FROM sqlite_master WHERE type = 'table'", {})
print(*sorted({name.partition("_")[0] for (name,) in rows}))
print(*sorted({"handrail.agent", "handrail.providers", "pydantic"} & set(sys.modules)))
"""
LOADED = """
import sys
found = {"dbos", "psycopg", "sqlalchemy"} & {name for name, one in sys.modules.items() if one}
print(*sorted(found))
"""


def run_program(text: str, where: str) -> list[str]:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", f"where = {where!r}\n{text}{LOADED}"],
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    return done.stdout.splitlines()


@tool
async def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


async def model(request: Request) -> Reply:
    if isinstance(request.messages[-1], ToolResults):
        return Reply((Text("Done."),))
    return Reply((Call("refund", {"order": "A1"}, "c1"),))


def policy(_call: CheckedCall) -> Ask:
    return Ask("Refund A1?")


AGENT = Agent(model, [refund], policy=policy)


@pytest.fixture
async def where(database: str) -> str:
    """A database with a run that waits for a person."""
    runs = DurableRuns(database, {"a": AGENT}, poll=0.05)
    async with runs.work(interval=0.1):
        await runs.wait(await runs.start("a", "Refund A1.", run_id="r"))
    return database


async def test_readers_and_who_answers_load_no_engine(where: str) -> None:
    driver = "psycopg" if where.startswith("postgresql") else ""
    [runs_, status, _, inbox, code, *rest] = run_program(
        REFUSE + READ + COMMAND + INBOX + ANSWER, where
    )
    runs = DurableRuns(where, {"a": AGENT}, poll=0.05)
    async with runs:
        queued = await runs._workflows.find("r:1")  # noqa: SLF001  by the answer itself
    async with runs.work(interval=0.1):
        with anyio.fail_after(40):
            while (done := await runs.get("r")).status != "done":  # noqa: ASYNC110
                await anyio.sleep(0.02)

    assert (runs_, status) == ("['r'] 1", "waiting")
    assert (inbox.split()[:3], code) == (["r", "c1", "refund"], "0")
    assert rest == ["waiting ['r']", "Approved.", driver]
    assert (queued, done.text) == ("queued", "Done.")


async def test_commands_that_end_and_delete_runs_load_no_engine(where: str) -> None:
    driver = "psycopg" if where.startswith("postgresql") else ""
    printed = run_program(REFUSE + COMMAND + DELETE, where)
    async with DurableRuns(where, {}) as runs:
        left = await runs.list(), await runs._workflows.find("r:0")  # noqa: SLF001

    assert printed == [
        "r  cancelled",
        "0",
        "r  deleted",
        "1 run deleted",
        "0",
        "no calls wait",
        "0",
        driver,
    ]
    assert left == ((), None)


def test_our_tables_need_no_engine_and_no_agent(tmp_path: Path) -> None:
    printed = run_program(TABLES, str(tmp_path / "runs.db"))

    assert printed == ["handrail", "", ""]


async def test_runs_that_no_engine_has_are_shown_and_deleted(
    create_database: Callable[[], str],
) -> None:
    begin = (
        "INSERT INTO handrail_run (id, agent, status, segment, began, changed) "
        "VALUES (:id, 'a', 'running', 0, 1, 1)"
    )
    async with DurableRuns(create_database(), {}) as runs:
        for run in ("r", "s"):
            await runs._database.write(begin, id=run)  # noqa: SLF001
        status = (await runs.get("r")).status
        adopted = await runs.adopt("0")
        cancelled = await runs.cancel("r")
        removed = await runs.prune(older_than=-1)
        await runs.remove("s")

        assert (status, adopted, cancelled, removed) == ("running", 0, True, 1)
        assert await runs.list() == ()


async def test_who_starts_runs_loads_the_engine(sqlite: str) -> None:
    assert run_program(START, sqlite) == ["dbos psycopg sqlalchemy"]


async def test_a_database_that_no_engine_has_used_has_no_fleet(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    async with DurableRuns(path, {}) as runs:
        listed = await runs.list()
    records = open_runs(path).records()
    fleet = records.fleet()
    records.close()

    assert (listed, fleet) == ((), None)


async def test_tables_of_the_engine_that_cannot_be_read_are_an_error(sqlite: str) -> None:
    async with DurableRuns(sqlite, {}) as runs:
        await runs._database.write("ALTER TABLE workflow_status RENAME COLUMN status TO other")  # noqa: SLF001
    with (
        closing(open_runs(sqlite).records()) as records,
        pytest.raises(JournalError, match="status"),
    ):
        records.fleet()


async def test_without_the_engine_the_message_names_its_extra(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "handrail.runs._engine.dbos_engine", raising=False)
    monkeypatch.setitem(sys.modules, "dbos", None)

    async with DurableRuns(sqlite, {"a": AGENT}) as runs:
        with pytest.raises(HandrailError, match=r"package dbos\. .*'handrail\[durable\]'"):
            await runs.start("a", "Refund A1.")
        assert await runs.list() == ()  # nothing has begun
