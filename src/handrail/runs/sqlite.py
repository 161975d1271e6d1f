"""A journal in one SQLite file, for any number of processes on one machine.

Only its owner can read the file. Appends are transactions that take the write lock first; SQLite
writes ahead (WAL), so that readers never wait.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sqlite3
import stat
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail._support.own_files import note_database
from handrail._support.private_files import hold_lock, make_private_folder
from handrail.runs._reading.local import keep_rows, remove_rows
from handrail.runs._reading.tables import LOCAL_TABLES
from handrail.runs.crash_points import crash_point
from handrail.runs.journal import (
    EventRow,
    JournalEntry,
    JournalError,
    JournalLine,
    RunBusy,
    RunHead,
    check_after,
    check_run,
    extend,
    parse_object,
)

if TYPE_CHECKING:
    from handrail.permissions import Answer
    from handrail.runs._reading.claims import AnswerOutcome, Claimant

VERSION = 3
"""The format of the file."""
BUSY_SECONDS = 5.0
"""Seconds to wait for another process that is writing."""
_PAGE = 256
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY,
    entries INTEGER NOT NULL,
    digest TEXT NOT NULL,
    began REAL NOT NULL,
    changed REAL NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    summary TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS runs_began ON runs (began);
CREATE INDEX IF NOT EXISTS runs_status ON runs (status, began);
CREATE TABLE IF NOT EXISTS entries (
    run TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (run, number)
);
CREATE TABLE IF NOT EXISTS approvals (
    name TEXT PRIMARY KEY,
    claimant TEXT NOT NULL
)
"""
_HEAD = "SELECT run, entries, digest, began, changed, summary FROM runs"
_PUT_HEAD = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_ENTRY = "INSERT INTO entries VALUES (?, ?, ?, ?, ?)"
_ENTRIES = "SELECT run, number, kind, body, digest FROM entries WHERE run = ? AND number > ?"


class SqliteJournal:
    """A ``Journal`` in a SQLite file. The file is created by the first append.

    Args:
        path: The file. Its folder is created if it does not exist.
        clock: Returns the current time in seconds.
        busy_seconds: Seconds to wait for another process that is writing.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], float] = time.time,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self._connection: sqlite3.Connection | None = None
        self.path = Path(path)
        self._clock = clock
        self._busy_seconds = busy_seconds
        self._lock = threading.Lock()

    def append(
        self, run: str, lines: Iterable[JournalLine], *, after: int | None = None
    ) -> RunHead:
        """Append lines to a run in one transaction; see ``Journal``."""
        check_run(run)
        several = list(lines)
        with self.write() as connection:
            crash_point("append.begun")
            head = self.append_in(connection, run, several, after)
            crash_point("append.written")
        crash_point("append.committed")
        return head

    def append_in(
        self,
        connection: sqlite3.Connection,
        run: str,
        lines: Iterable[JournalLine],
        after: int | None = None,
    ) -> RunHead:
        """Append lines in a transaction of ``write``, with the rows that pages read."""
        before = _read_head(connection, run) or RunHead(run)
        check_after(before, after)
        head, entries = extend(before, lines, self._clock())
        if entries:
            _put(connection, head, entries)
            keep_rows(connection, entries)
        return head

    def head(self, run: str) -> RunHead | None:
        """Return the head of a run, or None."""
        with self._reading() as connection:
            return None if connection is None else _read_head(connection, run)

    def read(
        self, run: str, *, after: int = 0, kinds: Iterable[str] = ()
    ) -> Iterator[JournalEntry]:
        """Yield the entries of a run in order, a page at a time."""
        wanted = tuple(kinds)
        query = _ENTRIES
        if wanted:
            query = f"{query} AND kind IN ({', '.join('?' * len(wanted))})"
        query = f"{query} ORDER BY number LIMIT {_PAGE}"
        while page := self._select(query, run, after, *wanted):
            entries = [_entry(row) for row in page]
            yield from entries
            after = entries[-1].number

    def runs(
        self, *, prefix: str = "", status: str = "", reason: str = "", limit: int | None = None
    ) -> list[RunHead]:
        """Return the heads of runs, the newest first."""
        rows = self._select(
            f"{_HEAD} WHERE substr(run, 1, ?) = ? AND (? = '' OR status = ?) "
            "AND (? = '' OR reason = ?) ORDER BY began DESC, run DESC LIMIT ?",
            len(prefix),
            prefix,
            *(status, status, reason, reason),
            -1 if limit is None else limit,
        )
        return [_head(row) for row in rows]

    def names(self) -> Iterator[str]:
        """Yield the id of every run that has a head or entries."""
        for (name,) in self._select("SELECT run FROM runs UNION SELECT run FROM entries"):
            yield _text(name)

    def remove(self, run: str) -> None:
        """Delete a run. The pages that it used are overwritten."""
        with self.write() as connection:
            connection.execute("DELETE FROM entries WHERE run = ?", (run,))
            connection.execute("DELETE FROM runs WHERE run = ?", (run,))
            remove_rows(connection, run)
        with suppress(OSError):
            self._lock_file(run).unlink()

    async def claim(self, pending_id: str, answer: Answer, claimant: Claimant) -> AnswerOutcome:
        """Record an answer if this person may give it, and if there is none yet."""
        from anyio import to_thread

        return await to_thread.run_sync(self.claim_now, pending_id, answer, claimant)

    def claim_now(self, pending_id: str, answer: Answer, claimant: Claimant) -> AnswerOutcome:
        """Claim a request in this thread."""
        from handrail.runs._reading.local_claims import claim_local  # listing runs needs none of it

        return claim_local(self, pending_id, answer, claimant, now=self._clock())

    async def follow(self, after: int | None = None) -> AsyncIterator[EventRow]:
        """Yield events as they are written by any process; see ``JournalReader``."""
        from anyio import to_thread

        from handrail.runs._reading.feed import follow_events
        from handrail.runs._reading.store import SqliteStore

        await to_thread.run_sync(self._create_file)
        store = SqliteStore(self.path)
        events = follow_events(store, after)
        try:
            while True:
                yield await anext(events)
        finally:
            store.close()

    def _create_file(self) -> None:
        with self.write():
            pass

    @contextmanager
    def hold(self, run: str) -> Generator[None]:
        """Hold a run for this process; raises RunBusy if another holds it."""
        file = self._lock_file(run)
        make_private_folder(file.parent)
        handle = _open_file(file, os.O_RDWR | os.O_CREAT)
        try:
            if not _try_lock(handle):
                raise RunBusy(f"Another process is working on run {run}.")
            yield
        finally:
            os.close(handle)

    def is_held(self, run: str) -> bool:
        """Return whether a process holds the run."""
        try:
            handle = _open_file(self._lock_file(run), os.O_RDWR)
        except JournalError:
            return False
        try:
            return not _try_lock(handle)
        finally:
            os.close(handle)

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def write(self) -> Generator[sqlite3.Connection]:
        """Open a transaction that holds the write lock, and commit it unless it raises."""
        with self._lock, _clear_errors(self.path):
            connection = self._connect()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _lock_file(self, run: str) -> Path:
        name = hashlib.sha256(run.encode("utf-8", "surrogatepass")).hexdigest()
        return self.path.with_name(f"{self.path.name}.locks") / name

    @contextmanager
    def _reading(self) -> Generator[sqlite3.Connection | None]:
        """Return the connection; None if there is no file yet."""
        with self._lock, _clear_errors(self.path):
            exists = self._connection is not None or os.path.lexists(self.path)
            yield self._connect() if exists else None

    def _select(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._reading() as connection:
            return [] if connection is None else connection.execute(query, values).fetchall()

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = _open(self.path, self._busy_seconds)
        return self._connection


def _open(path: Path, busy_seconds: float) -> sqlite3.Connection:
    make_private_folder(path.parent)
    note_database(path)
    os.close(_open_file(path, os.O_RDWR | os.O_CREAT))  # SQLite gives its other files this mode
    connection = sqlite3.connect(
        path, timeout=busy_seconds, isolation_level=None, check_same_thread=False
    )
    try:
        connection.text_factory = _decode
        version = _set_up(connection, path)
    except BaseException:
        connection.close()
        raise
    if version != VERSION:
        connection.close()
        raise JournalError(
            f"The journal {path} has format {version}, and this handrail reads {VERSION}."
        )
    return connection


def _set_up(connection: sqlite3.Connection, path: Path) -> int:
    """Prepare a connection, create the tables of a new file, and return the file's format."""
    if _get_version(connection) == 0:
        with hold_lock(path):  # several processes may be the first
            connection.execute("PRAGMA journal_mode = WAL")
            _create(connection)
    connection.execute("PRAGMA synchronous = FULL")  # an entry survives a power cut
    connection.execute("PRAGMA secure_delete = ON")
    return _get_version(connection)


def _create(connection: sqlite3.Connection) -> None:
    """Create the tables."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in (*_SCHEMA.split(";"), *LOCAL_TABLES):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _get_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _open_file(path: Path, flags: int) -> int:
    """Open a file that only its owner can write to; a JournalError for any other."""
    try:
        handle = os.open(path, _OPEN | flags, 0o600)
    except OSError as error:
        raise JournalError(f"Cannot open {path}: {error.strerror}.") from None
    about = os.fstat(handle)
    if (
        not stat.S_ISREG(about.st_mode)
        or about.st_uid != os.geteuid()
        or about.st_mode & _OTHERS_MAY_WRITE
    ):
        os.close(handle)
        raise JournalError(
            f"Cannot use {path}: it must be a regular file that only you can write to."
        )
    return handle


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _clear_errors(path: Path) -> Generator[None]:
    """Raise SQLite's errors as a JournalError, and those of text that it cannot store."""
    try:
        yield
    except (sqlite3.Error, TimeoutError, UnicodeEncodeError) as error:
        raise JournalError(f"Cannot use the journal {path}: {error}.") from None


def _put(connection: sqlite3.Connection, head: RunHead, entries: Iterable[JournalEntry]) -> None:
    connection.executemany(
        _PUT_ENTRY, ((one.run, one.number, one.kind, one.body, one.digest) for one in entries)
    )
    summary = json.dumps(dict(head.summary), separators=(",", ":"))
    row = (head.run, head.entries, head.digest, head.began, head.changed)
    connection.execute(_PUT_HEAD, (*row, head.status, head.reason, summary))


def _read_head(connection: sqlite3.Connection, run: str) -> RunHead | None:
    row = connection.execute(f"{_HEAD} WHERE run = ?", (run,)).fetchone()
    return None if row is None else _head(row)


def _head(row: tuple[Any, ...]) -> RunHead:
    run, entries, digest, began, changed, summary = row
    count = entries if isinstance(entries, int) else 0
    first, last = (at if isinstance(at, float) else 0.0 for at in (began, changed))
    return RunHead(_text(run), count, _text(digest), first, last, parse_object(_text(summary)))


def _entry(row: tuple[Any, ...]) -> JournalEntry:
    run, number, kind, body, digest = row
    return JournalEntry(_text(run), number, _text(kind), _text(body), _text(digest))


def _text(value: object) -> str:
    """Return a text of the database; anything else is not what was written, and reads so."""
    return value if isinstance(value, str) else repr(value)


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
