"""DBOS database connections. The only module that knows SQLAlchemy."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import sqlalchemy
from sqlalchemy import event

from handrail.runs._store.database import Database
from handrail.runs._store.sqlite import BUSY_SECONDS, create_private, set_up


def make_engine(database: Database) -> sqlalchemy.Engine:
    """Return the connections DBOS uses for a database, with their own transactions."""
    if database.is_postgres:
        url = database.url.replace("postgresql://", "postgresql+psycopg://", 1)
        alive = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
        server = sqlalchemy.create_engine(url, pool_size=3, max_overflow=5, connect_args=alive)
        event.listen(server, "connect", _set_up_server)
        return server
    engine = sqlalchemy.create_engine(sqlalchemy.URL.create("sqlite", database=str(database.path)))
    event.listen(engine, "do_connect", lambda *_: create_private(database.path))
    event.listen(engine, "connect", _set_up)
    return engine


@contextmanager
def connect(engine: sqlalchemy.Engine) -> Generator[tuple[sqlalchemy.Connection, Any]]:
    """Lend a connection, and the driver's own one in it. Its end undoes uncommitted changes."""
    try:
        with engine.connect() as connection:
            yield connection, connection.connection.driver_connection
    except sqlalchemy.exc.DBAPIError as error:
        raise error.orig or error from error


def _set_up_server(connection: Any, _record: object) -> None:
    """Prepare a PostgreSQL connection. DBOS does so only for those it makes itself."""
    from handrail.runs._store.postgres import limit_idling

    limit_idling(connection)
    connection.commit()  # the pool would undo it


def _set_up(connection: Any, _record: object) -> None:
    """Prepare an SQLite connection. DBOS calls a function available since 3.42 only."""
    connection.isolation_level = "IMMEDIATE"
    connection.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000:.0f}")
    connection.execute("PRAGMA journal_mode=WAL")
    set_up(connection)
    connection.create_function("unixepoch", 1, _tell_time)


def _tell_time(_modifier: str) -> float:
    return round(time.time(), 3)
