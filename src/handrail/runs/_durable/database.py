"""The database of durable runs: SQLite or PostgreSQL. No other module knows SQLAlchemy."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from handrail._support.own_files import note_database
from handrail.runs._durable.threads import Threads, Undone
from handrail.runs._reading.tally import Step

_RETRY_SECONDS = 20.0
_PAUSE = 0.1
_THREADS = 2
"""How many statements read at once, and on PostgreSQL how many write at once."""
IDLE_SECONDS = 10.0
"""How long PostgreSQL waits for a process inside a transaction: a frozen one keeps its rows."""
_Lend: TypeAlias = Callable[[], AbstractContextManager[sqlalchemy.Connection]]
_READ_ONLY = "-c default_transaction_read_only=on -c statement_timeout=2000"
_NEWER_FUNCTIONS: Mapping[str, Callable[[str], float]] = {
    "unixepoch": lambda _modifier: round(time.time(), 3)
}
"""What SQLite has since 3.42 only, and DBOS calls from Python 3.12 on."""


class Database:
    """Runs single statements. Each is a transaction.

    Args:
        address: A path of a SQLite file, or a URL that begins with ``sqlite:`` or ``postgresql:``.
        read_only: Whether PostgreSQL refuses to write, and to work for more than two seconds.
    """

    def __init__(self, address: str, *, read_only: bool = False) -> None:
        self.url = as_url(address)
        self._read_only = read_only
        self.is_postgres = self.url.startswith("postgresql")
        if not self.is_postgres:
            note_database(self.path)
        self.engine = self._make_engine(begin="IMMEDIATE")
        """For the engine of the runs, which has its own transactions."""
        self._rows = self._make_engine(isolation_level="AUTOCOMMIT", pool_reset_on_return=None)
        self._readers = Threads(_THREADS)
        self._writers = Threads(_THREADS) if self.is_postgres else Threads(1, self._together)
        """SQLite has one writer. Statements that wait at the same time share one disk sync."""
        self._group: sqlalchemy.Connection | None = None
        """The connection of the transaction that the one writer has begun."""
        self._kept: list[sqlalchemy.Connection] = []
        """Connections that do nothing now."""
        self._was_reached = False

    @property
    def path(self) -> Path:
        """The file of a SQLite database."""
        return Path(sqlalchemy.make_url(self.url).database or "")

    def _make_engine(self, begin: str | None = None, **options: Any) -> sqlalchemy.Engine:
        if self.is_postgres:
            url = self.url.replace("postgresql://", "postgresql+psycopg://", 1)
            kept = 3 if begin else 2 * _THREADS + 1  # more than these are opened for one statement
            alive: dict[str, Any] = {"keepalives_idle": 5, "keepalives_interval": 2}
            alive |= {"keepalives_count": 3} | ({"options": _READ_ONLY} if self._read_only else {})
            engine = sqlalchemy.create_engine(
                url, pool_size=kept, max_overflow=8 - kept, connect_args=alive, **options
            )
            event.listen(engine, "connect", _set_up_postgres)
            return engine
        engine = sqlalchemy.create_engine(self.url, **options)
        event.listen(engine, "do_connect", partial(_create_private, self.path))
        event.listen(engine, "connect", partial(_set_up_sqlite, begin))
        return engine

    async def read(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        rows: list[tuple[Any, ...]] = await self._readers.run(
            partial(self._run, sql, values, rows=True, lend=self._lend)
        )
        return rows

    async def write(self, sql: str, **values: Any) -> int:
        """Run a statement, and return how many rows it changed."""
        return await self._writers.run(self._write, sql, values)

    def read_now(self, sql: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query, in this thread."""
        rows: list[tuple[Any, ...]] = self._run(sql, values, rows=True, lend=self._rows.connect)
        return rows

    def _write(self, sql: str, values: Mapping[str, Any]) -> int:
        changed: int = self._run(sql, values, rows=False, lend=self._lend_writer)
        return changed

    async def transact(self, steps: Sequence[Step], guards: int) -> list[int]:
        """Run statements in one transaction, each with several values.

        Returns how many rows each changed. If one of the first ``guards`` changes no row, nothing
        is changed, and the result is empty.
        """
        done: list[int] = await self._writers.run(
            self._retry, partial(self._transact, steps, guards), self._lend_writer
        )
        return done

    def has_schema(self, version: str) -> bool:
        """Return whether the tables exist, as this version needs them."""
        try:
            with self._rows.connect() as connection:
                found = connection.exec_driver_sql("SELECT version FROM handrail_schema").scalars()
                self._was_reached = True
                return version in found.all()
        except (OperationalError, ProgrammingError):  # there is no such table, or no database
            return False

    def create(self, statements: Sequence[str], column: tuple[str, str, str]) -> None:
        """Create tables, and a column that an older version of a table does not have.

        One process at a time: PostgreSQL fails if two create the same one.
        """
        with self._rows.connect() as connection:
            if self.is_postgres:
                connection.exec_driver_sql(f"SELECT pg_advisory_lock({_CREATING})")
            try:
                for statement in statements:
                    connection.exec_driver_sql(statement)
                _add_column(connection, *column)
            finally:
                if self.is_postgres:
                    connection.exec_driver_sql(f"SELECT pg_advisory_unlock({_CREATING})")

    def _run(self, sql: str, values: Mapping[str, Any], *, rows: bool, lend: _Lend) -> Any:
        """Run a statement. A lost connection is opened again: every statement can be repeated."""
        statement = _for_psycopg(sql) if self.is_postgres else sql

        def work(connection: sqlalchemy.Connection) -> Any:
            done = connection.exec_driver_sql(statement, dict(values))
            return [tuple(row) for row in done] if rows else done.rowcount

        return self._retry(work, lend)

    def _transact(
        self, steps: Sequence[Step], guards: int, connection: sqlalchemy.Connection
    ) -> list[int]:
        begin, end, undo = _TRANSACTION if self.is_postgres else _PART
        changed: list[int] = []
        connection.exec_driver_sql(begin)
        try:
            for number, (sql, several) in enumerate(steps):
                statement = _for_psycopg(sql) if self.is_postgres else sql
                values: Any = [dict(one) for one in several]
                single = values[0] if len(values) == 1 else values
                done = connection.exec_driver_sql(statement, single)
                if number < guards and not done.rowcount:
                    connection.exec_driver_sql(undo)
                    return []
                changed.append(done.rowcount)
            connection.exec_driver_sql(end)
        except BaseException:
            with suppress(Exception):
                connection.exec_driver_sql(undo)
            raise
        return changed

    @contextmanager
    def _together(self) -> Generator[None]:
        """Open a transaction of SQLite for what waits to be written, and commit it to the disk."""
        with self._lend() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            self._group = connection
            try:
                yield
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                with suppress(Exception):
                    connection.exec_driver_sql("ROLLBACK")
                raise
            finally:
                self._group = None

    @contextmanager
    def _lend_writer(self) -> Generator[sqlalchemy.Connection]:
        """Lend the connection of the transaction that is open; on PostgreSQL, any.

        Some errors, such as a full disk, let SQLite undo the whole transaction. A later statement
        would then be on the disk at once, although the transaction fails.
        """
        if self._group is not None:
            try:
                yield self._group
            except BaseException as error:
                inner: Any = self._group.connection.dbapi_connection
                if not inner.in_transaction:
                    raise Undone from error
                raise
            return
        with self._lend() as connection:
            yield connection

    def _retry(self, work: Callable[[sqlalchemy.Connection], Any], lend: _Lend) -> Any:
        until = time.monotonic() + _RETRY_SECONDS
        while True:
            try:
                with lend() as connection:
                    done = work(connection)
                    self._was_reached = True
                    return done
            except DBAPIError as error:
                if not self._is_away(error) or time.monotonic() > until:
                    raise
                time.sleep(_PAUSE)

    @contextmanager
    def _lend(self) -> Generator[sqlalchemy.Connection]:
        """Lend a connection to one of our few threads, and keep it: the pool costs a statement.

        After an error, neither this one nor those that are as old are lent again.
        """
        try:
            connection = self._kept.pop()
        except IndexError:
            connection = self._rows.connect()
        try:
            yield connection
        except BaseException:
            connection.close()
            self._close_kept()
            raise
        else:
            self._kept.append(connection)

    def _close_kept(self) -> None:
        while self._kept:
            with suppress(IndexError):  # another thread has taken it
                self._kept.pop().close()

    def _is_away(self, error: DBAPIError) -> bool:
        """Return whether the server is gone, shuts down, or does not accept connections yet.

        One that was never reached probably has another address.
        """
        return self._was_reached and self.is_postgres and isinstance(error, OperationalError)

    def hold(self) -> sqlalchemy.Connection:
        """Return a connection for one holder, until it is closed."""
        return self._rows.connect()

    def close(self) -> None:
        """Close all connections."""
        self._readers.close()
        self._writers.close()
        self._close_kept()
        self.engine.dispose()
        self._rows.dispose()


@cache
def _for_psycopg(sql: str) -> str:
    """Return a statement with its parameters as psycopg writes them. SQLite's ``:name`` is ours."""
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", sql.replace("%", "%%"))


_TRANSACTION = ("BEGIN", "COMMIT", "ROLLBACK")
_PART = ("SAVEPOINT part", "RELEASE part", "ROLLBACK TO part")
"""The same for a part of a transaction that is open."""
_CREATING = 4_722_013_118
"""The key of the lock that is held while tables are created."""


def as_url(address: str) -> str:
    """Return the URL of a database. A plain path is a SQLite file, in the current folder."""
    if "://" not in address:
        return f"sqlite:///{Path(address).absolute()}"
    if not address.startswith(("sqlite:///", "postgresql://")):
        raise ValueError(
            f"{address.partition('://')[0]}: durable runs are kept in a SQLite file (a path) or in "
            "PostgreSQL (postgresql://...)."
        )
    return address


def _add_column(connection: sqlalchemy.Connection, table: str, name: str, kind: str) -> None:
    known = {column["name"] for column in sqlalchemy.inspect(connection).get_columns(table)}
    if name not in known:
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def _create_private(path: Path, *_: object) -> None:
    """Create a file that only its owner can read, unless it exists.

    SQLite would leave its mode to the umask. Its other files, such as the log, get the same mode.
    """
    with suppress(OSError):  # it exists, or SQLite says what is wrong
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _set_up_postgres(connection: Any, _record: object) -> None:
    """Let the server end a transaction whose process is frozen, so that others get its rows.

    DBOS does so only for connections that it makes itself.
    """
    milliseconds = round(IDLE_SECONDS * 1000)
    connection.execute(f"SET idle_in_transaction_session_timeout = {milliseconds}")
    connection.commit()  # the pool would undo it


def _set_up_sqlite(begin: str | None, connection: Any, _record: object) -> None:
    """Let readers and one writer work at the same time, and let writers wait for one another.

    A commit survives a power cut (``synchronous=FULL``): a payment must not lose the row that was
    written before it.
    """
    connection.isolation_level = begin
    settings = ("busy_timeout=30000", "foreign_keys=ON", "journal_mode=WAL", "synchronous=FULL")
    for setting in settings:
        connection.execute(f"PRAGMA {setting}")
    for name, function in _NEWER_FUNCTIONS.items():
        connection.create_function(name, 1, function)
