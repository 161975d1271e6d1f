"""The journal for durable runs, in their own database. A row has one step's entries."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import anyio

from handrail import Turn
from handrail.agent import RunEvent
from handrail.messages import Message, Prompt, Reply
from handrail.runs._engine.call_queue import QueuedLines
from handrail.runs._store.database import Database
from handrail.runs._store.points import reach
from handrail.runs._store.port import DatabaseError, Step, Transact
from handrail.runs._store.tables import PUT_STEP
from handrail.runs._store.writes import GUARDS, HEAD_AND_TALLY, OPENING, RunWrites, StepRecord
from handrail.runs.journal import STATUS, JournalLine, RunHead
from handrail.runs.lines import (
    LineFields,
    as_line,
    event_lines,
    prompt_line,
    reply_line,
    turn_fields,
)
from handrail.runs.statuses import CANCELLED, FAILED, QUEUED, RUNNING, Standing

FLUSH_SECONDS = 1.0
"""Seconds between writes during a turn."""
MAX_PROMPT_CHARS = 200
"""Limit on the first prompt in a run's summary."""
OVERTAKEN = "Another worker has recorded another reply in the run {}."
MakeRow: TypeAlias = Callable[[RunHead], Step]
"""Makes a row to write with entries, from the chain's end after them."""
_MakeRows: TypeAlias = Callable[[RunHead], Sequence[Step]]


class _Taken(NamedTuple):
    """A worker took a run: this row and this line say so."""

    segment: int
    row: Step
    line: tuple[JournalLine, LineFields]

    def is_news(self, before: RunHead) -> bool:
        return before.status != "running" and not _is_over(before, self.segment)


class RunJournal:
    """Appends to one run's journal.

    Args:
        database: Has the journal.
        run: The id of the run.
        transact: Writes to it; default: the database alone.
    """

    def __init__(self, database: Database, run: str, transact: Transact | None = None) -> None:
        self._database = database
        self._transact = transact or database.transact
        self._run = run
        self._writes = RunWrites(run, postgres=database.is_postgres)
        self._head: RunHead | None = None
        self._unwritten: list[tuple[JournalLine, LineFields]] = []
        self._turn: Turn[Any] | None = None
        self._feed: Any = None
        self._late: list[tuple[Turn[Any], Any]] = []
        """Earlier turns with calls in the background, and their feeds."""
        self._turns = self._calls = 0
        self.steps = 0
        """How many steps former attempts at the segment have recorded."""
        self.step = ""
        """The segment and the number of the step with the last reply."""
        self._taken: _Taken | None = None
        self.held: StepRecord | None = None
        """A reply without calls, to record with the end of the segment."""
        self.queued = QueuedLines()

    def put(self, *lines: LineFields) -> None:
        """Add lines for the next ``flush``."""
        self._unwritten += [(as_line(fields), fields) for fields in lines]

    def put_status(self, standing: Standing | None = None, /, **fields: Any) -> None:
        """Add a line changing the summary."""
        self.put(_status_line(standing, **fields))

    async def begin(
        self, row: Step, state: StepRecord, messages: Iterable[Message], **about: Any
    ) -> None:
        """Write a run's row, its state and its first lines: its summary and its prompts. Once."""
        at = time.time()
        prompts = [prompt_line(at, one) for one in messages if isinstance(one, Prompt)]
        began = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
        first = prompts[0]["text"][:MAX_PROMPT_CHARS] if prompts else ""
        self.put_status(QUEUED, command="worker", began=began, prompt=first, **about)
        self.put(*prompts)
        lines, new = list(self._unwritten), RunHead(self._run)
        await self._insert(new, lines, at, lambda _: [row], record=state)

    async def cancel(self, row: Step) -> bool:
        """Write that a run was cancelled, with a row. Returns False if no row has changed."""
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        line = _status_line(CANCELLED, why="cancelled by the user", ended=ended)
        if is_changed := await self._change(row, line):
            reach("run.cancelled")
        return is_changed

    async def requeue(self, row: Step) -> bool:
        """Write a failed run's return to its queue, with a row. Returns False if none changed."""
        return await self._change(row, _status_line(QUEUED, why="", ended=None))

    async def _change(self, row: Step, said: LineFields) -> bool:
        """Write a line with a row, or neither if the row does not change."""
        lines, now = [(as_line(said), said)], await self._read_head()
        while (before := now).entries:
            head, changed = await self._insert(before, lines, time.time(), guards=[row])
            if changed or (now := await self._read_head()).digest == head.digest:
                return True
            if now.digest == before.digest:  # no one else has written
                return False
        return bool(await self._transact([row], 1))  # it has no journal

    async def note_failure(self, why: str) -> RunHead:
        """Write a run's failure. Its segment can continue. Returns the chain's end."""
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        self.put_status(FAILED, why=why, ended=ended)
        await self.flush()
        return self._head or RunHead(self._run)

    async def note_resume(self) -> None:
        """Write the return of a run given up to its queue."""
        self.put_status(QUEUED, why="", ended=None)
        await self.flush()

    async def read_opening(self, segment: int) -> str | None:
        """Read what a segment needs to begin. Returns its initial state, if it is the first one."""
        rows = await self._database.read(OPENING, run=self._run, segment=segment)
        self._head = self._writes.load([row[2:] for row in rows])
        body: str | None
        body, self.steps = rows[0][:2] if rows else (None, 0)
        return body

    async def open(self, turns: int, calls: int, segment: int, taken: Step) -> bool:
        """Begin to record a segment, whose state has this many turns and calls.

        If the run was queued, or waited, it says so with its first lines, and changes the row
        ``taken``: no request waits for a commit. Returns False if the run is cancelled.
        """
        self._turns, self._calls = turns, calls
        head = self._head or await self._read_head()
        if head.status not in {"running", "cancelled"}:
            said = _status_line(RUNNING, why="", ended=None)
            self._taken = _Taken(segment, taken, (as_line(said), said))
        return head.status != "cancelled"

    @property
    def is_begun(self) -> bool:
        """Whether the segment's first line is written."""
        return self._taken is None

    def on_event(self, event: RunEvent) -> None:
        """Add a reply, unless a former attempt at this segment has recorded it."""
        if not isinstance(event, Reply):
            return
        self._turns += 1
        self._calls += len(event.calls)
        known = self._head.summary.get("turns") if self._head else 0
        if self._turns > (known if isinstance(known, int) else 0):
            line = reply_line(time.time(), event, self._turns)
            is_whole = line["text"] == event.text
            self.put(line if is_whole else {**line, "step": self.step})
            self.put_status(turns=self._turns, calls=self._calls)

    def listen(self, turn: Turn[Any]) -> None:
        """Record a turn's events from now on."""
        self._turn, self._feed = turn, turn.events()
        self.queued = QueuedLines()

    async def record(
        self, work: Callable[[], Awaitable[str]], segment: int, step: int
    ) -> tuple[str, bool]:
        """Do a turn's work, and write its events: at its end, and often while it runs.

        The row with the last events records the work's outcome. Returns it, and whether its record
        is known to be the first one.
        """
        record, is_first = None, False
        try:
            text = await self.follow(work)
            record = StepRecord(segment, step, text)
        finally:
            with anyio.CancelScope(shield=True):
                await self._take_events(last=True)
                if record is not None and not self._unwritten:
                    self.put_status()  # a record needs a row, and its row a line
                is_first = bool(await self._flush(None, record=record))
        return text, is_first

    async def follow(self, work: Callable[[], Awaitable[str]]) -> str:
        """Do some work, and often write the lines so far."""
        failed, text = list[Exception](), ""
        async with anyio.create_task_group() as group:
            group.start_soon(self._flush_often)
            try:
                text = await work()
            except Exception as error:  # noqa: BLE001  raised below, outside of the group
                failed.append(error)
            group.cancel_scope.cancel()
        if failed:
            raise failed[0]
        return text

    async def _flush_often(self) -> None:
        while True:
            await anyio.sleep(FLUSH_SECONDS)
            await self._take_events(last=False)
            with suppress(Exception):  # the turn's end reports it
                await self.flush()

    async def _take_events(self, *, last: bool) -> None:
        """Add the events so far. Replacing the feed makes sure none is missed."""
        await self._take_late()
        feed, turn = self._feed, self._turn
        if feed is None or turn is None:
            return
        sent = list(self.queued.sent)  # the feed has what came before they were sent
        feed.close()
        self._feed = None if last else turn.events()
        if last and _is_open(turn):
            self._late.append((turn, turn.events()))
        lines = [line async for event in feed for line in event_lines(event)]
        changed = [one for line in lines for one in self.queued.change(line)]
        number = turn_fields(turn.key, self._run)
        self.put(*[line | number for line in (*changed, *self.queued.waits(sent))])

    async def _take_late(self) -> None:
        """Add the events of calls in the background."""
        late, self._late = self._late, []
        for turn, feed in late:
            feed.close()
            if _is_open(turn):
                self._late.append((turn, turn.events()))
            number = turn_fields(turn.key, self._run)
            self.put(*[line | number async for event in feed for line in event_lines(event)])

    async def flush(self) -> None:
        """Write the waiting lines, in one statement."""
        await self._flush(None)

    async def seal(
        self, segment: int, standing: Standing, make_row: MakeRow, **fields: Any
    ) -> tuple[RunHead, bool]:
        """Write a segment's end, with a row depending on the chain's end, and the held reply.

        A second time writes nothing: after a crash, or by a late worker. Returns the chain's end,
        and whether the row is known to be written. Raises DatabaseError if another worker has
        recorded another reply.
        """
        self.put_status(standing, sealed=segment, **fields)
        held = [] if self.held is None else [{"run": self._run, **self.held._asdict()}]
        guards = [(PUT_STEP, held)] if held else []
        changed = await self._flush(segment, lambda head: [make_row(head)], guards=guards)
        return self._head or RunHead(self._run), changed[-1:] == [1]

    async def _flush(
        self,
        segment: int | None,
        make_rows: _MakeRows = lambda _: (),
        *,
        guards: Sequence[Step] = (),
        record: StepRecord | None = None,
    ) -> list[int]:
        """Write the lines, unless they seal a segment whose end is written.

        Rows and a record are written with them, if there are lines. Returns how many rows each
        statement changed, as far as that is known; nothing if the step had a record.
        """
        lines, known, kept = list(self._unwritten), list[int](), record
        while lines or self._taken:
            before = self._head or await self._read_head()
            is_removed = not before.entries
            if is_removed or (segment is not None and _is_over(before, segment)):
                break
            taken = [one for one in [self._taken] if one is not None and one.is_news(before)]
            rows = [one.row for one in taken if segment is None]  # its end changes the same row
            several = [*[one.line for one in taken], *lines]
            if not several:
                break
            head, changed = await self._insert(
                before,
                several,
                time.time(),
                partial(_join, rows, make_rows),
                guards=guards,
                record=kept,
            )
            now = head if changed else await self._read_head()
            if now.digest == head.digest:
                self._head = head
                known = changed if kept is record else []
                break
            if now.digest == before.digest:  # no one else has written: the step has a record
                if guards:
                    raise DatabaseError(OVERTAKEN.format(self._run))
                kept = None
        self._taken = None
        del self._unwritten[: len(lines)]
        return known

    async def _read_head(self) -> RunHead:
        """Return the chain's end in the database, and read the run's rows."""
        rows = await self._database.read(HEAD_AND_TALLY, run=self._run)
        self._head = self._writes.load(rows)
        return self._head

    async def _insert(
        self,
        before: RunHead,
        lines: Sequence[tuple[JournalLine, LineFields]],
        at: float,
        make_rows: _MakeRows = lambda _: (),
        *,
        guards: Sequence[Step] = (),
        record: StepRecord | None = None,
    ) -> tuple[RunHead, list[int]]:
        """Add lines, the rows that pages read, and more rows, in one transaction.

        Returns the new end of the chain, and how many rows each statement changed. There are none
        if another execution has added entries at this place or recorded the step, or if a guard has
        changed no row.
        """
        plain = [line for line, _ in lines]
        fields = [content for _, content in lines]
        head, _, steps = self._writes.append(before, plain, fields, at, record=record)
        self._head = None  # an error leaves both to be read again
        steps[GUARDS:GUARDS] = guards
        several = [*steps, *make_rows(head)]
        changed = await self._transact(several, GUARDS + len(guards))
        if changed:
            self._writes.written()
        return head, changed


def _status_line(standing: Standing | None = None, /, **fields: Any) -> LineFields:
    new = {} if standing is None else standing._asdict()
    return {"event": STATUS, "at": time.time(), **new, **fields}


def _join(rows: Sequence[Step], make_rows: _MakeRows, head: RunHead) -> Sequence[Step]:
    return [*rows, *make_rows(head)]


def _is_open(turn: Turn[Any]) -> bool:
    return any(record.result is None for record in turn.records)


def _is_over(head: RunHead, segment: int) -> bool:
    """Return whether a segment's end is written, or its run is cancelled."""
    sealed = head.summary.get("sealed")
    return head.status == "cancelled" or (isinstance(sealed, int) and sealed >= segment)
