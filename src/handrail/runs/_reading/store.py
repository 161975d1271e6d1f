"""Where records are read from: one port, and SQLite files behind it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from handrail.runs.journal import JournalEntry, JournalError
from handrail.runs.lines import EVENTS

MAX_ENTRIES = 20_000
"""Entries that one page reads at most."""
_BUSY_SECONDS = 5.0
_KINDS = ", ".join(f"'{kind}'" for kind in EVENTS)


class Dialect(NamedTuple):
    """The differences between the statements of databases."""

    is_durable: bool = False
    """Whether an engine runs the runs, and has tables beside ours."""
    engine_table: str = "workflow_status"
    find_engine: str = "SELECT 1 FROM sqlite_master WHERE name = 'workflow_status'"
    """A query that has a row if the engine has its tables."""
    join: str = "group_concat"
    """The function that joins texts of several rows."""
    written: str = ""
    """A condition that events must meet, so that none before them can appear later."""


_WRITTEN = (
    "AND e.place < (CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) << 20)"
)
POSTGRES = Dialect(
    is_durable=True,
    engine_table="dbos.workflow_status",
    find_engine="SELECT 1 WHERE to_regclass('dbos.workflow_status') IS NOT NULL",
    join="string_agg",
    written=_WRITTEN,
)
"""Events of a transaction appear once no older transaction can add any before them."""


class Store(Protocol):
    """Runs single statements, and only reads."""

    @property
    def dialect(self) -> Dialect:
        """The parts of its statements that differ."""
        ...

    def select(self, sql: str, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a query."""
        ...

    def has_news(self) -> bool:
        """Return whether another process may have written since the last time."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class SqliteStore:
    """A SQLite file: of a local journal, or of durable runs. Its connection cannot write."""

    def __init__(self, path: Path) -> None:
        self.dialect = Dialect()
        self._lock = threading.Lock()
        self._version = -1
        try:
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro",
                uri=True,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            self._connection.execute("PRAGMA query_only = ON")
        except sqlite3.Error as error:
            raise JournalError(f"Cannot read the runs in {path}: {error}.") from None

    def select(self, sql: str, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._lock:
            try:
                return self._connection.execute(sql, dict(values)).fetchall()
            except sqlite3.Error as error:
                raise JournalError(f"Cannot read the runs: {error}.") from None

    def has_news(self) -> bool:
        """Return whether another process has written since the last time."""
        before = self._version
        self._version = int(self.select("PRAGMA data_version", {})[0][0])
        return before != self._version

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


def read_range(store: Store, run: str, first: int, last: int) -> list[JournalEntry]:
    """Return the events of a run between two numbers, without its states."""
    values = {"run": run, "first": first, "last": last}
    if not store.dialect.is_durable:
        rows = store.select(
            "SELECT run, number, kind, body, digest FROM entries WHERE run = :run "
            f"AND number BETWEEN :first AND :last AND kind IN ({_KINDS}) "
            f"ORDER BY number LIMIT {MAX_ENTRIES}",
            values,
        )
        return [JournalEntry(*row) for row in rows]
    rows = store.select(
        "SELECT run, first, lines FROM handrail_journal WHERE run = :run AND first <= :last "
        f"AND last >= :first ORDER BY first LIMIT {MAX_ENTRIES}",
        values,
    )
    return [entry for entry in unpack(rows) if first <= entry.number <= last]


def read_places(store: Store, places: Iterable[int]) -> dict[tuple[str, int], JournalEntry]:
    """Return the entries of events, by run and number."""
    several = ", ".join(str(int(place)) for place in places) or "-1"
    if not store.dialect.is_durable:
        rows = store.select(
            "SELECT j.run, j.number, j.kind, j.body, j.digest FROM handrail_event e "
            f"JOIN entries j ON j.run = e.run AND j.number = e.number WHERE e.place IN ({several})",
            {},
        )
        entries = [JournalEntry(*row) for row in rows]
    else:
        rows = store.select(
            "SELECT DISTINCT j.run, j.first, j.lines FROM handrail_event e "
            "JOIN handrail_journal j ON j.run = e.run AND j.first <= e.number "
            f"AND j.last >= e.number WHERE e.place IN ({several})",
            {},
        )
        entries = unpack(rows)
    return {(entry.run, entry.number): entry for entry in entries}


def unpack(rows: Iterable[tuple[Any, ...]]) -> list[JournalEntry]:
    """Return the entries of rows that have several each."""
    from json import loads

    return [
        JournalEntry(run, number, kind, body, digest)
        for run, first, lines in rows
        for number, (kind, body, digest) in enumerate(loads(lines), first)
    ]
