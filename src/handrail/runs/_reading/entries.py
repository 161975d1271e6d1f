"""Read entries for pages: of a range of a run, or of some events."""

from __future__ import annotations

from collections.abc import Iterable

from handrail.runs._store.database import Database
from handrail.runs._store.writes import unpack
from handrail.runs.journal import JournalEntry
from handrail.runs.lines import EVENTS

MAX_ENTRIES = 20_000
"""Rows of entries that one page reads at most."""


def read_range(database: Database, run: str, first: int, last: int) -> list[JournalEntry]:
    """Return the events of a run between two numbers, without its states."""
    rows = database.read_now(
        "SELECT first, lines FROM handrail_journal WHERE run = :run AND first <= :last "
        f"AND last >= :first ORDER BY first LIMIT {MAX_ENTRIES}",
        {"run": run, "first": first, "last": last},
    )
    entries = unpack(run, rows)
    return [one for one in entries if first <= one.number <= last and one.kind in EVENTS]


def read_places(database: Database, places: Iterable[int]) -> dict[tuple[str, int], JournalEntry]:
    """Return the entries of events, by run and number."""
    several = ", ".join(str(int(place)) for place in places) or "-1"
    rows = database.read_now(
        "SELECT DISTINCT j.run, j.first, j.lines FROM handrail_event e "
        "JOIN handrail_journal j ON j.run = e.run AND j.first <= e.number "
        f"AND j.last >= e.number WHERE e.place IN ({several})",
        {},
    )
    entries = [one for run, *block in rows for one in unpack(run, [tuple(block)])]
    return {(entry.run, entry.number): entry for entry in entries}
