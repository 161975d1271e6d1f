"""Worker liveness: a lock released by the system when the worker dies."""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from handrail._support.private_files import make_private_folder
from handrail._support.systems import CLOSE_ON_EXEC, NO_FOLLOW, lock
from handrail.runs._store.database import Database
from handrail.runs._store.port import DatabaseError


class Lock(Protocol):
    """A worker's lock, held or not."""

    def take(self) -> bool:
        """Take the lock. Returns False if a living process holds it."""
        ...

    def is_held(self) -> bool:
        """Return whether this object still holds the lock."""
        ...

    def is_taken(self) -> bool:
        """Return whether a living process holds the lock."""
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


def make_lock(database: Database, worker: str) -> Lock:
    """Return a worker's lock."""
    return PostgresLock(database, worker) if database.is_postgres else FileLock(database, worker)


class FileLock:
    """A lock on a file beside a SQLite database."""

    def __init__(self, database: Database, worker: str) -> None:
        path = database.path
        self._path = Path(f"{path}.workers") / worker
        self._file = -1

    def take(self) -> bool:
        """Take the lock. Returns False if a living process holds it."""
        make_private_folder(self._path.parent)
        try:
            self._file = self._open(os.O_CREAT)
        except OSError as error:
            raise DatabaseError(f"Cannot open {self._path}: {error.strerror}.") from None
        with suppress(BlockingIOError):
            lock(self._file)
            return self.is_held()  # unless its holder has just removed the file
        self._close()
        return False

    def is_held(self) -> bool:
        """Return whether this object still holds the lock: its file may have been removed."""
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._file), self._path.stat()):
                return True
        self._close()
        return False

    def is_taken(self) -> bool:
        """Return whether a living process holds the lock."""
        try:
            file = self._open()
        except OSError:
            return False
        try:
            lock(file)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def _open(self, flags: int = 0) -> int:
        return os.open(self._path, os.O_RDWR | CLOSE_ON_EXEC | NO_FOLLOW | flags, 0o600)

    def release(self) -> None:
        """Release the lock, and remove its file."""
        if not self.is_held():
            return
        if sys.platform == "win32":  # an open file cannot be removed
            self._close()
        with suppress(PermissionError):  # another worker has opened it
            self._path.unlink(missing_ok=True)
        self._close()

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


class PostgresLock:
    """A PostgreSQL connection's advisory lock."""

    def __init__(self, database: Database, worker: str) -> None:
        digest = hashlib.sha256(worker.encode()).digest()
        self._key = int.from_bytes(digest[:8], signed=True)
        self._database = database
        self._connection: Any = None

    def take(self) -> bool:
        """Take the lock. Returns False if a living process holds it."""
        self._connection = self._database.hold()
        [taken] = self._connection.execute(f"SELECT pg_try_advisory_lock({self._key})").fetchone()
        if not taken:
            self._connection.close()
        return bool(taken)

    def is_held(self) -> bool:
        """Return whether the connection still lives, and with it the lock."""
        try:
            self._connection.execute("SELECT 1")
        except Exception:  # noqa: BLE001  whatever it is, the lock is not certain
            self.release()
            return False
        return True

    def is_taken(self) -> bool:
        """Return whether a living process holds the lock."""
        if not self.take():
            return True
        self.release()
        return False

    def release(self) -> None:
        """Release the lock by closing its connection: not even an error can keep it."""
        with suppress(Exception):
            self._connection.close()
