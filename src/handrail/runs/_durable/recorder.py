"""Record one run segment: its steps, and non-repeatable calls in them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from handrail import CheckedCall, Hook, Result, Turn
from handrail.permissions import Ledger
from handrail.runs._durable.journal import OVERTAKEN, RunJournal
from handrail.runs._durable.once import Once
from handrail.runs._durable.orders import Order
from handrail.runs._durable.queues import QueuedCalls
from handrail.runs._durable.results import StoredResults
from handrail.runs._durable.rows import Rows
from handrail.runs._store.claims import PatientLedger
from handrail.runs._store.points import reach
from handrail.runs._store.port import DatabaseError
from handrail.runs._store.writes import StepRecord

_CUT = '{"cut": true}'
_CALLS = frozenset({"call", "truncated_call"})


class SegmentFull(Exception):
    """The run continues in its next segment."""


class SegmentRecorder:
    """Records a segment: each reply and each turn is a step.

    A step that is recorded is not done again. If two workers are at one segment, because one of
    them was taken for dead, the first record of a step counts for both.

    A call that must not be repeated has a row, which is written before it runs. After a crash, a
    row without a result means that the call may have taken effect.

    Args:
        rows: Records the steps and the calls.
        journal: Gets the events of the turns.
        order: The segment.
        queues: Where the calls of some tools run.
        turns: How many replies a segment has at most.
        is_draining: Whether the worker is about to stop.
    """

    def __init__(
        self,
        rows: Rows,
        journal: RunJournal,
        order: Order,
        queues: QueuedCalls,
        *,
        turns: int,
        is_draining: Callable[[], bool],
    ) -> None:
        self._rows = rows
        self._journal = journal
        self._place = (order.run, order.number)
        self._recorded: list[str] | None = None if journal.steps else []
        self._count = 0
        self._left = turns
        self._is_past_crash = False
        self._is_draining = is_draining
        self.claimant = order.id
        self._once = Once(rows, queues.active.counts, order.run)
        self._once.is_again = True
        self._queues = queues
        self._gate = queues.active.gate
        self._agent = order.agent
        self.steps = self
        self.known = self._once.known
        self.records = self._once
        self.ledger: Ledger = PatientLedger(rows.ledger)
        self.find_results = StoredResults(rows.database, order.run).find
        self.hook = Hook(around=self._run_once)

    async def step(self, work: Callable[[], Awaitable[str]]) -> str:
        """Return the next step's recorded text, or do its work and record it."""
        known = await self._find_step()
        if known is not None:
            return known
        return await self._add_step(await work())

    async def _find_step(self) -> str | None:
        """Return the next step's recorded text, if any. The last reply did not end the segment."""
        held, self._journal.held = self._journal.held, None
        if held is not None and held.body != await self._rows.add_step(self._place[0], held):
            raise DatabaseError(OVERTAKEN.format(self._place[0]))
        if self._recorded is None:
            self._recorded = await self._rows.steps_of(*self._place)
        self._count += 1
        return self._recorded[self._count - 1] if self._count <= len(self._recorded) else None

    async def _record_turn(self, work: Callable[[], Awaitable[str]]) -> str:
        """Do a turn's work, and record it with its events. The first record counts."""
        run, segment, step = *self._place, self._count - 1
        text, is_first = await self._journal.record(work, segment, step)
        found = text if is_first else await self._rows.find_step(run, segment, step)
        return text if found is None else found  # the run was removed

    async def _add_step(self, text: str) -> str:
        run, segment = self._place
        return await self._rows.add_step(run, StepRecord(segment, self._count - 1, text))

    async def record(self, name: str, work: Callable[[], Awaitable[str]], /) -> str:
        """Return a step's recorded text, or do its work and record it.

        Raises SegmentFull in place of another reply if the segment is long enough. This is recorded
        as well: a restart must end the segment at the same place.
        """
        if name != "model":
            known = await self._find_step()
            text = await self._record_turn(work) if known is None else known
            reach("turn.recorded")
            return text

        known = await self._find_step()
        text = await self._record_reply(work) if known is None else known
        self._journal.step = f"{self._place[1]}/{self._count - 1}"
        reach("model.recorded")
        self._left -= 1
        if text == _CUT:
            raise SegmentFull
        return text

    async def _record_reply(self, work: Callable[[], Awaitable[str]]) -> str:
        """Ask the model, and record its reply; with the segment's end, if it has no calls."""
        self._is_past_crash = True
        if self._left <= 0 or self._is_draining():
            text = _CUT
        else:
            text = await (work() if self._journal.is_begun else self._journal.follow(work))
        if not _is_answer(text):
            return await self._add_step(text)
        self._journal.held = StepRecord(self._place[1], self._count - 1, text)
        return text

    async def begin(self, turn: Turn[Any], /, *, again: bool) -> None:
        """Find results recorded by a former attempt at this turn.

        A former attempt can have reached only the first turn without a record, unless its reply is
        new, and a turn that the state says to begin again.
        """
        self.known.clear()
        self._journal.listen(turn)
        reach("turn.begun")
        if self._is_past_crash and not again:
            return
        self._is_past_crash = True
        await self._once.find_known(turn)

    async def _run_once(self, call: CheckedCall, run: Callable[[], Awaitable[Result]]) -> Result:
        """Run a call here, or on its queue."""
        queue = None if call.is_replayed else self._queues.find(call)
        if queue is None or call.turn.is_inner:
            async with self._gate.calling():
                return await self._once.run(call, run)
        self._journal.queued.send(call.id, queue, self._queues.wait_reason(queue))
        result, began = await self._queues.send(queue, self._agent, call)
        self._journal.queued.take(call.id, began)
        return result


def _is_answer(text: str) -> bool:
    """Return whether a recorded step is a reply without calls."""
    parts = json.loads(text).get("reply")
    return isinstance(parts, list) and not any(_CALLS & part.keys() for part in parts)
