"""Recorded calls with what they touched, what was decided, and what a person answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from handrail import Call
from handrail._support import is_object
from handrail.runs._reading.records import Records
from handrail.runs._reading.values import CallRecord, EventQuery
from handrail.runs.history import read_key
from handrail.runs.journal import parse_object

MAX_CALLS = 2_000
"""Maximum calls to read, the newest first."""
_PAGE = 500
MAX_ROWS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """A decided call."""

    run: str
    call: Call
    accesses: tuple[tuple[str, str], ...]
    """A verb and a resource each."""
    decision: str
    answer: str = ""
    """What a person answered: ``allow``, ``deny``, ``edit`` or ``result``; empty if no one did."""


def read_past_calls(records: Records, *, limit: int = MAX_CALLS) -> tuple[PastCall, ...]:
    """Return the newest decided calls, in six statements at most."""
    kinds = ("decided", "requested", "answered")
    decided, asked, answered = (_read(records, kind, limit) for kind in kinds)
    calls: list[PastCall] = []
    for key, line in decided.items():
        first = {**asked.get(key, {}), **line}
        args: Any = first.get("args")
        if (isinstance(args, str) or is_object(args)) and isinstance(first.get("tool"), str):
            calls.append(
                PastCall(
                    run=key[0],
                    call=Call(first["tool"], args, key[-1]),
                    accesses=tuple(_pairs(line.get("accesses"))),
                    decision=str(line.get("decision")),
                    answer=str(answered.get(key, {}).get("answer", "")),
                )
            )
    return tuple(calls)


def past_call(run: str, record: CallRecord) -> PastCall:
    """Return a page's call as it was decided."""
    lines = {str(one.get("event")): one for one in reversed(record.events)}
    history, then = record.row.history, lines.get("decided", {})
    return PastCall(
        run=run,
        call=Call(record.row.tool, history.args if history and history.args else {}, record.row.id),
        accesses=tuple(_pairs(then.get("accesses"))),
        decision=str(then.get("decision", "")),
        answer=str(lines.get("answered", {}).get("answer", "")),
    )


def read_call_records(
    records: Records, run: str, lines: Iterable[Mapping[str, Any]]
) -> tuple[CallRecord, ...]:
    """Return all calls in a run with their events, given its journal's lines."""
    events: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        turn, _, call = read_key(line)
        events.setdefault((turn, call), []).append(line)
    rows = records.calls(run, after=0, limit=MAX_ROWS).rows
    keys = [(row.history.turn if row.history else 0, row.id) for row in rows]
    found = [tuple(events.get(key, ())) for key in keys]
    return tuple(CallRecord(row=row, events=own) for row, own in zip(rows, found, strict=True))


def list_runs(records: Records) -> Iterator[str]:
    """Yield all run ids, the newest first, a page at a time."""
    page = records.runs(limit=_PAGE)
    yield from (row.id for row in page.rows)
    while page.next:
        page = records.runs(after=page.next, limit=_PAGE)
        yield from (row.id for row in page.rows)


def _read(
    records: Records, kind: str, limit: int
) -> dict[tuple[str, int, str, str], dict[str, Any]]:
    """Return each call's first event with a kind, the newest calls first."""
    page = records.events(EventQuery(kind=kind), limit=limit)
    lines = [(one.row, parse_object(one.body)) for one in page.rows]
    return {(row.run, *read_key(line)[:2], row.call): line for row, line in lines}


def _pairs(value: Any) -> list[tuple[str, str]]:
    several = cast("list[object]", value) if isinstance(value, list) else []
    pairs = [cast("list[object]", one) for one in several if isinstance(one, list)]
    return [(str(one[0]), str(one[1])) for one in pairs if len(one) == 2]  # noqa: PLR2004
