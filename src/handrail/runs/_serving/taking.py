"""Take work from the queues of a worker's agents: as much as it has slots for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from handrail.runs._durable.port import Engine, agent_queue, call_queue


class Taker:
    """Takes segments of the agents that this worker has, and calls from its queues.

    Args:
        engine: Has the queues.
        agents: The names of the agents.
        queues: The names of the queues of calls.
        slots: How many segments this worker runs at once.
    """

    def __init__(
        self, engine: Engine, *, agents: Iterable[str], queues: Iterable[str], slots: int
    ) -> None:
        self._engine = engine
        self._agents = deque(map(agent_queue, agents))
        self._calls = frozenset(map(call_queue, queues))
        self.slots = slots

    @property
    def used(self) -> int:
        """How many slots are in use. A call of a queue needs none."""
        return sum(queue not in self._calls for queue in self._engine.taken.values())

    async def look(self) -> None:
        """Take what waits on the queues."""
        queued = await self._engine.queued([*self._agents, *self._calls])
        if queued:
            await self._take_segments([queue for queue in self._agents if queue in queued])
            for queue in self._calls.intersection(queued):
                await self._engine.take(queue, self.slots)

    async def _take_segments(self, queues: list[str]) -> None:
        """Share the free slots between agents, so that a busy one does not hold up the others."""
        free = self.slots - self.used
        self._agents.rotate()
        for left, queue in zip(range(len(queues), 0, -1), queues, strict=True):
            if free > 0:
                free -= await self._engine.take(queue, -(-free // left))
