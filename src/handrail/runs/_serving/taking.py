"""Take work from the queues of a worker's agents: as much as it has slots for."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Set as AbstractSet
from typing import Literal

from anyio import to_thread

from handrail.runs._durable.port import Engine, agent_queue, call_queue, suspect_queue
from handrail.runs._durable.segments import Segments
from handrail.runs._serving.liveness import Lock

PATIENCE = 2.0
"""Seconds for which a busy worker leaves a suspect to others that are idle."""


class Taker:
    """Takes segments of the agents that this worker has, and calls from its queues.

    A suspect may end this process too: the workers that ran it before have died. So it runs alone.
    One worker at a time lets what it runs come to an end, takes one suspect, and takes nothing else
    until that has ended. The other workers continue as usual.

    Args:
        engine: Has the queues.
        segments: Run here.
        slots: How many of them run at once.
        lock: The worker that holds it takes suspects.
    """

    def __init__(self, engine: Engine, segments: Segments, *, slots: int, lock: Lock) -> None:
        self._engine = engine
        self._segments = segments
        self._lock = lock
        agents = segments.calls.served
        self._agents = deque(map(agent_queue, agents))
        self._calls = frozenset(map(call_queue, segments.calls.queues))
        self._suspects = frozenset(map(suspect_queue, agents))
        self._names = sorted({*self._agents, *self._calls, *self._suspects})
        self._phase: Literal["open", "clearing", "alone"] = "open"
        self._next_try = 0.0
        self.slots = slots

    @property
    def used(self) -> int:
        """How many slots are in use. A call of a queue needs none."""
        return sum(queue not in self._calls for queue in self._engine.taken.values())

    async def look(self) -> None:
        """Take what waits on the queues."""
        queued = frozenset(await self._engine.queued(self._names))
        suspects = queued & self._suspects
        if self._phase == "open" and await self._may_run_alone(suspects):
            self._phase = "clearing"
            self._segments.is_clearing = True
        if self._phase == "alone" and not self._suspects & {*self._engine.taken.values()}:
            await self.release()
        if self._phase == "clearing":
            await self._clear(queued)
        elif self._phase == "open":
            await self._take_segments([queue for queue in self._agents if queue in queued])
            await self._take_calls(queued)
        elif self._segments.calls.waiting:  # the suspect waits for a call, perhaps for this worker
            await self._take_calls(queued)

    async def _may_run_alone(self, suspects: AbstractSet[str]) -> bool:
        """Return whether this worker is now the one that takes suspects."""
        now = time.monotonic()
        if not suspects:
            self._next_try = 0.0
            return False
        if not self._next_try:
            self._next_try = now + PATIENCE if self._engine.taken else now
        if now < self._next_try:
            return False
        self._next_try = now + PATIENCE
        return await to_thread.run_sync(self._lock.take)

    async def _clear(self, queued: AbstractSet[str]) -> None:
        """Wait until nothing runs here, and take a suspect."""
        if self.used:
            await self._take_calls(queued)  # what runs may wait for them
        elif not self._engine.taken:
            self._segments.is_clearing = False
            self._phase = "alone"
            if suspects := sorted(queued & self._suspects):
                await self._engine.take(random.choice(suspects), 1)  # noqa: S311  for fairness

    async def release(self) -> None:
        """Let another worker take suspects, and take everything else again."""
        if self._phase != "open":
            self._phase = "open"
            self._segments.is_clearing = False
            await to_thread.run_sync(self._lock.release)

    async def _take_segments(self, queues: list[str]) -> None:
        """Share the free slots between agents, so that a busy one does not hold up the others."""
        free = self.slots - self.used
        self._agents.rotate()
        for left, queue in zip(range(len(queues), 0, -1), queues, strict=True):
            if free > 0:
                free -= await self._engine.take(queue, -(-free // left))

    async def _take_calls(self, queued: AbstractSet[str]) -> None:
        for queue in self._calls & queued:
            await self._engine.take(queue, self.slots)
