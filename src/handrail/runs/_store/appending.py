"""Append lines to runs without a worker. A run written lately is not read again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from handrail.runs._store.database import Database
from handrail.runs._store.port import Step
from handrail.runs._store.requests import keep_requests
from handrail.runs._store.writes import GUARDS, HEAD_AND_TALLY, RunWrites, check_news, put_run
from handrail.runs.journal import SOME, JournalLine, RunHead, check_after

_KEPT = 100
"""How many runs are remembered. Another process may write to them: then they are read again."""


class Appender:
    """Writes to runs, in any thread; see ``RunStore.append``."""

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
        requests = keep_requests(entries, contents, self._database.members)
        return head, [*steps, put_run(head), *requests]
