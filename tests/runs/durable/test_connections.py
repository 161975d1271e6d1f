"""Connections to PostgreSQL: how many write at once, and those that no session keeps."""

from __future__ import annotations

from typing import Any

import anyio
import psycopg
import pytest
from anyio import to_thread

from handrail import HandrailError
from handrail.runs.durable import DurableRuns
from runs.durable.pooler import pooling

POOLED = (
    "127.0.0.1/{} lends a connection for one transaction at a time, as pgbouncer does with "
    "`pool_mode=transaction`. Durable runs need sessions: a lock of a session proves that a worker "
    "lives. Use `pool_mode=session`, or connect to PostgreSQL directly."
)


async def open_runs(url: str) -> str:
    """Open runs, and return why that is refused."""
    try:
        async with DurableRuns(url, {}):
            return ""
    except HandrailError as error:
        return str(error)


@pytest.mark.parametrize("round_robin", [False, True])
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_connections_for_one_transaction_are_refused(
    database: str, *, round_robin: bool
) -> None:
    with pooling(database, round_robin=round_robin) as pooler:
        await to_thread.run_sync(pooler.fill, 3)
        refused = await open_runs(pooler.url)

    assert refused == POOLED.format(database.rpartition("/")[2])


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_connections_for_a_session_are_not_refused(database: str) -> None:
    assert await open_runs(database) == ""


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "UTF8"])
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_a_database_that_does_not_know_every_character_is_refused(
    database: str, encoding: str
) -> None:
    name, url = "encoded", f"{database.rpartition('/')[0]}/encoded"
    with psycopg.connect(database, autocommit=True) as connection:
        create = f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        connection.execute(create.encode())
        try:
            refused = await open_runs(url)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    said = "create the database with `ENCODING 'UTF8' TEMPLATE template0`."
    assert refused == (
        "" if encoding == "UTF8" else f"127.0.0.1/{name} has the encoding SQL_ASCII: {said}"
    )


@pytest.mark.parametrize(("options", "most"), [({}, 8), ({"writers": 1}, 1), ({"writers": 6}, 6)])
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_so_many_transactions_write_at_once(
    database: str, options: dict[str, Any], most: int
) -> None:
    waiting = (
        "SELECT COUNT(*) FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    seen: list[int] = []
    async with DurableRuns(database, {}, **options) as runs:
        with psycopg.connect(database) as blocker:
            blocker.execute("LOCK TABLE handrail_worker")
            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(runs._rows.add_worker, str(number), "1")  # noqa: SLF001
                with anyio.fail_after(60):
                    while seen.count(most) < 5:  # it stays so
                        [(count,)] = await runs._database.read(waiting)  # noqa: SLF001
                        seen.append(count)
                blocker.rollback()
        added = await runs._rows.workers_of("1")  # noqa: SLF001

    assert (max(seen), len(added)) == (most, 8)


async def test_a_number_of_writers_below_one_is_refused(sqlite: str) -> None:
    with pytest.raises(ValueError, match="`writers` must be at least 1, not 0"):
        DurableRuns(sqlite, {}, writers=0)
