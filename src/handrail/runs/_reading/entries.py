"""Read entries for pages: a range in a run, or some events."""

from __future__ import annotations

from handrail.runs._store.database import Database
from handrail.runs._store.writes import unpack
from handrail.runs.journal import JournalEntry
from handrail.runs.lines import EVENTS

MAX_ENTRIES = 20_000
"""Maximum entry rows read for one page."""


def read_range(database: Database, run: str, first: int, last: int) -> list[JournalEntry]:
    """Return a run's events between two numbers, without its states."""
    rows = database.read_now(
        "SELECT first, digest, lines FROM handrail_journal WHERE run = :run AND first <= :last "
        f"AND last >= :first ORDER BY first LIMIT {MAX_ENTRIES}",
        {"run": run, "first": first, "last": last},
    )
    entries = unpack(run, rows)
    return [one for one in entries if first <= one.number <= last and one.kind in EVENTS]
