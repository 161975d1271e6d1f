"""A PostgreSQL run database. No other module knows psycopg."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cache
from threading import BoundedSemaphore
from typing import Any, TypeAlias, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import (
    DivisionByZero,
    FeatureNotSupported,
    IdleInTransactionSessionTimeout,
    InsufficientPrivilege,
    QueryCanceled,
    ReadOnlySqlTransaction,
)

from handrail import HandrailError
from handrail.runs._store.connections import Connections
from handrail.runs._store.port import (
    DatabaseAway,
    DatabaseDenied,
    DatabaseError,
    DatabaseReplica,
    Select,
    Step,
    Values,
)

_Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
_MAX_READS = 8
"""How many queries run at once."""
_SETTINGS = {
    "connect_timeout": "10",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
"""Settings for noticing a cut-off server soon. The address can have other values."""
IDLE_SECONDS = 10.0
"""How long the server waits for a process inside a transaction: a frozen one keeps its rows."""
_ALONE = 4_722_013_118
"""The lock key while tables are created or changed."""
_CHECKS = 5
"""Transactions in each of two sessions, checking they are two."""
_NAME = re.compile(r"(?<!:):(\w+)")
"""A value in a statement."""
_TABLE = re.compile(r"\b(?:handrail_|dbos\.)\w+")
_WRITES = re.compile(rf"(?:INSERT INTO|UPDATE) ({_TABLE.pattern})")
"""What can be joined. A deletion waits for other transactions, and the next one must see them."""
_REPLICA = (
    "The runs in {} cannot be watched here: this server is a replica, which has no text of replies "
    "under way. Connect to the primary."
)
_USE_UTF8 = "create the database with `ENCODING 'UTF8' TEMPLATE template0`."
_READ_ONLY = "-c default_transaction_read_only=on -c statement_timeout=2000"


def limit_idling(connection: Any) -> None:
    """Make the server end a frozen process's transaction, freeing its rows."""
    milliseconds = round(IDLE_SECONDS * 1000)
    connection.execute(f"SET idle_in_transaction_session_timeout = {milliseconds}")


class PostgresServer:
    """Runs statements on a server; see ``Driver``.

    Args:
        url: ``postgresql://...``
        read_only: Whether the server refuses to write, and to work for more than two seconds.
    """

    def __init__(self, url: str, *, read_only: bool) -> None:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        self._settings = {**_SETTINGS, **given}
        self._read_only = read_only
        if read_only:
            self._settings["options"] = f"{given.get('options', '')} {_READ_ONLY}".strip()
        self._place = f"{given.get('host', 'localhost')}/{given.get('dbname', '')}"
        self._connections = Connections(self._connect)
        self._reads = BoundedSemaphore(_MAX_READS)
        self._was_reached = False

    def _connect(self) -> _Connection:
        settings: dict[str, Any] = dict(self._settings)
        connection: _Connection = psycopg.connect("", autocommit=True, **settings)
        encoding = connection.info.parameter_status("server_encoding")
        if encoding not in {"UTF8", None}:
            connection.close()
            raise DatabaseError(f"{self._place} has the encoding {encoding}: {_USE_UTF8}")
        limit_idling(connection)
        self._was_reached = True
        return connection

    def read(self, sql: str, values: Values) -> list[tuple[Any, ...]]:
        """Return a query's rows."""
        with self._reads, self._lend() as connection:
            return connection.execute(_translate(sql), values).fetchall()

    def write(self, sql: str, values: Values) -> int:
        """Run a statement, and return the number of changed rows."""
        with self._lend() as connection:
            return connection.execute(_translate(sql), values).rowcount

    def transact(self, steps: Sequence[Step], guards: int) -> list[int]:
        """Run statements in one transaction: as one statement, where none sees what another does.

        Else there is one round trip for the guards, and one for the rest.
        """
        joined = _join(tuple(sql for sql, _ in steps), guards)
        if joined is not None and all(len(several) == 1 for _, several in steps):
            with self._lend() as connection:
                return _run_joined(connection, joined, steps)
        with self._lend() as connection, connection.pipeline() as pipeline:
            connection.execute(b"BEGIN")
            done = [_execute(connection, step) for step in steps[:guards]]
            pipeline.sync()
            if not all(_count(cursors) for cursors in done):
                connection.execute(b"ROLLBACK")
                return []
            done += [_execute(connection, step) for step in steps[guards:]]
            connection.execute(b"COMMIT")
            pipeline.sync()
            return [_count(cursors) for cursors in done]

    def transact_on(self, connection: _Connection, steps: Sequence[Step], guards: int) -> list[int]:
        """Run statements that can be joined in another connection's transaction."""
        joined = cast("bytes", _join(tuple(sql for sql, _ in steps), guards))
        return _run_joined(connection, joined, steps)

    def beside(self) -> AbstractContextManager[None]:
        """Return a block for another connection's transaction."""
        return self._clear_errors()

    def read_version(self) -> None:
        """Return None: a server has no such number."""

    def tell_workers(self) -> None:
        """Notify listening sessions of changes.

        It is a separate transaction, and waits for no disk: the server runs notifying ones one
        after the other.
        """
        with self._lend() as connection:
            connection.execute(b"NOTIFY handrail")

    def listen(self, channel: str) -> _Connection:
        """Return a connection for one holder, listening to a channel."""
        connection = self.hold()
        connection.execute(f"LISTEN {channel}".encode())
        return connection

    def check_sessions(self) -> None:
        """Raise a HandrailError if a proxy lends connections for one transaction at a time.

        Two open sessions then have the same server process, or one has several. Each has a
        transaction in turn, during which the other one needs another process.
        """
        seen: set[tuple[int, int]] = set()
        with self._clear_errors(), self._connect() as one, self._connect() as other:
            for number in range(2 * _CHECKS):
                with (one, other)[number % 2].transaction():
                    seen.add((_read_process(one), _read_process(other)))
        [*_, (first, second)] = seen
        if len(seen) > 1 or first == second:
            raise HandrailError(
                f"{self._place} lends a connection for one transaction at a time, as pgbouncer "
                "does with `pool_mode=transaction`. Durable runs need sessions: a lock of a "
                "session proves that a worker lives. Use `pool_mode=session`, or connect to "
                "PostgreSQL directly."
            )

    def hold(self) -> _Connection:
        """Return a connection for one holder, who closes it."""
        with self._clear_errors():
            return self._connect()

    begin_alone = ("BEGIN", f"SELECT pg_advisory_xact_lock({_ALONE})")

    def run_alone(self, choose: Callable[[Select], Iterable[str]]) -> None:
        """Run the statements a function chooses, in a transaction holding a lock."""
        with self._clear_errors(), closing(self._connect()) as connection:
            for statement in self.begin_alone:
                connection.execute(statement.encode())

            def select(sql: str, values: Values) -> list[tuple[Any, ...]]:
                return connection.execute(_translate(sql), values).fetchall()

            for statement in choose(select):
                connection.execute(statement.encode())
            connection.execute(b"COMMIT")

    def close(self) -> None:
        """Close unused connections."""
        self._connections.close()

    @contextmanager
    def _lend(self) -> Generator[_Connection]:
        with self._clear_errors(), self._connections.lend() as connection:
            yield connection

    def _is_replica(self, error: psycopg.Error) -> bool:
        """Return whether a server refuses to write because it is about to take over."""
        return isinstance(error, ReadOnlySqlTransaction) and not self._read_only

    @contextmanager
    def _clear_errors(self) -> Generator[None]:
        """Raise our errors. A server never reached probably has another address."""
        try:
            yield
        except FeatureNotSupported as error:  # an unlogged table, during recovery
            raise DatabaseReplica(_REPLICA.format(self._place)) from error
        except psycopg.Error as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            text = f"Cannot use the runs in {self._place}: {reason}."
            if self._was_reached and (_is_away(error) or self._is_replica(error)):
                raise DatabaseAway(text) from error
            denied = isinstance(error, InsufficientPrivilege)
            raise (DatabaseDenied if denied else DatabaseError)(text) from error


def _is_away(error: psycopg.Error) -> bool:
    """Return whether the server is gone, shuts down, ended the session, or is not ready yet."""
    if isinstance(error, QueryCanceled):
        return False
    away = psycopg.OperationalError | psycopg.InterfaceError | IdleInTransactionSessionTimeout
    return isinstance(error, away)


@cache
def _translate(sql: str) -> bytes:
    """Return a statement with its parameters as psycopg writes them. SQLite's ``:name`` is ours."""
    return _NAME.sub(r"%(\1)s", sql.replace("%", "%%")).encode()


@cache
def _join(statements: tuple[str, ...], guards: int) -> bytes | None:
    """Return one statement doing what several do, or None if one would see another's changes.

    Parts in one statement see the tables as they were before it. It returns how many rows each part
    has changed, and fails if a guard has changed none.
    """
    named = [set(_TABLE.findall(sql)) for sql in statements]
    written = [match[1] if (match := _WRITES.match(sql)) else "" for sql in statements]
    for table, sql in zip(written, statements, strict=True):
        if not table or "RETURNING" in sql or sum(table in tables for tables in named) > 1:
            return None
    parts, counts = list[str](), list[str]()
    for number, sql in enumerate(statements):
        own = _NAME.sub(rf":s{number}_\1", sql)
        parts.append(f"s{number} AS ({own} RETURNING 1)")
        count = f"(SELECT count(*) FROM s{number})"
        counts.append(f"{count} / least({count}, 1)" if number < guards else count)
    return _translate(f"WITH {', '.join(parts)} SELECT {', '.join(counts)}")


def _run_joined(connection: _Connection, joined: bytes, steps: Sequence[Step]) -> list[int]:
    values = {
        f"s{number}_{name}": value
        for number, (_, [row]) in enumerate(steps)
        for name, value in row.items()
    }
    try:
        [counts] = connection.execute(joined, values).fetchall()
    except DivisionByZero:  # a guard has changed no row
        return []
    return list(counts)


def _read_process(connection: _Connection) -> Any:
    """Return which server process answers."""
    return connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()


def _execute(connection: _Connection, step: Step) -> list[psycopg.Cursor[tuple[Any, ...]]]:
    sql, several = step
    return [connection.execute(_translate(sql), values) for values in several]


def _count(cursors: Sequence[psycopg.Cursor[tuple[Any, ...]]]) -> int:
    return sum(cursor.rowcount for cursor in cursors)
