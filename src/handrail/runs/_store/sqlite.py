"""An SQLite run file: private to its owner, synced at each commit, with one writer."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from handrail._support.private_files import hold_lock, make_private_folder
from handrail._support.systems import CLOSE_ON_EXEC
from handrail.runs._store.connections import Connections
from handrail.runs._store.points import reach
from handrail.runs._store.port import DatabaseError, Select, Step, Values
from handrail.runs._store.threads import Undone

BUSY_SECONDS = 30.0
"""Seconds to wait for another writing process."""


class SqliteFile:
    """Runs statements on a file; see ``Driver``.

    Writes run inside of ``together``.

    Args:
        path: The file.
        read_only: Whether SQLite refuses to write. The file must exist then.
        busy_seconds: Seconds to wait for another process that is writing.
    """

    def __init__(
        self, path: Path, *, read_only: bool = False, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        self._path = path
        self._read_only = read_only
        self._busy_seconds = busy_seconds
        self._connections = Connections(self._connect)
        self._writer = threading.Lock()
        self._watch: sqlite3.Connection | None = None
        """The connection counting other connections' commits."""
        self._watching = threading.Lock()
        self._group: Any = None
        """The connection for the transaction begun by ``together``."""

    def _connect(self) -> sqlite3.Connection:
        place = self._path.absolute().as_uri()
        if self._read_only:
            place += "?mode=ro"
        else:
            create_private(self._path)
        connection = sqlite3.connect(
            place,
            uri=True,
            timeout=self._busy_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.text_factory = _decode
        try:
            if self._read_only:
                connection.execute("PRAGMA query_only=ON")
            else:
                self._write_ahead(connection)
                set_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _write_ahead(self, connection: sqlite3.Connection) -> None:
        """Let readers never wait. Several processes may be the first to open the file."""
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            with hold_lock(self._path):
                connection.execute("PRAGMA journal_mode=WAL")

    def read_version(self) -> int:
        """Return a number changing when another connection commits."""
        with self._clear_errors(), self._watching:
            if self._watch is None:
                self._watch = self._connect()
            return int(self._watch.execute("PRAGMA data_version").fetchone()[0])

    def tell_workers(self) -> None:
        """Do nothing: workers see the file change."""

    def read(self, sql: str, values: Values) -> list[tuple[Any, ...]]:
        """Return a query's rows."""
        with self._clear_errors(), self._connections.lend() as connection:
            return connection.execute(sql, values).fetchall()

    def write(self, sql: str, values: Values) -> int:
        """Run a statement, and return the number of changed rows."""
        with self._writing() as connection:
            return connection.execute(sql, values).rowcount

    def transact(self, steps: Sequence[Step], guards: int) -> list[int]:
        """Run statements as one part of the open transaction, or separately.

        If a part must be undone, the whole transaction is, and each part is done again alone.
        """
        with self._writing() as connection:
            if connection.in_transaction:
                return _run_part(connection, steps, guards)
            connection.execute("BEGIN IMMEDIATE")
            reach("write.begun")
            try:
                changed = _run_steps(connection, steps, guards)
                reach("write.made")
                connection.execute("COMMIT" if changed else "ROLLBACK")
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite has undone the whole transaction
                    connection.execute("ROLLBACK")
                raise
            return changed

    def transact_on(self, connection: Any, steps: Sequence[Step], guards: int) -> list[int]:
        """Run statements in another connection's transaction."""
        return _run_steps(connection, steps, guards)

    def beside(self) -> AbstractContextManager[None]:
        """Return a block for another connection's transaction. This process's writes wait."""
        return self.together()

    @contextmanager
    def together(self, parts: int = 1) -> Generator[None]:
        """Let writes run inside, in one transaction that is then on the disk.

        One alone needs none: a statement is on the disk when it ends.

        Args:
            parts: How many writes there are.
        """
        with self._writer, self._clear_errors(), self._connections.lend() as connection:
            self._group = connection
            try:
                if parts > 1:
                    connection.execute("BEGIN IMMEDIATE")
                yield
                if parts > 1:
                    connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._group = None
            reach("write.committed")

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        """Yield the connection from ``together``.

        Some errors, such as a full disk, make SQLite undo the whole transaction. A later statement
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
        except (sqlite3.Error, TimeoutError, UnicodeEncodeError) as error:
            raise DatabaseError(f"Cannot use the runs in {self._path}: {error}.") from error

    def check_sessions(self) -> None:
        """Do nothing: each connection to a file is a session."""

    begin_alone = ("BEGIN IMMEDIATE",)

    def run_alone(self, choose: Callable[[Select], Iterable[str]]) -> None:
        """Run the statements a function chooses, in one transaction."""
        with self._clear_errors(), closing(self._connect()) as connection:
            for statement in self.begin_alone:
                connection.execute(statement)

            def select(sql: str, values: Values) -> list[tuple[Any, ...]]:
                return connection.execute(sql, values).fetchall()

            for statement in choose(select):
                connection.execute(statement)
            connection.execute("COMMIT")

    def close(self) -> None:
        """Close unused connections."""
        self._connections.close()
        with self._watching:
            if self._watch is not None:
                self._watch.close()
                self._watch = None


def _run_steps(connection: sqlite3.Connection, steps: Sequence[Step], guards: int) -> list[int]:
    changed: list[int] = []
    for number, (sql, several) in enumerate(steps):
        changed.append(connection.executemany(sql, several).rowcount)
        if number < guards and not changed[-1]:
            return []
    return changed


def _run_part(connection: sqlite3.Connection, steps: Sequence[Step], guards: int) -> list[int]:
    """Run a part of a transaction. Raises Undone if it must be undone."""
    before = connection.total_changes
    reach("write.begun")
    try:
        changed = _run_steps(connection, steps, guards)
    except Exception as error:
        raise Undone from error
    if not changed and connection.total_changes > before:
        raise Undone
    reach("write.made")
    return changed


def create_private(path: Path) -> None:
    """Create a file only its owner can read, unless it exists.

    SQLite would leave its mode to the umask. Its other files, such as the log, get the same mode.
    An existing file is not opened: closing it would release SQLite's locks on it. Raises
    DatabaseError for a link, and for a file others can write to.
    """
    make_private_folder(path.parent)
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | CLOSE_ON_EXEC, 0o600))
        about = path.lstat()
    except OSError as error:
        raise DatabaseError(f"Cannot open {path}: {error.strerror}.") from None
    is_regular = stat.S_ISREG(about.st_mode)
    if not is_regular or (sys.platform != "win32" and not _is_ours(about)):
        raise DatabaseError(
            f"Cannot use {path}: it must be a regular file that only you or your group can change."
        )


def _is_ours(about: os.stat_result) -> bool:
    """Return whether only this user, or this user's group, can change a file."""
    if about.st_mode & stat.S_IWOTH:
        return False
    return bool(about.st_mode & stat.S_IWGRP) or about.st_uid == os.geteuid()


def set_up(connection: Any) -> None:
    """Prepare a writing connection.

    A commit survives a power cut (``synchronous=FULL``): a payment must not lose the row written
    before it. SQLite overwrites deleted rows.
    """
    settings = ("foreign_keys=ON", "synchronous=FULL", "secure_delete=ON")
    for setting in settings:
        connection.execute(f"PRAGMA {setting}")


def _decode(value: bytes) -> str:
    """Return a text. Someone else may have written invalid bytes."""
    return value.decode("utf-8", "surrogateescape")
