"""Whoever only reads runs needs no engine: SQLite needs nothing, and PostgreSQL only its driver."""

from __future__ import annotations

import subprocess
import sys

import pytest

from handrail.agent import Agent
from handrail.runs.durable import DurableRuns

READ = """
from contextlib import closing
from handrail.runs import open_journal, open_records
with closing(open_records(where)) as records:
    print([row.id for row in records.runs().rows])
with open_journal(where) as journal:
    print([entry.kind for entry in journal.read("r")])
"""
WORK = """
from handrail.runs.durable import DurableRuns
DurableRuns(where, {})
"""
LOADED = """
import sys
print(sorted({"dbos", "psycopg", "sqlalchemy"} & set(sys.modules)))
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


@pytest.fixture
async def where(database: str) -> str:
    async with DurableRuns(database, {"a": Agent(lambda _request: None)}) as runs:  # type: ignore[arg-type,return-value]
        await runs.start("a", "Look.", run_id="r")
    return database


async def test_readers_load_no_engine(where: str) -> None:
    drivers = ["psycopg"] if where.startswith("postgresql") else []

    assert run_program(READ, where) == ["['r']", "['status', 'prompt']", str(drivers)]
    assert run_program(WORK, where) == ["['dbos', 'psycopg', 'sqlalchemy']"]
