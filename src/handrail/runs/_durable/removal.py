"""Remove runs in batches, each completely in one transaction."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from anyio import to_thread

from handrail.runs._engine.port import segment_id
from handrail.runs._engine.workflows import Workflows
from handrail.runs._store.database import Database
from handrail.runs._store.points import reach
from handrail.runs._store.port import Step
from handrail.runs._store.removal import erase_records, list_deletions, list_ids
from handrail.runs._store.tables import PUT_NAME

BATCH = 200
"""How many runs are removed in one transaction."""
_ENDED = "status IN ('done', 'failed', 'cancelled')"


class EndedRun(NamedTuple):
    """A run to remove, and its last segment's number."""

    id: str
    segment: int


class Removal:
    """Removes runs, with what the engine keeps of them.

    Args:
        database: Has our rows.
        workflows: Those of the engine.
        stop: Cancels a run that has not ended, and returns the number of its last segment.
    """

    def __init__(
        self, database: Database, workflows: Workflows, stop: Callable[[str], Awaitable[int]]
    ) -> None:
        self._database = database
        self._workflows = workflows
        self._stop = stop
        self._ids = list_ids(database)

    async def prune(self, before: float, max_seconds: float | None) -> int:
        """Remove runs which ended before a time, and return their number."""
        began, removed = time.monotonic(), 0
        async for batch in self._find_old(before):
            removed += await self._remove(batch)
            if max_seconds is not None and time.monotonic() - began >= max_seconds:
                break
        return removed

    async def erase(self, principal: str) -> int:
        """Remove all runs on a principal's behalf, and return their number.

        First, it removes the principal's conversations and files: no message then starts a run.
        """
        await to_thread.run_sync(erase_records, self._database, principal)
        return sum([await self.remove(runs, erase=True) async for runs in self._find_of(principal)])

    async def remove(self, runs: Sequence[str], *, erase: bool = False) -> int:
        """Stop unfinished runs, and remove all."""
        ended = [EndedRun(run, await self._stop(run)) for run in runs]
        return await self._remove(ended, erase=erase)

    async def _find_old(self, before: float) -> AsyncIterator[list[EndedRun]]:
        """Yield batches of runs which ended before a time, the oldest first."""
        place: tuple[float, str] = (0.0, "")
        while True:
            rows = await self._database.read(
                f"SELECT id, segment, changed FROM handrail_run WHERE {_ENDED} "
                "AND changed < :before AND (changed, id) > (:changed, :id) "
                "ORDER BY changed, id LIMIT :limit",
                before=before,
                changed=place[0],
                id=place[1],
                limit=BATCH,
            )
            if not rows:
                return
            yield [EndedRun(id_, segment) for id_, segment, _ in rows]
            place = (rows[-1][2], rows[-1][0])

    async def _find_of(self, principal: str) -> AsyncIterator[list[str]]:
        """Yield batches of all runs on a principal's behalf."""
        last = ""
        while True:
            rows = await self._database.read(
                "SELECT id FROM handrail_run WHERE principal = :principal AND id > :last "
                "ORDER BY id LIMIT :limit",
                principal=principal,
                last=last,
                limit=BATCH,
            )
            if not rows:
                return
            yield [row[0] for row in rows]
            last = rows[-1][0]

    async def _remove(self, runs: Sequence[EndedRun], *, erase: bool = False) -> int:
        """Remove runs, with everything belonging to them. Returns how many there were.

        With ``erase``, it keeps their erasure and how their chains ended, but no text.
        """
        ids = json.dumps([run.id for run in runs])
        segments = [segment_id(run.id, n) for run in runs for n in range(run.segment + 1)]
        notes = await self._note(ids) if erase else []
        of_ours = list_deletions(self._database, ids)
        of_engine = await self._workflows.removal([run.id for run in runs], segments)
        changed = await self._database.transact([*of_ours, *of_engine, *notes], 0)
        reach("runs.removed")
        if of_engine:  # again: someone may have queued a segment after these were removed
            await self._database.transact(of_engine, 0)
        return changed[1]

    async def _note(self, ids: str) -> list[Step]:
        """Return the rows to keep for erased runs."""
        rows = await self._database.read(
            "SELECT j.run, j.last, j.digest FROM handrail_journal j "
            f"WHERE j.run IN (SELECT i.id FROM {self._ids}) AND j.first = "
            "(SELECT MAX(b.first) FROM handrail_journal b WHERE b.run = j.run)",
            ids=ids,
        )
        now = datetime.now(UTC).isoformat(timespec="seconds")
        notes = [
            {
                "name": f"erased {hashlib.sha256(run.encode()).hexdigest()}",
                "by": f"{last}:{digest} {now}",
            }
            for run, last, digest in rows
        ]
        return [(PUT_NAME, notes)] if notes else []
