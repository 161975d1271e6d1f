"""A SQLite file of runs: private to its owner, synced at each commit, with one writer."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from handrail.runs._store.connections import Connections
from handrail.runs._store.port import DatabaseError, Select, Step, Values
from handrail.runs._store.threads import Undone


class SqliteFile:
    """Runs statements on a file; see ``Driver``.

    Writes run inside of ``together``, which one thread at a time may use.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connections = Connections(self._connect)
        self._group: Any = None
        """The connection of the transaction that ``together`` has begun."""

    def _connect(self) -> sqlite3.Connection:
        create_private(self._path)
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            set_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def read(self, sql: str, values: Values) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._clear_errors(), self._connections.lend() as connection:
            return connection.execute(sql, values).fetchall()

    def write(self, sql: str, values: Values) -> int:
        """Run a statement, and return the number of changed rows."""
        with self._writing() as connection:
            return connection.execute(sql, values).rowcount

    def transact(self, steps: Sequence[Step], guards: int) -> list[int]:
        """Run statements as one part of the open transaction."""
        with self._writing() as connection:
            connection.execute("SAVEPOINT part")
            try:
                changed = _run_steps(connection, steps, guards)
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite has undone the whole transaction
                    connection.execute("ROLLBACK TO part")
                raise
            connection.execute("RELEASE part" if changed else "ROLLBACK TO part")
            return changed

    @contextmanager
    def together(self) -> Generator[None]:
        """Open a transaction for the writes inside, and commit it to the disk."""
        with self._clear_errors(), self._connections.lend() as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._group = connection
            try:
                yield
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._group = None

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        """Give the connection of the open transaction.

        Some errors, such as a full disk, let SQLite undo the whole transaction. A later statement
        would then be on the disk at once, although the transaction fails.
        """
        connection: sqlite3.Connection = self._group
        try:
            with self._clear_errors():
                yield connection
        except DatabaseError as error:
            if not connection.in_transaction:
                raise Undone from error
            raise

    @contextmanager
    def _clear_errors(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise DatabaseError(f"Cannot use the runs in {self._path}: {error}.") from error

    begin_alone = ("BEGIN IMMEDIATE",)

    def run_alone(self, choose: Callable[[Select], Iterable[str]]) -> None:
        """Run the statements that a function chooses, in one transaction."""
        with self._clear_errors(), closing(self._connect()) as connection:
            for statement in self.begin_alone:
                connection.execute(statement)

            def select(sql: str, values: Values) -> list[tuple[Any, ...]]:
                return connection.execute(sql, values).fetchall()

            for statement in choose(select):
                connection.execute(statement)
            connection.execute("COMMIT")

    def close(self) -> None:
        """Close the connections that no one uses."""
        self._connections.close()


def _run_steps(connection: sqlite3.Connection, steps: Sequence[Step], guards: int) -> list[int]:
    changed: list[int] = []
    for number, (sql, several) in enumerate(steps):
        changed.append(connection.executemany(sql, several).rowcount)
        if number < guards and not changed[-1]:
            return []
    return changed


def create_private(path: Path) -> None:
    """Create a file that only its owner can read, unless it exists.

    SQLite would leave its mode to the umask. Its other files, such as the log, get the same mode.
    """
    with suppress(OSError):  # it exists, or SQLite says what is wrong
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def set_up(connection: Any) -> None:
    """Let readers and one writer work at the same time, and let writers wait for one another.

    A commit survives a power cut (``synchronous=FULL``): a payment must not lose the row that was
    written before it.
    """
    settings = ("busy_timeout=30000", "foreign_keys=ON", "journal_mode=WAL", "synchronous=FULL")
    for setting in settings:
        connection.execute(f"PRAGMA {setting}")
