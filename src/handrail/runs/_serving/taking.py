"""Take work from the agents' queues: as much as the worker has slots for."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import Literal

from anyio import to_thread

from handrail.runs._durable.segments import Segments
from handrail.runs._engine.port import Engine, agent_queue, call_queue, suspect_queue
from handrail.runs._store.database import Database
from handrail.runs._store.liveness import Lock, make_lock

PATIENCE = 2.0
"""Seconds for which a busy worker leaves a suspect to idle workers."""
CLEAR_SECONDS = 30.0
"""How long a worker waits at first until nothing else runs here. Each time in vain doubles it."""
ALONE_SECONDS = 60.0
"""How long a suspect runs alone. It has not ended its process until then."""
WINDOW_SECONDS = 15.0
"""How long one lock counts. A frozen worker holds its lock, but not the next one."""
WINDOWS = 10
"""How many locks there are, in turn."""


def name_lock(version: str, at: float) -> str:
    """Return the lock name a version's workers need for a suspect at a time."""
    window = int(at / WINDOW_SECONDS) % WINDOWS
    return f"suspects-{sha256(version.encode()).hexdigest()[:16]}-{window}"


class Taker:  # a run that ends its process would harm the others: decision 093
    """Takes segments of the agents that this worker has, and calls from its queues.

    A suspect may end this process too: the workers that ran it before have died. So it runs alone.
    One worker at a time lets what it runs come to an end, takes one suspect, and takes nothing else
    until that has ended. The other workers continue as usual. So does this one afterwards, for as
    long as that took.

    Args:
        engine: Has the queues.
        segments: Run here.
        database: Has the locks. The worker that holds one takes suspects.
        slots: How many of them run at once.
    """

    def __init__(
        self, engine: Engine, segments: Segments, database: Database, *, slots: int
    ) -> None:
        self._engine = engine
        self._segments = segments
        self._database = database
        self._lock: Lock | None = None
        agents = segments.calls.served
        self._agents = deque(map(agent_queue, agents))
        self._calls = frozenset(map(call_queue, segments.calls.queues))
        self._suspects = frozenset(map(suspect_queue, agents))
        self._names = sorted({*self._agents, *self._calls, *self._suspects})
        self._phase: Literal["open", "clearing", "alone"] = "open"
        self._since = self._next_try = self._rests_until = 0.0
        self._clear_seconds = CLEAR_SECONDS
        self.slots = slots

    @property
    def used(self) -> int:
        """Slots in use. A queued call needs none."""
        return sum(queue not in self._calls for queue in list(self._engine.taken.values()))

    async def look(self) -> None:
        """Take what waits on the queues."""
        queued = frozenset(await self._engine.queued(self._names))
        if self._phase == "open" and await self._may_clear(queued & self._suspects):
            self._phase, self._since = "clearing", time.monotonic()
            self._segments.is_clearing = True
        if self._phase == "alone" and self._is_over():
            await self.release()
        if self._phase == "clearing":
            await self._clear(queued)
        elif self._phase == "open":
            await self._take_segments([queue for queue in self._agents if queue in queued])
            await self._take_calls(queued)
        elif self._segments.calls.waiting:  # the suspect waits for a call, perhaps for this worker
            await self._take_calls(queued)

    async def _may_clear(self, suspects: AbstractSet[str]) -> bool:
        """Return whether this worker is now the one for suspects."""
        now = time.monotonic()
        if not suspects:
            self._next_try = 0.0
            return False
        if not self._next_try:
            self._next_try = now + PATIENCE if self._engine.taken else now
        if now < self._next_try or (self._engine.taken and now < self._rests_until):
            return False
        self._next_try = now + PATIENCE
        name = name_lock(self._engine.application[1], time.time())
        self._lock = make_lock(self._database, name)
        return await to_thread.run_sync(self._lock.take)

    async def _clear(self, queued: AbstractSet[str]) -> None:
        """Wait until nothing runs here, and take a suspect."""
        if not self._engine.taken:
            self._segments.is_clearing = False
            self._phase, self._clear_seconds = "alone", CLEAR_SECONDS
            if suspects := sorted(queued & self._suspects):
                await self._engine.take(random.choice(suspects), 1)  # noqa: S311  for fairness
        elif time.monotonic() > self._since + self._clear_seconds:
            self._clear_seconds *= 2
            await self.release()
        elif self.used:
            await self._take_calls(queued)  # what runs may wait for them

    def _is_over(self) -> bool:
        """Return whether the suspect has ended, or has been alone for as long as it may."""
        is_gone = not self._suspects & {*self._engine.taken.values()}
        return is_gone or time.monotonic() > self._since + ALONE_SECONDS

    async def release(self) -> None:
        """Let another worker take suspects, and take everything else again."""
        if self._phase != "open" and self._lock is not None:
            self._phase, now = "open", time.monotonic()
            self._rests_until = now + (now - self._since)
            self._segments.is_clearing = False
            await to_thread.run_sync(self._lock.release)

    async def _take_segments(self, queues: list[str]) -> None:
        """Share the free slots between agents: a busy one does not hold up the others."""
        free = self.slots - self.used
        self._agents.rotate()
        for left, queue in zip(range(len(queues), 0, -1), queues, strict=True):
            if free > 0:
                free -= await self._engine.take(queue, -(-free // left))

    async def _take_calls(self, queued: AbstractSet[str]) -> None:
        for queue in self._calls & queued:
            await self._engine.take(queue, self.slots)
