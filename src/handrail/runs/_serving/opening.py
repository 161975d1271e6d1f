"""Open the records of runs: of a local journal, or of durable runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from handrail.runs._reading.records import DatabaseRecords
from handrail.runs._reading.store import POSTGRES, Dialect, SqliteStore, Store
from handrail.runs._store.database import Database
from handrail.runs._store.schema import check_schema
from handrail.runs.sqlite import VERSION, SqliteJournal

if TYPE_CHECKING:
    from handrail.runs._reading.port import Records


def open_records(
    where: str | os.PathLike[str],
    *,
    labels: Collection[str] | None = None,
    clock: Callable[[], float] = time,
) -> Records:
    """Open what pages read of the runs in a journal or a database. It cannot write.

    Args:
        where: The file of a ``SqliteJournal`` or of ``DurableRuns``, or ``postgresql://...``.
        labels: It sees only runs that have one of these labels; default: all runs.
        clock: Returns the time.
    """
    return DatabaseRecords(open_store(where), labels, clock=clock)


def open_store(where: str | os.PathLike[str]) -> Store:
    """Open a database to read from."""
    address = os.fspath(where)
    if address.startswith("postgresql:"):
        database = Database(address, read_only=True)
        check_schema(database.read_now, postgres=True)
        return DatabaseStore(database)
    return _open_file(Path(address.removeprefix("sqlite:///")))


def _open_file(path: Path) -> SqliteStore:
    """Open a file. A local journal of another format is a JournalError."""
    store = SqliteStore(path)
    names = {name for (name,) in store.select("SELECT name FROM sqlite_master", {})}
    durable = "handrail_journal" in names
    if durable:
        check_schema(store.select, postgres=False)
    if not durable and store.select("PRAGMA user_version", {}) != [(VERSION,)]:
        journal = SqliteJournal(path)
        journal.head("")
        journal.close()
    store.dialect = Dialect(is_durable=durable)
    return store


class DatabaseStore:
    """PostgreSQL; see ``Store``."""

    dialect = POSTGRES

    def __init__(self, database: Database) -> None:
        self._database = database

    def select(self, sql: str, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self._database.read_now(sql, values)

    def has_news(self) -> bool:
        """Return True: only the events themselves say so."""
        return True

    def close(self) -> None:
        """Close the connections."""
        self._database.close()
