"""The DBOS tables: create them, change them, or write the SQL for it."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any

from dbos import DBOS

from handrail import HandrailError
from handrail.runs._engine.dbos_connections import make_engine
from handrail.runs._engine.dbos_internals import read_versions
from handrail.runs._engine.workflows import CALL
from handrail.runs._store.database import Database

_INDEX = (
    "CREATE INDEX IF NOT EXISTS handrail_calls ON dbos.workflow_status "
    f"(workflow_uuid COLLATE \"C\") WHERE name = '{CALL}'"
)
"""Finds a run's calls, on PostgreSQL."""


def make_current(database: Database, engine: Any) -> None:
    """Create or change the DBOS tables, unless they match the installed version."""
    done, last = read_versions(engine)
    try:
        if done < last:
            DBOS.migrate(database.url)
        if not _has_index(database):
            database.run_alone(lambda _select: [_INDEX])
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise HandrailError(
            f"The tables of DBOS are missing or old, and cannot be changed ({reason}): "
            "run `handrail runs migrate` as a user who may create tables."
        ) from error


def migrate_engine(database: Database) -> None:
    """Create or change the DBOS tables in a database."""
    engine = make_engine(database)
    try:
        make_current(database, engine)
    finally:
        engine.dispose()


def write_engine_sql(database: Database) -> str:
    """Return text for updating the DBOS tables: SQL, or a comment with a command."""
    engine = make_engine(database)
    done, last = read_versions(engine)
    engine.dispose()
    index = "" if _has_index(database) else f"{_INDEX};\n"
    if done >= last:
        return index
    if not database.is_postgres:
        return f"-- The tables of DBOS: dbos migrate --sys-db-url '{database.url}'\n"
    command: Any = import_module("dbos.cli.migration")
    text = io.StringIO()
    with redirect_stdout(text):
        command.print_dbos_migrations(None, migration=str(done + 1) if done else "all")
    return text.getvalue() + index


def _has_index(database: Database) -> bool:
    if not database.is_postgres:
        return True
    sql = "SELECT 1 WHERE to_regclass('dbos.handrail_calls') IS NOT NULL"
    return bool(database.read_now(sql, {}))
