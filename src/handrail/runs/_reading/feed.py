"""Follow a journal: events as they are written, by any process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import anyio
from anyio import to_thread

from handrail.runs._reading.searches import EVENT_COLUMNS, event_row
from handrail.runs._reading.store import Store
from handrail.runs.journal import EventRow

POLL_SECONDS = 0.5
"""Seconds between two looks."""
_PAGE = 500


async def follow_events(
    store: Store, after: int | None, seen: str = "1 = 1", names: Mapping[str, str] | None = None
) -> AsyncIterator[EventRow]:
    """Yield events after a place, as they are written, until the caller stops.

    Args:
        store: Where the events are.
        after: The place; None: only what is written from now on.
        seen: A condition that events must meet.
        names: Values in that condition.
    """
    place = await to_thread.run_sync(_find_last, store) if after is None else after
    sql = (
        f"SELECT {EVENT_COLUMNS} FROM handrail_event e WHERE e.place > :after "
        f"{store.dialect.written} AND {seen} ORDER BY e.place LIMIT {_PAGE}"
    )
    is_full = True
    while True:
        if is_full or await to_thread.run_sync(store.has_news):
            values = {**(names or {}), "after": place}
            rows = await to_thread.run_sync(store.select, sql, values)
            for row in rows:
                yield event_row(row)
            place = rows[-1][0] if rows else place
            is_full = len(rows) == _PAGE
        if not is_full:
            await anyio.sleep(POLL_SECONDS)


def _find_last(store: Store) -> int:
    """Return the place of the last event."""
    last = "SELECT COALESCE(MAX(e.place), 0) FROM handrail_event e WHERE 1 = 1"
    [(place,)] = store.select(f"{last} {store.dialect.written}", {})
    return int(place)
