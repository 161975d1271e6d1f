"""Events in journals: a search, and a feed of events as any process writes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import anyio
from anyio import to_thread

from handrail.runs._reading.calls import Select
from handrail.runs._reading.values import EventQuery, EventRecord, EventsPage
from handrail.runs._store.database import Database
from handrail.runs._store.tally import STATE, read_number, storable
from handrail.runs._store.writes import unpack
from handrail.runs.journal import EventRow

POLL_SECONDS = 0.5
"""Seconds between two looks."""
MAX_BLOCKS = 2_000  # events have no rows: written always, read seldom: decision 097
"""Maximum journal rows searched for one page."""
_EVENTS = 500
"""Events read at once by a search."""
_PAGE = 100
_BLOCKS = "SELECT j.place, j.run, j.first, j.at, j.digest, j.lines FROM handrail_journal j WHERE"
_TESTS = ("run", "kind", "who", "tool", "rule")


def find_events(
    select: Select, query: EventQuery, *, seen: str, before: int, limit: int
) -> EventsPage:
    """Return a page of events, the newest first.

    It searches a bounded journal part: a page can have fewer events, and others follow.
    """
    where, values = [seen], dict[str, Any]()
    if query.run:
        where.append("j.run = :run")
        values["run"] = query.run
    if query.since:
        where.append("j.at >= :since")
        values["since"] = query.since
    if before:
        where.append("j.place < :before")
        values["before"] = before
    is_plain = query == EventQuery(run=query.run, since=query.since)
    most = limit + 1 if is_plain else max(MAX_BLOCKS, limit)
    blocks = select(
        f"SELECT j.place, j.last - j.first + 1 FROM handrail_journal j WHERE {' AND '.join(where)} "
        "ORDER BY j.place DESC LIMIT :most",
        most=most,
        **values,
    )
    found: list[EventRecord] = []
    for places in _group(blocks, limit + 1 if is_plain else max(_EVENTS, limit + 1)):
        rows = select(
            f"{_BLOCKS} {seen} AND j.place IN ({', '.join(places)}) ORDER BY j.place DESC"
        )
        events = [one for one in read_events(select, rows) if _matches(one.row, query, before)]
        found += sorted(events, key=lambda one: -one.row.place)
        if len(found) > limit:
            return EventsPage(rows=tuple(found[:limit]), next=found[limit - 1].row.place)
    return EventsPage(rows=tuple(found), next=blocks[-1][0] if len(blocks) == most else 0)


def _group(blocks: Iterable[tuple[Any, ...]], most: int) -> Iterator[list[str]]:
    """Yield places of rows with ``most`` events or a few more, limiting those in memory."""
    group, events = list[str](), 0
    for place, count in blocks:
        group.append(str(int(place)))
        events += count if isinstance(count, int) else 1
        if events >= most:
            yield group
            group, events = [], 0
    if group:
        yield group


def _matches(row: EventRow, query: EventQuery, before: int) -> bool:
    wanted = [(getattr(query, name), getattr(row, name)) for name in _TESTS]
    return (
        (not before or row.place < before)
        and row.at >= query.since
        and (not query.until or row.at <= query.until)
        and all(not given or given == has for given, has in wanted)
    )


def read_events(select: Select, blocks: Sequence[tuple[Any, ...]]) -> list[EventRecord]:
    """Return the events in journal rows, without states. Each has its call's tool."""
    found = [one for block in blocks for one in _read_block(block)]
    if not any(one.row.call and not one.row.tool for one in found):
        return found
    places = ", ".join(str(int(place)) for place, *_ in blocks)
    calls = select(  # those requested in an earlier row
        "SELECT DISTINCT c.run, c.call, c.first, c.last, c.tool FROM handrail_journal j "
        "JOIN handrail_called c ON c.run = j.run AND c.first < j.first AND c.last >= j.first "
        f"WHERE j.place IN ({places})"
    )
    return [one if one.row.tool else _name_tool(one, calls) for one in found]


def _read_block(block: tuple[Any, ...]) -> Iterator[EventRecord]:
    place, run, first, at, *rest = block
    tools: dict[str, str] = {}
    for number, entry in enumerate(unpack(run, [(first, *rest)])):
        if entry.kind == STATE:
            continue
        line = entry.content
        origin: Any = line.get("origin")
        rule = cast("Mapping[str, Any]", origin).get("rule") if isinstance(origin, dict) else ""
        call = storable(line.get("call_id"))
        tools[call] = storable(line.get("tool")) or tools.get(call, "")
        row = EventRow(
            place=place + number,
            run=run,
            number=entry.number,
            at=read_number(line.get("at"), at),
            kind=entry.kind,
            call=call,
            tool=tools[call] if call else storable(line.get("tool")),
            rule=storable(rule),
            who=storable(line.get("by")) or storable(line.get("principal")),
        )
        yield EventRecord(row=row, body=entry.body, digest=entry.digest)


def _name_tool(event: EventRecord, calls: Iterable[tuple[Any, ...]]) -> EventRecord:
    row = event.row
    for run, call, first, last, tool in calls:
        if (run, call) == (row.run, row.call) and first <= row.number <= last:
            return replace(event, row=replace(row, tool=tool))
    return event


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
        seen: A condition that rows of journals must meet.
        names: Values in that condition.
    """

    def select(sql: str, **values: Any) -> Sequence[tuple[Any, ...]]:
        return database.read_now(sql, {**(names or {}), **values})

    def read_next(block: int) -> tuple[list[EventRecord], int, bool]:
        rows = select(sql, block=block)
        last = rows[-1][0] if rows else block
        return read_events(select, rows), last, len(rows) == _PAGE

    written = _written_only(database)
    sql = f"{_BLOCKS} j.place > :block {written} AND {seen} ORDER BY j.place LIMIT {_PAGE}"
    block = await to_thread.run_sync(_find_block, database, after)
    version: int | None = -1
    is_full = True
    while True:
        now = await to_thread.run_sync(database.read_version)
        if is_full or now is None or now != version:
            version = now
            found, block, is_full = await to_thread.run_sync(read_next, block)
            for event in found:
                if after is None or event.row.place > after:
                    yield event.row
        if not is_full:
            await anyio.sleep(POLL_SECONDS)


def _find_block(database: Database, after: int | None) -> int:
    """Return the place of a journal's last row, or of the row before an event's."""
    last = "SELECT COALESCE(MAX(j.place), 0) FROM handrail_journal j WHERE"
    if after is None:
        [(place,)] = database.read_now(f"{last} 1 = 1 {_written_only(database)}", {})
        return int(place)
    [(place,)] = database.read_now(f"{last} j.place <= :after", {"after": after})
    return int(place) - 1


def _written_only(database: Database) -> str:
    """Return a condition for rows, after which none before them can appear later.

    Rows of a transaction on PostgreSQL appear once no older transaction can add any before them.
    """
    if not database.is_postgres:
        return ""
    oldest = "CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)"
    return f"AND j.place < ({oldest} << 20)"
