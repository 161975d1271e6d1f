"""A run's calls, in pages, each with its history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from handrail.permissions import Approvers, Pending
from handrail.runs._reading.values import CallRecord, CallRow, CallsPage
from handrail.runs._store.database import Database
from handrail.runs._store.writes import unpack
from handrail.runs.history import CallHistory, all_calls, read_history
from handrail.runs.journal import JournalEntry
from handrail.runs.lines import EVENTS, LineFields, as_fields

Select: TypeAlias = Callable[..., Sequence[tuple[Any, ...]]]

_CALL = "SELECT number, call, turn, tool, status, began, ended, rule, pending, first, last"
_MAX_ENTRIES = 20_000
"""Maximum entry rows read for one page."""


def open_turn(select: Select, run: str, seen: str) -> int:
    """Return the turn to open: a waiting one, else a failed one, else the last."""
    rows = select(
        "SELECT number FROM handrail_turn WHERE run = :run AND calls > 0 "
        f"AND {seen} ORDER BY CASE WHEN waiting > 0 THEN 0 WHEN failed > 0 THEN 1 ELSE 2 END, "
        "CASE WHEN waiting > 0 OR failed > 0 THEN number ELSE -number END LIMIT 1",
        run=run,
    )
    return int(rows[0][0]) if rows else 0


def read_calls(
    database: Database, select: Select, run: str, *, seen: str, place: Mapping[str, int]
) -> CallsPage:
    """Return a page of calls."""
    limit = place["limit"]
    rows = select(
        f"{_CALL} FROM handrail_called WHERE run = :run AND number > :after "
        f"AND turn >= :turn AND {seen} ORDER BY number LIMIT :limit",
        run=run,
        after=place["after"],
        turn=place["turn"],
        limit=limit + 1,
    )
    found = rows[:limit]
    if not found:
        return CallsPage(rows=(), turn=place["turn"])
    first, last = min(row[9] for row in found), max(row[10] for row in found)
    entries = tuple(_read_range(database, run, first, last))
    histories = _match(found, entries)
    calls = [
        replace(_call_row(row), history=history)
        for row, history in zip(found, histories, strict=True)
    ]
    more = calls[-1].number if len(rows) > limit else 0
    turn = place["turn"] or calls[0].turn
    return CallsPage(rows=tuple(calls), next=more, turn=turn, entries=entries)


def read_call(
    database: Database, select: Select, run: str, *, seen: str, number: int, page: CallsPage | None
) -> CallRecord | None:
    """Return one call with its events, which a page with this call has read already."""
    rows = select(
        f"{_CALL}, (SELECT q.pending FROM handrail_question q WHERE q.id = c.pending) "
        f"FROM handrail_called c WHERE run = :run AND number = :number AND {seen}",
        run=run,
        number=number,
    )
    if not rows:
        return None
    entries: Iterable[JournalEntry] = page.entries if page else ()
    if page is None or all(row.number != number for row in page.rows):
        entries = _read_range(database, run, rows[0][9], rows[0][10])
    lines = _lines_of(rows, entries)
    [history] = _match(rows, entries)
    *row, asked = rows[0]
    return CallRecord(
        row=replace(_call_row(tuple(row)), history=history),
        events=tuple(lines),
        approvers=Pending.from_json(asked).approvers if asked else Approvers(),
    )


def _lines_of(rows: Sequence[tuple[Any, ...]], entries: Iterable[JournalEntry]) -> list[LineFields]:
    """Return the lines about these calls, in order."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        ranges.setdefault(row[1], []).append((row[9], row[10]))
    found: list[LineFields] = []
    for entry in entries:
        line = as_fields(entry)
        several = ranges.get(str(line.get("call_id")), ())
        if any(first <= entry.number <= last for first, last in several):
            found.append(line)
    return found


def _match(
    rows: Sequence[tuple[Any, ...]], entries: Iterable[JournalEntry]
) -> list[CallHistory | None]:
    """Return each call's history. An id can be reused after its call has ended."""
    by_id: dict[str, list[CallHistory]] = {}
    for history in all_calls(read_history(_lines_of(rows, entries))):
        by_id.setdefault(history.id, []).append(history)
    found: list[CallHistory | None] = []
    for row in rows:
        several = by_id.get(row[1], [])
        first = several.pop(0) if several else None
        if first is not None:
            first.number = row[0]
        found.append(first)
    return found


def _call_row(row: tuple[Any, ...]) -> CallRow:
    number, call, turn, tool, status, began, ended, rule, pending, _first, _last = row
    return CallRow(
        number=number,
        id=call,
        turn=turn,
        tool=tool,
        status=status,
        began=began,
        ended=ended,
        rule=rule,
        pending=pending,
    )


def _read_range(database: Database, run: str, first: int, last: int) -> list[JournalEntry]:
    """Return a run's events between two numbers, without its states."""
    rows = database.read_now(
        "SELECT first, digest, lines FROM handrail_journal WHERE run = :run AND first <= :last "
        f"AND last >= :first ORDER BY first LIMIT {_MAX_ENTRIES}",
        {"run": run, "first": first, "last": last},
    )
    entries = unpack(run, rows)
    return [one for one in entries if first <= one.number <= last and one.kind in EVENTS]
