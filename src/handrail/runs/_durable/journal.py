"""The journal of durable runs, in their own database. A row has the entries of one step."""

from __future__ import annotations

import json
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import anyio

from handrail import Turn
from handrail.agent import RunEvent
from handrail.messages import Message, Prompt, Reply
from handrail.permissions import Answer
from handrail.runs._engine.call_queue import QueuedLines
from handrail.runs._reading.feed import follow_events
from handrail.runs._reading.store import POSTGRES, Dialect
from handrail.runs._reading.tables import POSTGRES_PUTS, PUTS
from handrail.runs._reading.tally import TALLY_COLUMNS, Tally
from handrail.runs._store.database import Database
from handrail.runs._store.port import Step
from handrail.runs.journal import (
    STATUS,
    EventRow,
    JournalEntry,
    JournalLine,
    RunHead,
    extend,
    parse_object,
)
from handrail.runs.lines import (
    LineFields,
    answer_fields,
    as_line,
    event_lines,
    prompt_line,
    reply_line,
    turn_fields,
)
from handrail.runs.record import ANSWER
from handrail.runs.statuses import CANCELLED, FAILED, QUEUED, RUNNING, Standing

FLUSH_SECONDS = 1.0
"""How often the events of a turn that still runs are written."""
MAX_PROMPT_CHARS = 200
"""Characters of the first prompt in the summary of a run."""
_HEADS = (
    "SELECT r.id, r.entries, r.digest, r.began, r.changed, j.last, j.digest, j.summary "
    "FROM handrail_run r LEFT JOIN handrail_journal j ON j.run = r.id "
    "AND j.first = (SELECT MAX(b.first) FROM handrail_journal b WHERE b.run = r.id)"
    " LEFT JOIN handrail_summary s ON s.run = r.id"
)
_HEAD_AND_TALLY = (
    _HEADS.replace(" FROM ", f", {', '.join(f's.{name}' for name in TALLY_COLUMNS)} FROM ", 1)
    + " WHERE r.id = :run"
)
_BLOCKS = (
    "SELECT first, lines FROM handrail_journal WHERE run = :run AND first > :seen "
    "ORDER BY first LIMIT 64"
)
_BLOCK_OF = "SELECT MAX(first) FROM handrail_journal WHERE run = :run AND first <= :number"
_BEFORE_ALL = -(2**31)
_PUT_BLOCK = (
    "INSERT INTO handrail_journal VALUES (:run, :first, :last, :digest, :summary, :lines) "
    "ON CONFLICT DO NOTHING"
)


class DurableJournal:
    """Reads the journal of durable runs; see ``JournalReader``."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._select = database.read_now

    def head(self, run: str) -> RunHead | None:
        """Return the head of a run, or None."""
        rows = self._select(f"{_HEADS} WHERE r.id = :run", {"run": run})
        return _head(rows[0]) if rows else None

    def read(
        self, run: str, *, after: int = 0, kinds: Iterable[str] = ()
    ) -> Iterator[JournalEntry]:
        """Yield the entries of a run in order, a page at a time."""
        wanted, seen = frozenset(kinds), _BEFORE_ALL
        if after:
            [(first,)] = self._select(_BLOCK_OF, {"run": run, "number": after})
            seen = _BEFORE_ALL if first is None else first - 1
        while rows := self._select(_BLOCKS, {"run": run, "seen": seen}):
            for entry in _entries(run, rows):
                if entry.number > after and (not wanted or entry.kind in wanted):
                    yield entry
            seen = rows[-1][0]

    def runs(
        self, *, prefix: str = "", status: str = "", reason: str = "", limit: int | None = None
    ) -> list[RunHead]:
        """Return the heads of runs, the newest first."""
        where, values = ["1 = 1"], dict[str, Any]()
        if prefix:
            where.append("substr(r.id, 1, :chars) = :prefix")
            values |= {"chars": len(prefix), "prefix": prefix}
        for name, wanted in {"status": status, "reason": reason}.items():
            if wanted:
                where.append(f"s.{name} = :{name}")
                values[name] = wanted
        end = "" if limit is None else " LIMIT :limit"
        values |= {} if limit is None else {"limit": limit}
        conditions = " AND ".join(where)
        rows = self._select(
            f"{_HEADS} WHERE {conditions} ORDER BY r.began DESC, r.id DESC{end}", values
        )
        return [_head(row) for row in rows]

    def follow(self, after: int | None = None) -> AsyncIterator[EventRow]:
        """Yield events as they are written; see ``JournalReader``."""
        return follow_events(_FeedStore(self._database), after)

    def names(self) -> Iterator[str]:
        """Yield the id of every run that has a row or entries."""
        both = "SELECT id FROM handrail_run UNION SELECT run FROM handrail_journal"
        for (name,) in self._select(both, {}):
            yield name


class _FeedStore:
    """The events of durable runs; see ``Store``."""

    def __init__(self, database: Database) -> None:
        self.dialect = POSTGRES if database.is_postgres else Dialect(is_durable=True)
        self.select = database.read_now
        self.close = database.close

    def has_news(self) -> bool:
        """Return True: a pool has no one connection to ask."""
        return True


class RunJournal:
    """Appends to the journal of one run."""

    def __init__(self, database: Database, run: str) -> None:
        self._database = database
        self._run = run
        self._tally = Tally(run)
        self._puts = POSTGRES_PUTS if database.is_postgres else PUTS
        self._head: RunHead | None = None
        self._unwritten: list[tuple[JournalLine, LineFields]] = []
        self._turn: Turn[Any] | None = None
        self._feed: Any = None
        self._turns = self._calls = 0
        self.queued = QueuedLines()

    def put(self, *lines: LineFields) -> None:
        """Add lines to those that the next ``flush`` writes."""
        self._unwritten += [(as_line(fields), fields) for fields in lines]

    def put_status(self, standing: Standing | None = None, /, **fields: Any) -> None:
        """Add a line that changes the summary."""
        new = {} if standing is None else standing._asdict()
        self.put({"event": STATUS, "at": time.time(), **new, **fields})

    async def begin(self, row: Step, messages: Iterable[Message], **about: Any) -> None:
        """Write the row of a run, and its first lines: its summary and its prompts. Once."""
        at = time.time()
        prompts = [prompt_line(at, one) for one in messages if isinstance(one, Prompt)]
        began = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
        first = prompts[0]["text"][:MAX_PROMPT_CHARS] if prompts else ""
        self.put_status(QUEUED, command="worker", began=began, prompt=first, **about)
        self.put(*prompts)
        await self._insert(RunHead(self._run), list(self._unwritten), at, row)

    async def note_answer(
        self, kind: str, pending: str, answer: Answer, given: Mapping[str, str | None]
    ) -> None:
        """Write who answered what. If it is an answer and no vote, the run continues."""
        line = {"event": kind, "at": time.time(), "pending": pending, **given}
        self.put({**line, **answer_fields(answer)})
        if kind == ANSWER:
            self.put_status(RUNNING, why="", ended=None)
        await self.flush()

    async def note_cancel(self) -> None:
        """Write that a run was cancelled."""
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        self.put_status(CANCELLED, why="cancelled by the user", ended=ended)
        await self.flush()

    async def note_failure(self, why: str) -> RunHead:
        """Write that a run failed. Its segment can continue. Returns the end of the chain."""
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        self.put_status(FAILED, why=why, ended=ended)
        await self.flush()
        return self._head or RunHead(self._run)

    async def note_resume(self) -> None:
        """Write that a run is queued again."""
        self.put_status(QUEUED, why="", ended=None)
        await self.flush()

    async def open(self, turns: int, calls: int, segment: int, taken: Step) -> None:
        """Begin to record a segment, whose state has this many turns and calls.

        The row ``taken`` is written if the run was queued, or waited.
        """
        self._turns, self._calls = turns, calls
        head = await self._read_head()
        if head.status != "running":
            self.put_status(RUNNING, why="", ended=None)
            await self._flush(segment, taken)

    def on_event(self, event: RunEvent) -> None:
        """Add a reply, unless a former attempt at this segment has recorded it."""
        if not isinstance(event, Reply):
            return
        self._turns += 1
        self._calls += len(event.calls)
        known = self._head.summary.get("turns") if self._head else 0
        if self._turns > (known if isinstance(known, int) else 0):
            self.put(reply_line(time.time(), event, self._turns))
            self.put_status(turns=self._turns, calls=self._calls)

    def listen(self, turn: Turn[Any]) -> None:
        """Record the events of a turn from now on."""
        self._turn, self._feed = turn, turn.events()
        self.queued = QueuedLines()

    async def record(
        self, work: Callable[[], Awaitable[str]], make_row: Callable[[str], Step]
    ) -> tuple[str, bool]:
        """Do the work of a turn, and write its events: at its end, and often while it runs.

        A row is written with the last events. Returns what the work gave, and whether the row is
        known to be new.
        """
        failed: list[Exception] = []
        text, rows, added = "", list[Step](), False
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._flush_often)
                try:
                    text = await work()
                    rows.append(make_row(text))
                except Exception as error:  # noqa: BLE001  raised below, outside of the group
                    failed.append(error)
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._take_events(last=True)
                added = await self._flush(None, *rows)
        if failed:
            raise failed[0]
        return text, added

    async def _flush_often(self) -> None:
        while True:
            await anyio.sleep(FLUSH_SECONDS)
            await self._take_events(last=False)
            with suppress(Exception):  # the end of the turn reports it
                await self.flush()

    async def _take_events(self, *, last: bool) -> None:
        """Add the events so far. The feed is replaced, so that none is missed."""
        feed, turn = self._feed, self._turn
        if feed is None or turn is None:
            return
        sent = list(self.queued.sent)  # the feed has what came before they were sent
        feed.close()
        self._feed = None if last else turn.events()
        lines = [line async for event in feed for line in event_lines(event)]
        changed = [one for line in lines for one in self.queued.change(line)]
        number = turn_fields(turn.key, self._run)
        self.put(*[line | number for line in (*changed, *self.queued.waits(sent))])

    async def flush(self) -> None:
        """Write the lines that were put, in one statement."""
        await self._flush(None)

    async def seal(self, segment: int, standing: Standing, **fields: Any) -> RunHead:
        """Write how a segment ended, and return the end of the chain, to record it beside the run.

        A second time writes no line: after a crash, or by a worker that comes late.
        """
        self.put_status(standing, sealed=segment, **fields)
        await self._flush(segment)
        return self._head or RunHead(self._run)

    async def _flush(self, segment: int | None, *rows: Step) -> bool:
        """Write the lines, unless they seal a segment of which the end is written.

        Rows are written with them, if there are lines. Returns whether the last one is new.
        """
        lines, added = list(self._unwritten), False
        while lines:
            before = self._head or await self._read_head()
            is_removed = not before.entries
            if is_removed or (segment is not None and _is_over(before, segment)):
                break
            head, changed = await self._insert(before, lines, time.time(), *rows)
            if changed or (await self._read_head()).digest == head.digest:
                self._head = head
                added = changed[-1:] == [1]
                break
        del self._unwritten[: len(lines)]
        return added

    async def _read_head(self) -> RunHead:
        """Return the end of the chain as the database has it, and read the rows of the run."""
        rows = await self._database.read(_HEAD_AND_TALLY, run=self._run)
        count = len(TALLY_COLUMNS)
        self._head = _head(rows[0][:-count]) if rows else RunHead(self._run)
        found = [row[-count:] for row in rows if row[-count] is not None]
        self._tally = Tally.load(self._run, found)
        return self._head

    async def _insert(
        self,
        before: RunHead,
        lines: Sequence[tuple[JournalLine, LineFields]],
        at: float,
        *rows: Step,
    ) -> tuple[RunHead, list[int]]:
        """Add lines, the rows that pages read, and more rows, in one transaction.

        Returns the new end of the chain, and how many rows each statement changed: none if another
        execution has added entries at this place.
        """
        head, entries = extend(before, [line for line, _ in lines], at)
        block = {
            "run": self._run,
            "first": entries[0].number,
            "last": head.entries,
            "digest": head.digest,
            "summary": json.dumps(dict(head.summary), separators=(",", ":")),
            "lines": json.dumps([[entry.kind, entry.body, entry.digest] for entry in entries]),
        }
        self._tally.read_fields(entries, [fields for _, fields in lines])
        steps = [(_PUT_BLOCK, [block]), *self._tally.steps(self._puts), *rows]
        self._head = None  # an error leaves both to be read again
        changed = await self._database.transact(steps, 2)
        if changed:
            self._tally.written()
        return head, changed


def _is_over(head: RunHead, segment: int) -> bool:
    """Return whether the end of a segment is written, or its run is cancelled."""
    sealed = head.summary.get("sealed")
    return head.status == "cancelled" or (isinstance(sealed, int) and sealed >= segment)


def _head(row: tuple[Any, ...]) -> RunHead:
    """Return the end of a chain: what is recorded beside the run, or entries behind it."""
    run, entries, digest, began, changed, last, last_digest, summary = row
    if isinstance(last, int) and last > entries:
        entries, digest = last, last_digest
    fields: Mapping[str, Any] = parse_object(summary) if isinstance(summary, str) else {}
    return RunHead(run, entries, digest, began, changed, fields)


def _entries(run: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[JournalEntry]:
    for first, text in rows:
        start = first if isinstance(first, int) else 0  # SQLite stores any value anywhere
        for number, (kind, body, digest) in enumerate(_parse(text), start):
            yield JournalEntry(run, number, kind, body, digest)


def _parse(text: Any) -> list[tuple[str, str, str]]:
    """Return the entries of a row. Any other text reads as one entry that does not match."""
    try:
        entries = [(str(kind), str(body), str(digest)) for kind, body, digest in json.loads(text)]
    except (ValueError, TypeError, RecursionError):
        entries = []
    return entries or [("", str(text), "")]
