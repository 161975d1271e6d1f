"""Live pages: one journal reader in each process wakes the streams showing its news."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from urllib.parse import unquote
from weakref import WeakValueDictionary

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Scope

from handrail.console._guard import Refusal
from handrail.console._identity import Person
from handrail.console._store import Site, need, number_of, visit_of
from handrail.net import count_files
from handrail.runs import JournalError, Records
from handrail.runs.records import from_path

MAX_STREAMS = 1_000
"""Below the limits for connections and files, to load pages while all streams are open."""
MAX_WAKES = 20
"""Then a stream ends, and the browser opens the next one: its person is checked again."""
MAX_PLACES = 10_000
"""Runs whose last event is known."""
QUIET_SECONDS = 15.0
GAP_SECONDS = 0.3
SHARED_SECONDS = 1.0
READY_SECONDS = 2.0
LIST_SECONDS = 5.0
INBOX = "/inbox"
OF_CALLS = frozenset({"prompt", "reply", "requested", "decided", "waiting", "started", "finished"})
"""Events without effect on what waits for people. After them, an inbox is read less often."""
_RETRY_SECONDS = 2.0
_PAGE = re.compile(r"(?P<path>/(?:inbox|runs|fleet)(?:/(?P<id>[^/?#]+))?)(?:\?(?P<query>[^#]*))?")
_HEADERS = {"x-accel-buffering": "no"}  # a proxy passes each event on at once


class Streams:
    """Sends the live parts of pages again when the journal has news."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._open = 0
        self._ready = anyio.Event()
        self._places: dict[str, int] = {}
        """Each run's last event position since the reader began.

        The last of all is under ``""``.
        """
        self._texts: Mapping[str, int] = {}
        """How much each reply under way has, by run."""
        self._listed = 0.0
        self._pages = WeakValueDictionary[tuple[Person, str, str], _Page]()
        self._news = anyio.Event()
        self._ended = False

    def end(self) -> None:
        """End all streams, to let the server stop."""
        self._ended = True
        self._news.set()

    async def show(self, request: Request) -> Response:
        """Open a stream for a page."""
        visit = visit_of(request)
        found = need(_PAGE.fullmatch(request.query_params.get("page", "")[:2_000]))
        with anyio.move_on_after(READY_SECONDS):
            await self._ready.wait()
        if not self._ready.is_set() or self._open >= min(MAX_STREAMS, count_files() * 2 // 3):
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "busy")
        path, query = unquote(found["path"]), found["query"] or ""
        scope = {**request.scope, "path": path, "raw_path": path.encode()}
        scope["query_string"] = query.encode("ascii", "replace")
        scope["state"] = {"visit": replace(visit, live=True)}
        run = from_path(found["id"] or "") if path.startswith("/runs/") else ""
        run = INBOX if path.startswith(INBOX) else run
        shared = self._pages.setdefault((visit.person, path, query), _Page(request, scope))
        need(await shared.read(self._place(run)) or None)  # another person's page
        seen = request.headers.get("last-event-id", "") or str(number_of(request, "after"))
        events = self._events(shared, run, seen)
        return StreamingResponse(events, media_type="text/event-stream", headers=_HEADERS)

    async def _events(self, shared: _Page, run: str, seen: str) -> AsyncGenerator[str]:
        """Yield a page's live parts after each change."""
        self._open += 1
        try:
            before, shown = "", (-1, 0)
            for _ in range(MAX_WAKES):
                place = number, _ = self._place(run)
                if place != shown and (str(number) != seen or not number):
                    fresh = await shared.read(place)
                    if fresh != before:
                        yield f"id: {number}\nevent: page\ndata: {json.dumps(fresh)}\n\n"
                    before = fresh
                shown, seen = place, ""
                with anyio.move_on_after(QUIET_SECONDS):
                    while self._place(run) == place and not self._ended:
                        await self._news.wait()
                if self._ended:
                    return
                yield ":\n\n"
                await anyio.sleep(GAP_SECONDS)
        finally:
            self._open -= 1

    def _place(self, run: str) -> tuple[int, int]:
        return self._places.get(run, 0), self._texts.get(run, 0)

    async def _look(self, records: Records) -> None:
        """Wake the pages of runs whose models write."""
        while True:
            await anyio.sleep(SHARED_SECONDS)
            texts = await to_thread.run_sync(records.texts_under_way) if self._open else {}
            if texts != self._texts:
                self._texts = texts
                self._wake()

    async def read(self) -> None:
        """Follow the journal for all streams, and close it when the task is cancelled."""
        try:
            while True:
                try:
                    await self._follow()
                except* JournalError:
                    await anyio.sleep(_RETRY_SECONDS)
        finally:
            self._site.store.close()

    async def _follow(self) -> None:
        records = await to_thread.run_sync(self._site.store.records, None)
        newest = await to_thread.run_sync(partial(records.events, limit=1))
        self._ready.set()
        events = records.follow(max((one.row.place for one in newest.rows), default=0))
        async with anyio.create_task_group() as group:
            group.start_soon(self._look, records)
            async for event in events:
                if len(self._places) > MAX_PLACES:  # an older run's page is then sent once more
                    self._places.clear()
                self._places[event.run] = self._places[""] = event.place
                now = anyio.current_time()
                if event.kind not in OF_CALLS or now - self._listed > LIST_SECONDS:
                    self._places[INBOX], self._listed = event.place, now
                self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = anyio.Event()


class _Page:
    """A page's live parts, for all streams of one person showing it."""

    def __init__(self, request: Request, scope: Scope) -> None:
        self._request, self._scope = request, scope
        self._one = anyio.Lock()
        self._place, self._until, self._html = (-1, 0), 0.0, ""

    async def read(self, place: tuple[int, int]) -> str:
        """Return the parts after an event position, or "" if the person may not see them."""
        async with self._one:
            if self._place != place or anyio.current_time() > self._until:
                self._html, self._place = await self._render(), place
                self._until = anyio.current_time() + SHARED_SECONDS  # it says how long ago
            return self._html

    async def _render(self) -> str:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        try:
            await self._request.scope["router"](dict(self._scope), self._request.receive, send)
        except Refusal:
            return ""
        return b"".join(message.get("body", b"") for message in sent).decode()
