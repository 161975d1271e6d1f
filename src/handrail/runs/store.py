"""Runs in one file or one database: their journal, their requests, and what pages read."""

from __future__ import annotations

import os
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import AbstractContextManager, aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from weakref import WeakKeyDictionary

from handrail._support.private_files import find_runs_folder
from handrail.runs._sealing.codec import Codec
from handrail.runs._store.database import Database
from handrail.runs._store.port import Values
from handrail.runs._store.schema import check_schema, migrate
from handrail.runs._store.sqlite import BUSY_SECONDS
from handrail.runs._store.writes import HEADS, Appender, as_text, read_head, unpack
from handrail.runs.journal import (
    EventRow,
    JournalEntry,
    JournalLine,
    RunHead,
    check_run,
)

if TYPE_CHECKING:  # listing runs needs none
    from handrail.permissions import Answer, Ledger, Pending
    from handrail.runs._durable.results import StoredResults
    from handrail.runs._live.feed import Update
    from handrail.runs._live.watching import Watching
    from handrail.runs._reading.budgets import BudgetUse
    from handrail.runs._reading.records import Records
    from handrail.runs.answers import AnswerOutcome, Claimant

_BEFORE_ALL = -(2**31)
_PAGE = 3
_BLOCKS = (
    "SELECT first, digest, lines FROM handrail_journal WHERE run = :run AND first > :seen "
    f"ORDER BY first LIMIT {_PAGE}"
)
_BLOCK_OF = "SELECT MAX(first) FROM handrail_journal WHERE run = :run AND first <= :number"


def open_runs(
    address: str | os.PathLike[str] | None = None,
    *,
    clock: Callable[[], float] = time.time,
    busy_seconds: float = BUSY_SECONDS,
    codec: Codec | None = None,
) -> RunStore:
    """Open the runs in a file or a database. The first write creates the file.

    Args:
        address: The path of a SQLite file, or ``postgresql://...``; default: the file that
            ``handrail run`` and ``handrail chat`` use.
        clock: Returns the time in seconds.
        busy_seconds: Seconds to wait for another process that writes to the file.
        codec: Seals texts before they are stored, and opens them; default: they stay readable.
    """
    place = os.fspath(find_runs_folder() / "journal.db" if address is None else address)
    return RunStore(Database(place, busy_seconds=busy_seconds, codec=codec), clock=clock)


class WaitingCall(NamedTuple):
    """A call waiting for a person, or for its run to use the answer."""

    run: str
    pending: Pending
    answer: str | None = None
    """The answer, as text."""


class RunStore:
    """Runs in one place, for any number of processes. Use ``open_runs`` to make one.

    Its methods block, unless they are coroutines, and are safe in any thread. Call them in a worker
    thread if your code runs in an event loop.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self.database = database
        self._clock = clock
        self._has_tables = False
        self.appender = Appender(database, clock)
        self.readers: WeakKeyDictionary[Any, Watching] = WeakKeyDictionary()
        """The readers for watched runs, by event loop."""

    @property
    def path(self) -> Path:
        """The runs' file, if any."""
        return self.database.path

    def append(
        self, run: str, lines: Iterable[JournalLine], *, after: int | None = None
    ) -> RunHead:
        """Append lines to a run, all or none, and return its new head. They are durable then.

        Args:
            run: The id of the run. A new id begins a run.
            lines: The lines to append.
            after: How many entries the run must have, or ``SOME``. Else raises AppendConflict.
        """
        check_run(run)
        self.create()
        return self.appender.append(run, list(lines), after)

    def head(self, run: str) -> RunHead | None:
        """Return a run's head, or None if it does not exist."""
        rows = self.select(f"{HEADS} WHERE r.id = :run", {"run": run})
        return read_head(rows[0]) if rows else None

    def read(
        self, run: str, *, after: int = 0, kinds: Iterable[str] = ()
    ) -> Iterator[JournalEntry]:
        """Yield the entries of a run in order, a page at a time.

        Args:
            run: The id of the run.
            after: The number of the entry to start behind.
            kinds: The kinds to read; default: all.
        """
        wanted, seen = frozenset(kinds), _BEFORE_ALL
        if after:
            rows = self.select(_BLOCK_OF, {"run": run, "number": after})
            first = rows[0][0] if rows else None
            seen = first - 1 if isinstance(first, int) else _BEFORE_ALL
        while rows := self.select(_BLOCKS, {"run": run, "seen": seen}):
            for entry in unpack(run, rows):
                if entry.number > after and (not wanted or entry.kind in wanted):
                    yield entry
            if len(rows) < _PAGE:
                break
            seen = rows[-1][0]

    def runs(
        self, *, prefix: str = "", status: str = "", reason: str = "", limit: int | None = None
    ) -> list[RunHead]:
        """Return the heads of runs, the newest first.

        Args:
            prefix: The start of their ids.
            status: Their status; default: any.
            reason: Why they ended; default: any.
            limit: How many to return at most.
        """
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
        rows = self.select(
            f"{HEADS} WHERE {' AND '.join(where)} ORDER BY r.began DESC, r.id DESC{end}", values
        )
        return [read_head(row) for row in rows]

    def names(self) -> Iterator[str]:
        """Yield the id of every run with a row or entries, to verify them all."""
        both = "SELECT id FROM handrail_run UNION SELECT run FROM handrail_journal"
        for (name,) in self.select(both, {}):
            yield as_text(name)

    def records(self, *, labels: Collection[str] | None = None) -> Records:
        """Return what pages read from the runs, or from those with one of these labels.

        It cannot write, and has its own connections: close it.
        """
        from handrail.runs._reading.records import Records

        if not self.database.exists:
            self.create()  # lets pages report that there are no runs yet
        database = Database(self.database.url, read_only=True, codec=self.database.seals.codec)
        check_schema(database.read_now, postgres=database.is_postgres)
        return Records(database, labels, clock=self._clock)

    def budgets(self, name: str = "", *, now: float | None = None) -> tuple[BudgetUse, ...]:
        """Return what is spent of each budget, or of one, in the current window."""
        from handrail.runs._reading.budgets import read_uses

        return read_uses(self.select, self._clock() if now is None else now, name=name)

    def requests(self, *, run: str | None = None, limit: int = 100) -> list[WaitingCall]:
        """Return what waits for a person, the most urgent first.

        Args:
            run: Only requests of this run.
            limit: How many to return at most.
        """
        from handrail.permissions import Pending

        one = "" if run is None else "AND q.run = :run "
        rows = self.select(
            "SELECT q.run, q.pending, q.answer FROM handrail_question q "
            "JOIN handrail_summary s ON s.run = q.run "
            f"WHERE q.used = 0 AND s.status = 'waiting' {one}"
            "ORDER BY q.expires, q.id LIMIT :limit",
            {"limit": limit} | ({} if run is None else {"run": run}),
        )
        return [WaitingCall(name, Pending.from_json(text), answer) for name, text, answer in rows]

    async def follow(self, after: int | None = None) -> AsyncIterator[EventRow]:
        """Yield events of all runs as they are written, by any process.

        Args:
            after: The place to start behind, from an earlier event; default: the last one.
        """
        from anyio import to_thread

        from handrail.runs._reading.events import follow_events

        await to_thread.run_sync(self.create)
        async for event in follow_events(self.database, after):
            yield event

    async def watch(self, run: str, *, after: str = "") -> AsyncIterator[Update]:
        """Yield a run's events, and its text while it arrives, until the run ends.

        Each event comes once and in order. ``restart`` means: discard the reply so far, because its
        worker died. Raises LookupError for an unknown run.

        Args:
            run: The run's id.
            after: The last event's id, to continue behind it; default: the beginning.
        """
        from handrail.runs._live.watching import watching

        async with aclosing(watching(self).watch(run, after)) as updates:
            async for update in updates:
                yield update

    async def answer(self, request_id: str, answer: Answer, *, by: str | Claimant) -> AnswerOutcome:
        """Answer a request if this person may, and return whether the answer is used.

        An answer is used once. If workers run the run, one of them then continues it.

        Args:
            request_id: The id of the request.
            answer: The answer.
            by: Who answers; a ``Claimant`` also says which groups they are in, where they answer
                and what they saw.
        """
        from anyio import to_thread

        return await to_thread.run_sync(partial(self.answer_now, request_id, answer, by=by))

    def answer_now(self, request_id: str, answer: Answer, *, by: str | Claimant) -> AnswerOutcome:
        """Answer a request in this thread; see ``answer``."""
        from handrail.runs._store.answering import answer_request
        from handrail.runs.answers import Claimant

        if not self.database.exists:
            self.create()
        claimant = Claimant(by) if isinstance(by, str) else by
        return answer_request(self.database, request_id, answer, claimant, now=self._clock())

    @property
    def ledger(self) -> Ledger:
        """Records which approvals were used, and which calls ended, for all processes."""
        from handrail.runs._store.claims import StoredLedger

        self.create()
        return StoredLedger(self.database)

    def results(self, run: str) -> StoredResults:
        """Return a store for a run's long results, in any process: ``LongResults(store=...)``.

        The run must be recorded here. Durable runs do this themselves.
        """
        from handrail.runs._durable.results import StoredResults

        self.create()
        return StoredResults(self.database, run)

    def hold(self, run: str) -> AbstractContextManager[None]:
        """Hold a run for this process. The end of the process releases it too.

        Raises RunBusy if another process holds it. Appending does not need it.
        """
        from handrail.runs._store.claims import hold_run

        return hold_run(self.database, run)

    def is_held(self, run: str) -> bool:
        """Return whether a process holds the run, or has claimed its conversation."""
        from handrail.runs._store.claims import CLAIMED, make_run_lock

        if self.select(CLAIMED, {"run": run, "now": self._clock()}):
            return True
        return make_run_lock(self.database, run).is_taken()

    def remove(self, run: str) -> None:
        """Delete a run without a worker, with everything belonging to it."""
        from handrail.runs._store.removal import remove_runs

        if self.database.exists:
            self.create()
            remove_runs(self.database, [run])

    def erase(self, principal: str) -> None:
        """Delete a principal's chats, remembered approvals, and all runs without a worker.

        Counts of budgets and rate limits stay, so that no limit is renewed. Delete durable runs
        with ``DurableRuns.erase``, which does this, too.
        """
        from handrail.runs._store.removal import erase_records

        if self.database.exists:
            self.create()
            erase_records(self.database, principal)

    def rotate(self) -> int:
        """Seal all texts with the codec's key, in batches, and return how many have changed.

        It also seals texts stored without a codec. Other processes can use the runs during it.
        """
        from handrail.runs._durable.rotation import rotate_keys

        codec = self.database.seals.codec
        if codec is None:
            raise ValueError("These runs have no codec: give `codec` to `open_runs`.")
        self.create()
        return rotate_keys(self.database, codec)

    def create(self) -> None:
        """Create the file and the tables, unless they exist."""
        if not self._has_tables:
            migrate(self.database)
            self._has_tables = True

    def select(self, sql: str, values: Values) -> Sequence[tuple[Any, ...]]:
        """Return a query's rows, or none if there is no file yet."""
        if not self._has_tables:
            if not self.database.exists:
                return []
            if self.database.is_postgres:
                check_schema(self.database.read_now, postgres=True)
                self._has_tables = True
            else:
                self.create()
        return self.database.read_now(sql, values)

    def close(self) -> None:
        """Close all connections. The next use opens them again."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
