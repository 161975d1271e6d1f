"""Watch runs: one reader in each process wakes all watchers."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from contextvars import Context
from itertools import islice
from typing import Any, NamedTuple

import anyio
from anyio import to_thread

from handrail._support.loop import current_loop, spawn
from handrail.runs._live.feed import MAX_LINES, Cursor, Feed, Line, Update
from handrail.runs._live.news import watch as watch_database
from handrail.runs._live.pieces import CHANNEL
from handrail.runs._live.port import WatchedStore
from handrail.runs._store.port import DatabaseReplica
from handrail.runs.journal import JournalEntry, JournalError
from handrail.runs.lines import EVENTS, LineFields, as_fields

log = logging.getLogger("handrail.runs")

_POLL = 0.25
"""Seconds between two looks without news."""
_REST = 0.01
_PAUSE = 1.0
"""Seconds before the next try if the database is away."""
_STEP = (
    "SELECT body FROM handrail_step WHERE run = :run AND segment = :segment AND number = :number"
)


class Watching:
    """Reads for all watchers in one event loop."""

    def __init__(self, store: WatchedStore) -> None:
        self._store = store
        self._database = store.database
        self._feeds: dict[str, Feed] = {}
        self._task: object = None
        self._news = anyio.Event()
        self._rests = anyio.Event()
        """Set when the reader has ended, or has watchers again."""

    async def watch(self, run: str, after: str) -> AsyncGenerator[Update]:
        """Yield a run's events behind a place, until it ends. The last watcher ends the reader."""
        cursor = Cursor.read(after)
        head = await to_thread.run_sync(self._store.head, run)
        if head is None:
            raise LookupError(f"There is no run {run!r}.")
        async with self._join(Feed(head)) as feed:
            while True:
                changed = feed.changed
                async for update in self._read(feed, cursor):
                    yield update
                if feed.error is not None:
                    raise feed.error
                if cursor.number < feed.number:
                    continue
                if feed.has_ended:
                    return
                await changed.wait()

    @asynccontextmanager
    async def _join(self, new: Feed) -> AsyncGenerator[Feed]:
        feed = self._feeds.setdefault(new.run, new)
        feed.watchers += 1
        self._news.set()
        self._rests.set()
        self._rests = anyio.Event()
        if self._task is None:
            self._task = spawn(Context(), self._work, lost=self._end)
        try:
            yield feed
        finally:
            feed.watchers -= 1
            if not feed.watchers:
                del self._feeds[feed.run]
                self._news.set()
            if not self._feeds and self._task is not None:
                with anyio.CancelScope(shield=True):
                    await self._rests.wait()

    async def _read(self, feed: Feed, cursor: Cursor) -> AsyncGenerator[Update]:
        """Yield unseen events: journal lines, then the reply under way."""
        lines, end = await self._lines_behind(feed, cursor.number)
        for line in lines:
            if line.fields["event"] == "reply":
                for update in cursor.complete(await self._text_of(feed, line)):
                    yield update
                cursor.reset()
            cursor.number = line.number
            yield Update(cursor.id, line.fields)
        cursor.number = max(cursor.number, end)
        if cursor.number == feed.number and feed.turn > feed.turns:
            for update in cursor.show(feed):
                yield update

    async def _lines_behind(self, feed: Feed, number: int) -> tuple[list[Line], int]:
        """Return the lines behind a number, and the number up to which there are no others."""
        if number >= feed.first:
            return [line for line in feed.lines if line.number > number], feed.number
        entries, end = await to_thread.run_sync(self._entries, feed.run, number, feed.number)
        return [Line(entry.number, as_fields(entry)) for entry in entries], end

    def _entries(self, run: str, after: int, end: int) -> tuple[list[JournalEntry], int]:
        """Return the entries up to a number, but not too many, and the number reached."""
        several = self._store.read(run, after=after, kinds=EVENTS)
        entries = list(islice(several, MAX_LINES))
        return entries, entries[-1].number if len(entries) == MAX_LINES else end

    async def _text_of(self, feed: Feed, line: Line) -> str:
        """Return a reply's whole text."""
        if "step" not in line.fields:
            return str(line.fields.get("text", ""))
        return await to_thread.run_sync(_find_text, self._store, feed.run, line.fields)

    # the reader

    def _end(self) -> None:
        self._task = None
        self._rests.set()

    def _tell(self) -> None:
        self._news.set()

    async def _work(self) -> None:
        """Read until no one watches."""
        try:
            while self._feeds:
                await self._follow()
        except Exception as error:
            log.exception("runs cannot be watched any more")
            for feed in self._feeds.values():
                feed.error = error
                feed.tell()
        finally:
            self._end()

    async def _follow(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen)
            while self._feeds:
                await self._refresh()
                with anyio.move_on_after(_POLL):
                    await self._news.wait()
                self._news = anyio.Event()
            group.cancel_scope.cancel()

    async def _listen(self) -> None:
        await watch_database(self._database, self._tell, channel=CHANNEL, rest=_REST)

    async def _refresh(self) -> None:
        feeds = list(self._feeds.values())
        try:
            several = await to_thread.run_sync(self._look, feeds)
        except DatabaseReplica as error:
            for feed in feeds:
                feed.error = error
                feed.tell()
            return
        except JournalError:  # it is away
            await anyio.sleep(_PAUSE)
            return
        for feed, news in zip(feeds, several, strict=True):
            if feed.take(*news):
                feed.tell()

    def _look(self, feeds: list[Feed]) -> list[_News]:
        """Return each run's news. Runs in another thread."""
        rows: dict[str, list[tuple[Any, ...]]] = {feed.run: [] for feed in feeds}
        for run, *row in self._store.select(_PIECES[self._database.is_postgres], _places(feeds)):
            rows[run].append(tuple(row))
        ids = {"ids": json.dumps(list(rows))}
        entries = dict(self._store.select(f"{_HEADS} {self._database.members}", ids))
        return [self._look_at(feed, entries.get(feed.run), rows[feed.run]) for feed in feeds]

    def _look_at(self, feed: Feed, number: int | None, rows: list[tuple[Any, ...]]) -> _News:
        entries: list[JournalEntry] = []
        if number is not None and number > feed.number:
            entries, number = self._entries(feed.run, feed.number, number)
        return _News(number, entries, rows)


class _News(NamedTuple):
    """A run's news."""

    number: int | None
    """How many entries were read; None if the run was removed."""
    entries: list[JournalEntry]
    rows: list[tuple[Any, ...]]


def _places(feeds: Iterable[Feed]) -> dict[str, Any]:
    places = [(one.run, one.turn, one.attempt, one.rows) for one in feeds]
    names = ("run", "turn", "attempt", "number")
    return {"places": json.dumps([dict(zip(names, place, strict=True)) for place in places])}


_HEADS = "SELECT run, entries FROM handrail_summary WHERE run IN"
_KNOWN = (
    (
        "(SELECT json_extract(value, '$.run') AS run, json_extract(value, '$.turn') AS turn, "
        "json_extract(value, '$.attempt') AS attempt, "
        "json_extract(value, '$.number') AS number FROM json_each(:places)) w"
    ),
    (
        "json_to_recordset(CAST(:places AS json)) "
        "AS w(run text, turn integer, attempt text, number integer)"
    ),
)
_PIECES = [
    "SELECT p.run, p.turn, p.attempt, p.number, p.body "
    f"FROM {known} JOIN handrail_piece p ON p.run = w.run AND (p.turn > w.turn "
    "OR (p.turn = w.turn AND p.attempt > w.attempt) "
    "OR (p.attempt = w.attempt AND p.number >= w.number)) "
    "ORDER BY p.run, p.turn, p.attempt, p.number"
    for known in _KNOWN
]


def watching(store: WatchedStore) -> Watching:
    """Return a store's reader for the running event loop."""
    readers = store.readers
    loop = current_loop()
    if loop not in readers:
        readers[loop] = Watching(store)
    found: Watching = readers[loop]
    return found


def _find_text(store: WatchedStore, run: str, line: LineFields) -> str:
    """Return a reply's whole text, or what its journal line has if nothing else is known."""
    segment, _, number = str(line.get("step", "")).partition("/")
    if not number:
        return str(line.get("text", ""))
    place = {"run": run, "segment": int(segment), "number": int(number)}
    for (body,) in store.select(_STEP, place):
        parts: list[dict[str, Any]] = json.loads(body)["reply"]
        return "".join(part["text"] for part in parts if "text" in part)
    return str(line.get("text", ""))
