"""The audit: events of all runs, the newest first, and exports of the same search."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from handrail.console.shown import Clear, shown
from handrail.console.store import Site, number_of, query_of, visit_of
from handrail.console.words import moment
from handrail.runs import EventQuery, EventRecord, Records

FIELDS = ("run", "kind", "who", "tool", "rule")
MAX_EXPORTED = 10_000
_PAGE = 500
_FORMULA = tuple("=+-@\t\r\n'")
_HEADS = ("place", "run", "number", "at", "event", "who", "tool", "rule", "digest")


class Audit:
    """The pages of the audit. Only auditors see them."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def show(self, request: Request) -> Response:
        """Show events."""
        visit = visit_of(request, "auditor")
        query, given = _query(request)
        before, size = number_of(request, "before") or 0, self._site.config.page_size
        page = await self._site.read(
            visit, "auditor", lambda runs: runs.events(query, before=before, limit=size)
        )
        return self._site.renderer.page(
            "audit.html",
            visit,
            here=Clear("audit"),
            rows=page.rows,
            next=page.next,
            given=given,
            again=Clear(urlencode(given, errors="replace")),
            page_size=size,
            most=f"{MAX_EXPORTED:,}",
        )

    async def export_lines(self, request: Request) -> Response:
        """Return events as JSON Lines, each with its digest."""
        events = await self._collect(request)
        lines = (f"{json.dumps(_document(event))}\n" for event in events)
        return _download(lines, "application/jsonl", "audit.jsonl")

    async def export_table(self, request: Request) -> Response:
        """Return events as CSV. A spreadsheet runs no cell as a formula."""
        events = await self._collect(request)
        rows = (tuple(_cells(event)) for event in events)
        return _download(map(_as_csv, (_HEADS, *rows)), "text/csv; charset=utf-8", "audit.csv")

    async def _collect(self, request: Request) -> list[EventRecord]:
        visit = visit_of(request, "auditor")
        query, _ = _query(request)
        return await self._site.read(visit, "auditor", partial(_read_all, query))


def _query(request: Request) -> tuple[EventQuery, dict[str, str]]:
    given = {name: query_of(request, name) for name in FIELDS}
    values: dict[str, Any] = dict(given)
    return EventQuery(**values), given


def _read_all(query: EventQuery, records: Records) -> list[EventRecord]:
    found: list[EventRecord] = []
    before = 0
    while len(found) < MAX_EXPORTED:
        page = records.events(query, before=before, limit=min(_PAGE, MAX_EXPORTED - len(found)))
        found += page.rows
        before = page.next
        if not before:
            break
    return found


def _document(event: EventRecord) -> dict[str, Any]:
    row = event.row
    about = {"place": row.place, "run": row.run, "number": row.number, "kind": row.kind}
    return {**about, "body": event.body, "digest": event.digest}


def _cells(event: EventRecord) -> Iterator[str]:
    row = event.row
    several = (row.place, row.run, row.number, moment(row.at), row.kind, row.who, row.tool)
    for value in (*several, row.rule, event.digest):
        text = str(shown(value))
        yield f"'{text}" if text.startswith(_FORMULA) else text


def _as_csv(cells: tuple[str, ...]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow(cells)
    return out.getvalue()


def _download(lines: Iterator[str], media: str, name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines, media_type=media, headers=headers)
