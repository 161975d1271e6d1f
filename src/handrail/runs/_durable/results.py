"""Long results in the database, so any process can read them."""

from __future__ import annotations

import time
from typing import Any

from handrail import LongResults
from handrail.runs._store.claims import as_name
from handrail.runs._store.database import Database
from handrail.runs._store.port import Step
from handrail.runs._store.tables import add_row

MAX_CHARS = 8 * 1024 * 1024
"""How much of one result is stored."""
MAX_BYTES = 16 * 1024 * 1024
"""How much a run keeps, with 1,000 bytes for each row. The oldest results are dropped first."""
_CHANGE = "(run, call) DO UPDATE SET at = excluded.at, body = excluded.body"
_GET = "SELECT body FROM handrail_result WHERE run = :run AND call = :call"
_IDS = "SELECT call FROM handrail_result WHERE run = :run ORDER BY at, call"
_DROP = (
    "DELETE FROM handrail_result WHERE run = :run AND call <> :call AND call IN (SELECT call FROM "
    "(SELECT call, SUM(LENGTH(body) + 1000) OVER (ORDER BY at DESC, call DESC) AS total "
    "FROM handrail_result WHERE run = :run) AS t WHERE total > :most)"
)


class StoredResults:
    """Stores a run's long results; see ``ResultStore``. Its methods block.

    They are deleted with the run. Results of a run without a row are not stored.
    """

    def __init__(self, database: Database, run: str, *, max_bytes: int = MAX_BYTES) -> None:
        self._database = database
        self._run = run
        self._max_bytes = max_bytes

    def put(self, call_id: str, text: str) -> int:
        """Store what fits from a text, and return how many characters were stored."""
        body = text[:MAX_CHARS]
        row: dict[str, Any] = {"run": self._run, "call": as_name(call_id), "at": time.time()}
        add = add_row("result", ":run, :call, :at, :body", postgres=self._database.is_postgres)
        steps: list[Step] = [
            (f"{add}{_CHANGE}", [{**row, "body": body}]),
            (_DROP, [{"run": self._run, "call": row["call"], "most": self._max_bytes}]),
        ]
        return len(body) if self._database.transact_now(steps, 0)[0] else 0

    def get(self, call_id: str) -> str | None:
        """Return a call's text, if it is still stored."""
        rows = self._database.read_now(_GET, {"run": self._run, "call": as_name(call_id)})
        return rows[0][0] if rows else None

    def ids(self) -> tuple[str, ...]:
        """Return the ids of calls with stored texts, oldest first."""
        return tuple(row[0] for row in self._database.read_now(_IDS, {"run": self._run}))

    def find(self, *, are_known: bool) -> LongResults:
        """Return options for an executor. If ``are_known``, its model can read from the start."""
        return LongResults(store=self, reader="always" if are_known else "when_needed")
