"""The audit: events from all runs, the newest first, and exports of the same search."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import urlencode

from anyio import to_thread
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from handrail.console._shown import Clear
from handrail.console._store import Site, go, need, number_of, query_of, visit_of
from handrail.runs import Records
from handrail.runs.chain import ChainCheck, dump_chain, verify_on
from handrail.runs.records import (
    EventQuery,
    EventRecord,
    events_as_csv,
    events_as_jsonl,
    from_path,
    list_runs,
    read_event_pages,
)

FIELDS = ("run", "kind", "who", "tool", "rule")


class Audit:
    """The audit pages. Only auditors see them."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._checks: dict[frozenset[str] | None, ChainCheck] = {}
        """How far this process has verified the runs with these labels."""

    async def show(self, request: Request) -> Response:
        """Show events."""
        visit = visit_of(request, "auditor")
        query, given = _query(request)
        before, size = number_of(request, "before") or 0, self._site.config.page_size
        page = await self._site.read(
            visit, "auditor", lambda runs: runs.events(query, before=before, limit=size)
        )
        return self._site.page(
            "audit.html",
            visit,
            rows=page.rows,
            next=page.next,
            given=given,
            again=Clear(urlencode(given, errors="replace")),
            check=self._checks.get(visit.person.labels("auditor")),
        )

    async def verify(self, request: Request) -> Response:
        """Verify the chains of all visible runs: all, or only entries since the last check."""
        visit = visit_of(request, "auditor")
        labels = visit.person.labels("auditor")
        before = None if visit.field("all") else self._checks.get(labels)

        def work(records: Records) -> ChainCheck:
            runs = self._site.store.runs
            return verify_on(runs, list_runs(records), before, clock=self._site.clock)

        self._checks[labels] = await self._site.read(visit, "auditor", work)
        return go(f"{self._site.base}/audit")

    async def export_chain(self, request: Request) -> Response:
        """Return a run's entries with their digests, for `handrail runs verify --from`."""
        visit, run = visit_of(request, "auditor"), from_path(request.path_params["run"])
        need(await self._site.read(visit, "auditor", lambda runs: runs.run(run)))
        lines = dump_chain(self._site.store.runs, run)
        return _download(lines, "application/jsonl", "chain.jsonl")

    async def export_lines(self, request: Request) -> Response:
        """Return events as JSON Lines, each with its digest."""
        texts = events_as_jsonl(await self._collect(request))
        return _download(texts, "application/jsonl", "audit.jsonl")

    async def export_table(self, request: Request) -> Response:
        """Return events as CSV. A spreadsheet runs no cell as a formula."""
        texts = events_as_csv(await self._collect(request))
        return _download(texts, "text/csv; charset=utf-8", "audit.csv")

    async def _collect(self, request: Request) -> Iterator[Sequence[EventRecord]]:
        """Read a page now, to answer with a failure, and each other page when it is sent."""
        labels = visit_of(request, "auditor").person.labels("auditor")
        pages = read_event_pages(partial(self._site.store.records, labels), _query(request)[0])
        return chain([await to_thread.run_sync(next, pages)], pages)


def _query(request: Request) -> tuple[EventQuery, dict[str, str]]:
    given = {name: query_of(request, name) for name in FIELDS}
    values: dict[str, Any] = dict(given)
    return EventQuery(**values), given


def _download(texts: Generator[str], media: str, name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    ending = BackgroundTask(texts.close)  # also if the client goes away
    return StreamingResponse(texts, media_type=media, headers=headers, background=ending)
