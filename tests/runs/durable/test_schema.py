"""The tables of runs: numbered migrations, who may use them, and the SQL for their owner."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from cli_harness import Handrail, Schemas, made
from handrail import HandrailError, Text
from handrail.agent import Agent
from handrail.messages import Reply, Request
from handrail.runs import RunStore, open_runs
from handrail.runs._store.database import Database
from handrail.runs._store.port import DatabaseError
from handrail.runs._store.schema import MIGRATIONS, Migration, find_missing, migrate
from handrail.runs.durable import DurableRuns
from handrail.runs.migrating import migrate_tables, write_migrations
from services import find_binaries

NEXT = "ALTER TABLE handrail_run ADD COLUMN next TEXT; CREATE INDEX next ON handrail_run (next);"
WITH_NEXT = (*MIGRATIONS, Migration(len(MIGRATIONS) + 1, NEXT, NEXT))
BREAKING = (*MIGRATIONS, Migration(len(MIGRATIONS) + 1, NEXT, NEXT, is_breaking=True))
VALUES = {"TEXT": "x", "INTEGER": 1, "BIGINT": 1, "DOUBLE PRECISION": 1.0, "BYTEA": "x"}

Tables = dict[str, list[tuple[Any, ...]]]


def read(url: str, sql: str) -> list[tuple[Any, ...]]:
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as server:
            return server.execute(sql.encode()).fetchall()
    with closing(sqlite3.connect(url)) as file:
        return file.execute(sql).fetchall()


def execute(url: str, sql: str) -> None:
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(sql.encode())


def read_tables(url: str) -> Tables:
    """The columns of each table with their types, and the indexes."""
    if url.startswith("postgresql"):
        columns = read(
            url,
            "SELECT table_schema || '.' || table_name, column_name, upper(data_type), is_nullable, "
            "column_default FROM information_schema.columns "
            "WHERE table_schema IN ('public', 'dbos') ORDER BY table_name, ordinal_position",
        )
        sql = "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname IN ('public', 'dbos')"
    else:
        columns = read(
            url,
            'SELECT m.name, c.name, c.type, c."notnull", c.dflt_value, c.pk FROM sqlite_master m '
            "JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name LIKE 'handrail_%' "
            "ORDER BY m.name, c.cid",
        )
        sql = "SELECT tbl_name, sql FROM sqlite_master WHERE type = 'index' AND name LIKE 'handrail_%'"
    tables: Tables = {}
    for name, *about in columns:
        tables.setdefault(name.removeprefix("public."), []).append(tuple(about))
    return {**tables, "indexes": sorted(read(url, sql))}


async def add_rows(database: Database, tables: Tables) -> None:
    """Add a row to each table of ours, as if there were runs."""
    for name, columns in tables.items():
        if name.startswith("handrail_") and name != "handrail_schema":
            values = {column[0]: VALUES[column[1]] for column in columns}
            names = ", ".join(f":{column}" for column in values)
            await database.write(f"INSERT INTO {name} VALUES ({names})", **values)  # noqa: S608


@pytest.fixture
def handrail(tmp_path: Path) -> Handrail:
    return made(tmp_path)


@pytest.mark.parametrize("migrations", [MIGRATIONS, WITH_NEXT])
async def test_every_part_of_the_migrations_can_be_continued(
    create_database: Callable[[], str], migrations: tuple[Migration, ...]
) -> None:
    new = create_database()
    with closing(Database(new)) as database:
        applied = migrate(database, migrations)
    for count in range(len(migrations)):
        with closing(Database(older := create_database())) as database:
            migrate(database, migrations[:count])
            await add_rows(database, read_tables(older))
            rest = migrate(database, migrations)
            again = migrate(database, migrations)

        assert (rest, again) == (migrations[count:], ())
        assert read_tables(older) == read_tables(new)
        kept = read(older, "SELECT id FROM handrail_run")
        assert kept == ([("x",)] if count else [])
    assert applied == migrations
    assert [row[:2] for row in read(new, "SELECT * FROM handrail_schema ORDER BY number")] == [
        (one.number, int(one.is_breaking)) for one in migrations
    ]


async def test_a_migration_that_fails_changes_nothing(create_database: Callable[[], str]) -> None:
    text = (
        "CREATE TABLE handrail_more (x TEXT); ALTER TABLE handrail_run ADD COLUMN y TEXT NOT NULL;"
    )
    wrong = (*MIGRATIONS, Migration(len(MIGRATIONS) + 1, text, text))
    with closing(Database(url := create_database())) as database:
        migrate(database)
        before = read_tables(url)
        await add_rows(database, before)
        with pytest.raises(DatabaseError, match=r"(?i)Cannot use .* null"):
            migrate(database, wrong)

    assert read_tables(url) == before


async def test_tables_of_a_newer_version_are_used_unless_it_says_that_they_must_not(
    create_database: Callable[[], str],
) -> None:
    said: list[str] = []
    for migrations in (WITH_NEXT, BREAKING):
        with closing(Database(url := create_database())) as database:
            migrate(database, migrations)
        try:
            async with DurableRuns(url, {}) as runs:
                assert await runs.list() == ()
            open_runs(url).records().close()
            with open_runs(url) as runs_:
                assert runs_.runs() == []
        except HandrailError as error:
            said.append(str(error))
            for use in (RunStore.records, RunStore.runs):
                with open_runs(url) as store, pytest.raises(HandrailError) as caught:
                    use(store)
                said.append(str(caught.value))

    number = len(MIGRATIONS) + 1
    wanted = f"A newer version of handrail has changed these tables of runs (migration {number}): install that version, or a later one."
    assert said == 3 * [wanted]


def test_a_command_refuses_tables_of_a_newer_version(
    handrail: Handrail, create_database: Callable[[], str]
) -> None:
    ran: list[int] = []
    for migrations in (MIGRATIONS, WITH_NEXT, BREAKING):
        with closing(Database(url := create_database())) as database:
            migrate(database, migrations)
        ran.append(handrail("runs", "list", "--database", url).exit)
    last = handrail("runs", "list", "--database", url)

    assert ran == [0, 0, 1]
    assert "A newer version of handrail has changed these tables of runs" in last.err


async def test_a_reader_says_which_migration_is_missing(
    create_postgres: Callable[[], str],
) -> None:
    with pytest.raises(HandrailError, match="lack migration 1; run `handrail runs migrate`"):
        open_runs(create_postgres()).records()


# a server that is away is not one without tables


def test_a_server_that_cannot_be_reached_is_said_in_one_sentence(tmp_path: Path) -> None:
    nowhere = "postgresql://me:secret@127.0.0.1:1/shop"
    with pytest.raises(DatabaseError) as caught:
        anyio.run(DurableRuns(nowhere, {}).__aenter__)
    handrail = made(tmp_path)
    (tmp_path / "ws" / "shop.py").write_text(
        f"from handrail.runs.durable import DurableRuns\nruns = DurableRuns({nowhere!r}, {{}})\n",
        "utf-8",
    )
    ran = handrail("worker", "shop:runs")

    assert "Cannot use the runs in 127.0.0.1/shop: connection failed" in str(caught.value)
    assert (ran.exit, ran.err.count("\n"), "secret" in ran.err) == (1, 1, False)
    assert ran.err.startswith("handrail: Cannot use the runs in 127.0.0.1/shop: connection")


async def test_runs_that_could_not_be_opened_can_be_opened_later(
    create_postgres: Callable[[], str], server: str
) -> None:
    url = create_postgres()
    name = url.rpartition("/")[2]
    runs = DurableRuns(f"{server}/later_{name}", {})
    with pytest.raises(DatabaseError, match="does not exist"):
        await runs.__aenter__()
    execute(f"{server}/postgres", f"ALTER DATABASE {name} RENAME TO later_{name}")
    try:
        async with runs:
            assert await runs.list() == ()
    finally:
        execute(f"{server}/postgres", f"ALTER DATABASE later_{name} RENAME TO {name}")


# the command


def apply_sql(url: str, text: str) -> None:
    if not url.startswith("postgresql"):
        with closing(sqlite3.connect(url)) as file:
            file.executescript(text)
        return
    psql = shutil.which("psql") or f"{find_binaries()}/psql"
    subprocess.run(  # noqa: S603
        [psql, "--quiet", "--set=ON_ERROR_STOP=1", url],
        input=text,
        check=True,
        text=True,
        encoding="utf-8",
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PGOPTIONS": "-c client_min_messages=error"},
    )


def test_the_text_for_the_owner_makes_the_same_tables(create_database: Callable[[], str]) -> None:
    made_, written = create_database(), create_database()
    assert migrate_tables(made_) == tuple(one.number for one in MIGRATIONS)
    text = write_migrations(written)
    apply_sql(written, text)
    is_postgres = written.startswith("postgresql")
    rest = write_migrations(written)

    assert read_tables(written) == read_tables(made_)
    assert write_migrations(made_) == ""
    assert migrate_tables(made_) == ()
    command = f"-- The tables of DBOS: dbos migrate --sys-db-url 'sqlite:///{written}'\n"
    assert rest == ("" if is_postgres else command)
    assert ("dbos.workflow_status" in read_tables(written)) == is_postgres


def test_old_tables_of_the_engine_are_continued_from_their_number(
    create_postgres: Callable[[], str],
) -> None:
    url = create_postgres()
    apply_sql(url, write_migrations(url).rpartition("-- Migration ")[0])
    rest = write_migrations(url)
    apply_sql(url, rest)

    assert "CREATE TABLE handrail_run" not in rest
    assert rest.count("-- Migration") == 1
    assert write_migrations(url) == ""


def test_the_command_applies_what_is_missing_or_prints_it(handrail: Handrail) -> None:
    schema = Schemas()
    printed = handrail("runs", "migrate", "--database", "runs.db", "--sql", "--json")
    applied = handrail("runs", "migrate", "--database", "runs.db", "--json")
    again = handrail("runs", "migrate", "--database", "runs.db")
    nothing = handrail("runs", "migrate", "--database", "runs.db", "--sql")
    nowhere = handrail("runs", "migrate")
    path = handrail.folder / "ws" / "runs.db"

    assert schema("runs-migrate", printed.json)["sql"].startswith("BEGIN IMMEDIATE;\nCREATE TABLE")
    assert schema("runs-migrate", applied.json) == {
        "database": str(path),
        "migrations": [one.number for one in MIGRATIONS],
    }
    assert (again.out, nothing.out) == ("nothing to change\n", "-- nothing to change\n")
    assert (nowhere.exit, "no database of durable runs" in nowhere.err) == (2, True)


# roles


async def answer(_request: Request) -> Reply:
    return Reply((Text("Done."),))


@pytest.fixture
def as_clerk(server: str) -> Generator[Callable[[str], str]]:
    """Let a database be used by a role that may not create tables."""
    name = f"clerk_{os.getpid()}"
    execute(f"{server}/postgres", f"CREATE ROLE {name} LOGIN")

    def use(url: str) -> str:
        execute(url, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        for (schema,) in read(url, "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_|_s'"):
            execute(url, f"GRANT USAGE ON SCHEMA {schema} TO {name}")
            execute(url, f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {name}")
        return url.replace("//handrail@", f"//{name}@")

    yield use
    execute(f"{server}/postgres", f"DROP ROLE {name}")


async def test_a_worker_that_may_not_create_tables_works_if_they_are_there(
    as_clerk: Callable[[str], str], create_postgres: Callable[[], str]
) -> None:
    empty, ready = create_postgres(), create_postgres()
    migrate_tables(ready)
    runs = DurableRuns(as_clerk(ready), {"a": Agent(answer)}, poll=0.05)
    async with runs.work(interval=0.1):
        done = await runs.wait(await runs.start("a", "Go."))
    with pytest.raises(DatabaseError, match=r"permission denied .*; run `handrail runs migrate`"):
        await DurableRuns(as_clerk(empty), {}).__aenter__()
    with closing(Database(empty)) as database:
        migrate(database)
    async with DurableRuns(as_clerk(empty), {"a": Agent(answer)}) as other:
        with pytest.raises(HandrailError, match="tables of DBOS are missing or old, and cannot"):
            await other.start("a", "Go.")

    assert done.text == "Done."


def test_tables_that_another_process_creates_meanwhile_are_not_of_an_earlier_version(
    create_database: Callable[[], str],
) -> None:
    url = create_database()
    database = Database(url)
    looks: list[str] = []

    def select(sql: str, values: Any) -> list[tuple[Any, ...]]:
        rows = database.read_now(sql, values)
        if not looks:
            migrate_tables(url)
        looks.append(sql)
        return rows

    assert find_missing(select, postgres=database.is_postgres) == []
    assert len(looks) == 4
    database.close()
