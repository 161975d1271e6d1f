"""Write to a run: its entries, its row, and the rows for pages."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from handrail.runs._store.database import Database
from handrail.runs._store.port import Step
from handrail.runs._store.tables import POSTGRES_PUTS, PUT_REQUEST, PUT_RUN, PUTS
from handrail.runs._store.tally import STATE, TALLY_COLUMNS, Tally, storable
from handrail.runs.journal import (
    SOME,
    JournalEntry,
    JournalError,
    JournalLine,
    RunHead,
    chain_digest,
    check_after,
    extend,
    parse_object,
)

HEADS = (
    "SELECT r.id, r.app, r.entries, r.digest, r.began, r.changed, j.last, j.digest, s.about "
    "FROM handrail_run r LEFT JOIN handrail_journal j ON j.run = r.id "
    "AND j.first = (SELECT MAX(b.first) FROM handrail_journal b WHERE b.run = r.id) "
    "LEFT JOIN handrail_summary s ON s.run = r.id"
)
"""Chain ends: as recorded beside each run, and in its last entries."""
_RUN = " WHERE r.id = :run"
_HEAD_AND_TALLY = HEADS.replace(
    " FROM ", f", {', '.join(f's.{name}' for name in TALLY_COLUMNS)} FROM ", 1
)
HEAD_AND_TALLY = _HEAD_AND_TALLY + _RUN
_COUNT = "(SELECT COUNT(*) FROM handrail_{} p WHERE p.run = r.id AND p.segment = :segment{})"
_STATE_AND_STEPS = (
    f"o.body, {_COUNT.format('step', '')} + {_COUNT.format('journal', ' AND p.step IS NOT NULL')}"
)
_FIRST_STATE = (
    "LEFT JOIN handrail_journal o ON o.run = r.id AND o.first = 1 AND CAST(:segment AS int) = 0"
)
_OPENING = _HEAD_AND_TALLY.replace("SELECT ", f"SELECT {_STATE_AND_STEPS}, ", 1)
OPENING = f"{_OPENING} {_FIRST_STATE}{_RUN}"
"""The same behind a segment's initial state, if it is a run's first one, and its step count."""
_MARK_CHARS = 10
"""Characters kept from each digest in a row, to find a changed entry. The last one is complete."""
_NO_RECORD = dict.fromkeys(("segment", "step", "body"))
_WRONG = "-"
"""What no digest begins with."""
GUARDS = 2
"""The first statements in a write, each of which must change a row: else nothing may change."""
_KEPT = 100
"""How many runs are remembered. Another process may write to them: then they are read again."""
_DROP_OTHERS = "DELETE FROM handrail_question WHERE run = :run AND answer IS NULL AND id NOT IN "
_ANSWER = (
    "UPDATE handrail_question SET answer = :answer, answered_by = :by WHERE id = :id AND used = 0"
)
_USE = (
    "UPDATE handrail_question SET answer = COALESCE(answer, :answer), "
    "answered_by = COALESCE(answered_by, :by), used = 1 WHERE id = :id"
)
_ABOUT_ANSWERS = {"answer": _ANSWER, "answered": _USE}


class StepRecord(NamedTuple):
    """A step's outcome, to write in the row of its entries. The first record of a step counts."""

    segment: int
    step: int | None
    """The step's number, or None for the run's initial state."""
    body: str


class RunWrites:
    """Makes the statements that append lines to a run. It continues from what was written before.

    Args:
        run: The id of the run.
        postgres: Whether the statements are for PostgreSQL.
    """

    def __init__(self, run: str, *, postgres: bool) -> None:
        self._run = run
        self._tally = Tally(run)
        self._puts = POSTGRES_PUTS if postgres else PUTS

    def load(self, rows: Sequence[tuple[Any, ...]]) -> RunHead:
        """Continue from the ``HEAD_AND_TALLY`` row, and return the run's head."""
        count = len(TALLY_COLUMNS)
        found = [row[-count:] for row in rows if row[-count] is not None]
        self._tally = Tally.load(self._run, found)
        return read_head(rows[0][:-count]) if rows else RunHead(self._run)

    def append(
        self,
        before: RunHead,
        lines: Sequence[JournalLine],
        fields: Iterable[Mapping[str, Any]],
        at: float,
        *,
        record: StepRecord | None = None,
    ) -> tuple[RunHead, list[JournalEntry], list[Step]]:
        """Return the head after these lines, their entries, and what to write.

        Args:
            before: The head before them.
            lines: The lines.
            fields: Their contents, which spares parsing them.
            at: The time.
            record: What a step returned. If it has a record, nothing may change.
        """
        head, entries = extend(before, lines, at)
        self._tally.read_fields(entries, fields)
        block = {
            "run": self._run,
            "first": entries[0].number,  # the key: two writers never fork a chain: decision 094
            "last": head.entries,
            "at": self._tally.changed,
            "micros": int(at * 1e6),
            "digest": head.digest,
            "lines": _pack(before.digest, entries),
            **(_NO_RECORD if record is None else record._asdict()),
        }
        return (
            head,
            entries,
            [(self._puts.block, [block]), *self._tally.steps(self._puts, head.summary)],
        )

    def written(self) -> None:
        """Note the statements as written."""
        self._tally.written()


class Appender:
    """Writes to runs without a worker, in any thread. One written lately is not read again."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._lately: OrderedDict[str, tuple[RunWrites, RunHead]] = OrderedDict()
        self._changing = threading.Lock()

    def append(self, run: str, lines: Sequence[JournalLine], after: int | None) -> RunHead:
        """Append lines, and return the new head. Raises AppendConflict."""
        known = self._recall(run, after) if lines else None
        tried: RunHead | None = None
        while True:
            writes, before = known or self._read(run)
            known = None
            check_after(before, after)
            if not lines:
                return before
            check_news(before, tried)
            head, steps = self._plan(writes, before, lines)
            if self._database.transact_now(steps, GUARDS):
                self._remember(writes, head)
                return head
            tried = before

    async def append_with(
        self,
        run: str,
        lines: Sequence[JournalLine],
        after: int | None,
        *,
        guard: Step,
        rest: Sequence[Step],
    ) -> bool:
        """Append lines and run other statements, in one transaction.

        Returns False, and changes nothing, if the run or the guard's row is not as it should be.
        """
        writes, before = self._recall(run, after) or await self._load(run)
        if after == SOME and not before.entries:
            return False
        head, steps = self._plan(writes, before, lines)
        if await self._database.transact([guard, *steps, *rest], GUARDS + 1):
            self._remember(writes, head)
            return True
        _, now = await self._load(run)
        return now.digest == head.digest  # written, and then the connection was lost

    def _recall(self, run: str, after: int | None) -> tuple[RunWrites, RunHead] | None:
        """Return where a run stood. A guard finds out if it has changed since."""
        if after == 0:
            return self._continue(run, ())
        with self._changing:
            return self._lately.pop(run, None) if after in (None, SOME) else None

    def _remember(self, writes: RunWrites, head: RunHead) -> None:
        writes.written()
        with self._changing:
            self._lately[head.run] = writes, head
            if len(self._lately) > _KEPT:
                self._lately.popitem(last=False)

    def _read(self, run: str) -> tuple[RunWrites, RunHead]:
        return self._continue(run, self._database.read_now(HEAD_AND_TALLY, {"run": run}))

    async def _load(self, run: str) -> tuple[RunWrites, RunHead]:
        return self._continue(run, await self._database.read(HEAD_AND_TALLY, run=run))

    def _continue(self, run: str, rows: Sequence[tuple[Any, ...]]) -> tuple[RunWrites, RunHead]:
        writes = RunWrites(run, postgres=self._database.is_postgres)
        return writes, writes.load(rows)

    def _plan(
        self, writes: RunWrites, before: RunHead, lines: Sequence[JournalLine]
    ) -> tuple[RunHead, list[Step]]:
        contents = [line.content for line in lines]
        head, entries, steps = writes.append(before, lines, contents, self._clock())
        requests = _keep_requests(entries, contents, self._database.members)
        return head, [*steps, put_run(head), *requests]


def put_run(head: RunHead) -> Step:
    """Return the statement recording the chain's end for a run without a worker."""
    row = {"run": head.run, "status": head.status, "began": head.began, "changed": head.changed}
    return PUT_RUN, [{**row, "entries": head.entries, "digest": head.digest}]


def read_head(row: tuple[Any, ...]) -> RunHead:
    """Return a chain's end, as recorded beside the run.

    A worker records it at a segment's end. Until then, its run's last entries have it. SQLite
    stores any value anywhere. A foreign one reads as none.
    """
    run, app, entries, digest, began, changed, last, last_digest, about = row
    count = entries if isinstance(entries, int) else 0
    if app is not None and isinstance(last, int) and last > count:
        count, digest = last, last_digest
    first, latest = (at if isinstance(at, float) else 0.0 for at in (began, changed))
    fields: Mapping[str, Any] = parse_object(about) if isinstance(about, str) else {}
    return RunHead(as_text(run), count, as_text(digest), first, latest, fields)


def check_news(now: RunHead, tried: RunHead | None) -> None:
    """Raise JournalError if a write behind the same end has failed before.

    No one else has written to the run, so its rows do not fit together.
    """
    if tried is not None and now.entries == tried.entries and now.digest == tried.digest:
        raise JournalError(
            f"Run {now.run} is damaged. Find the damage with `handrail runs verify {now.run}`."
        )


def _pack(before: str, entries: Iterable[JournalEntry]) -> str:
    """Return a row's text: the digest before it, and each entry with its mark."""
    lines = [[entry.kind, entry.body, entry.digest[:_MARK_CHARS]] for entry in entries]
    return json.dumps([before, *lines], separators=(",", ":"))


def unpack(run: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[JournalEntry]:
    """Yield the entries in rows: each has its first entry's number, its digest and its text.

    The digests between are computed. One that does not begin with its mark is the mark.
    """
    for first, digest, text in rows:
        start = first if isinstance(first, int) else 0
        before, lines = _parse(text)
        end = start + len(lines) - 1
        for number, (kind, body, mark) in enumerate(lines, start):
            found = chain_digest(before, run, number, JournalLine(kind, body))
            before = found if found.startswith(mark) else mark
            whole = as_text(digest) if number == end else before
            yield JournalEntry(run, number, kind, body, whole)


def _parse(text: Any) -> tuple[str, list[tuple[str, str, str]]]:
    """Return the digest before a row, and its lines. Any other text reads as a wrong line."""
    try:
        before, *several = json.loads(text)
        lines = [(str(kind), str(body), str(mark)) for kind, body, mark in several]
    except (ValueError, TypeError, RecursionError):
        before, lines = "", []
    return str(before), lines or [("", str(text), _WRONG)]


def as_text(value: object) -> str:
    """Return a database text. Anything else was not written by us, and reads so."""
    return value if isinstance(value, str) else repr(value)


def _keep_requests(
    entries: Iterable[JournalEntry], contents: Iterable[Mapping[str, Any]], members: str
) -> list[Step]:
    """Return what entries change: states ask, answers are given and used.

    Args:
        entries: The new entries of a run.
        contents: Their contents, which spares parsing them.
        members: A query that lists the texts of the JSON array ``:ids``.
    """
    steps: list[Step] = []
    for entry, content in zip(entries, contents, strict=True):
        if entry.kind == STATE:
            steps += _ask(entry, content, members)
        elif entry.kind in _ABOUT_ANSWERS:
            steps.append(_note_answer(entry.kind, content))
    return steps


def _ask(entry: JournalEntry, content: Mapping[str, Any], members: str) -> list[Step]:
    """Add a state's requests, and remove unanswered ones now gone."""
    rows = [
        {
            "id": storable(pending.id),
            "run": entry.run,
            "pending": storable(pending.to_json()),
            "expires": pending.expires_at,
        }
        for pending in _read_pending(entry, content)
    ]
    ids = json.dumps([row["id"] for row in rows])
    drop: Step = (f"{_DROP_OTHERS} {members}", [{"run": entry.run, "ids": ids}])
    return [(PUT_REQUEST, rows), drop] if rows else [drop]


def _read_pending(entry: JournalEntry, content: Mapping[str, Any]) -> list[Any]:
    state: Any = content.get("state")
    if not (isinstance(state, dict) and cast("dict[str, Any]", state).get("waiting")):
        return []
    from handrail.agent import InvalidState, load_state  # few programs list runs with an agent

    _, _, rest = entry.body.partition(',"state":')
    try:
        return [pending for pending in load_state(rest[:-1]).pending if pending.kind != "waiting"]
    except InvalidState:
        return []


def _note_answer(kind: str, line: Mapping[str, Any]) -> Step:
    from handrail.runs.answers import answer_of_line  # most entries are no answers

    values = {"id": storable(line.get("pending")), "by": storable(line.get("by")) or None}
    return _ABOUT_ANSWERS[kind], [{**values, "answer": answer_of_line(line)}]
