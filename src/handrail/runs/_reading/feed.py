"""Follow a journal: events as they are written, by any process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import anyio
from anyio import to_thread

from handrail.runs._reading.searches import EVENT_COLUMNS, event_row
from handrail.runs._store.database import Database
from handrail.runs.journal import EventRow

POLL_SECONDS = 0.5
"""Seconds between two looks."""
_PAGE = 500


async def follow_events(
    database: Database,
    after: int | None,
    seen: str = "1 = 1",
    names: Mapping[str, str] | None = None,
) -> AsyncIterator[EventRow]:
    """Yield events after a place, as they are written, until the caller stops.

    Args:
        database: Where the events are.
        after: The place; None: only what is written from now on.
        seen: A condition that events must meet.
        names: Values in that condition.
    """
    place = await to_thread.run_sync(_find_last, database) if after is None else after
    sql = (
        f"SELECT {EVENT_COLUMNS} FROM handrail_event e WHERE e.place > :after "
        f"{written_only(database)} AND {seen} ORDER BY e.place LIMIT {_PAGE}"
    )
    seen_version: int | None = -1
    is_full = True
    while True:
        version = await to_thread.run_sync(database.read_version)
        if is_full or version is None or version != seen_version:
            seen_version = version
            values = {**(names or {}), "after": place}
            rows = await to_thread.run_sync(database.read_now, sql, values)
            for row in rows:
                yield event_row(row)
            place = rows[-1][0] if rows else place
            is_full = len(rows) == _PAGE
        if not is_full:
            await anyio.sleep(POLL_SECONDS)


def _find_last(database: Database) -> int:
    """Return the place of the last event."""
    last = "SELECT COALESCE(MAX(e.place), 0) FROM handrail_event e WHERE 1 = 1"
    [(place,)] = database.read_now(f"{last} {written_only(database)}", {})
    return int(place)


def written_only(database: Database) -> str:
    """Return a condition that events must meet, so that none before them can appear later.

    Events of a transaction on PostgreSQL appear once no older transaction can add any before them.
    """
    if not database.is_postgres:
        return ""
    oldest = "CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)"
    return f"AND e.place < ({oldest} << 20)"
