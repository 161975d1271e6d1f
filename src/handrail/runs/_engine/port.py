"""The part of an engine durable runs use. All values are text, never objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Literal, Protocol, TypeAlias, cast

from handrail.runs._store.port import Step, Transact

Body: TypeAlias = Callable[[str], Awaitable[str | None]]
"""A segment's body: takes its text, and returns how it ended, or None if it was put back."""
SegmentStatus: TypeAlias = Literal["queued", "running", "parked", "done", "failed", "cancelled"]
"""A segment's status, for the engine. The run has its own."""


def segment_id(run: str, number: int) -> str:
    """Return a segment's id."""
    return f"{run}:{number}"


def agent_queue(agent: str) -> str:
    """Return the queue name for an agent's segments. Its workers have the agent."""
    return f"handrail agent {agent}"


def suspect_queue(agent: str) -> str:
    """Return the queue name for an agent's segments whose workers died more than once."""
    return f"handrail suspect {agent}"


def call_queue(name: str) -> str:
    """Return the engine's name for a call queue."""
    return f"handrail call {name}"


QueueKind: TypeAlias = Literal["agent", "suspect", "call"]


def read_queue(queue: str) -> tuple[QueueKind, str]:
    """Return a queue's kind, and its agent or call queue."""
    _, kind, name = queue.split(" ", 2)
    return cast("QueueKind", kind), name


class Engine(Protocol):
    """Queues segments and runs each until it has ended, again after a crash.

    Our own rows record a segment's steps. Forking a run needs nothing more: it starts a segment
    with another id.
    """

    @property
    def application(self) -> tuple[str, str]:
        """The application's name and version."""
        ...

    @property
    def taken(self) -> Mapping[str, str]:
        """Queues of local segments and calls, by their ids."""
        ...

    async def open(self) -> None:
        """Connect to the database, and create or change what the engine keeps there."""
        ...

    def find_host(self) -> str | None:
        """Return this process's id if it already runs the engine for something else."""
        ...

    async def launch(self, body: Body, call_body: Body, worker: str) -> None:
        """Prepare this process to run segments and queued calls. ``take`` begins them."""
        ...

    async def drain(self, seconds: float) -> None:
        """Wait for running segments."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...

    async def start(self, segment_id: str, agent: str, text: str) -> None:
        """Queue a segment. A second start with the same id joins the first."""
        ...

    def starting(self, segment_id: str, agent: str, text: str) -> Transact:
        """Return a function for transactions that also queue a segment, if they change anything."""
        ...

    async def park(self, segment_id: str, agent: str, text: str, seconds: float) -> None:
        """Queue a segment for later. It holds no worker, no memory and no connection."""
        ...

    async def call(self, queue: str, key: str, text: str, tenant: str) -> str | None:
        """Queue a call, and return what its body gave; None if it gave nothing.

        A second call with the same key joins the first.
        """
        ...

    async def queued(self, queues: Collection[str]) -> list[str]:
        """Return the queues with something for this version."""
        ...

    async def measure(self) -> list[tuple[str, int, float]]:
        """Return this version's queues: how many wait there, and since when the first."""
        ...

    async def take(self, queue: str, most: int) -> int:
        """Take at most ``most`` segments from a queue, and begin to run them.

        Returns how many were taken. A call queue has its own limits.
        """
        ...

    async def wake(self, segment_id: str) -> None:
        """Let a parked segment run now. Does nothing to any other."""
        ...

    async def cancel(self, segment_id: str) -> None:
        """Stop a segment, also during a step."""
        ...

    async def find(self, segment_id: str) -> SegmentStatus | None:
        """Return a segment's status, or None if there is none."""
        ...

    async def given_up(self, run: str | None = None) -> list[tuple[str, int, str]]:
        """Return the runs whose segment was given up, or one: their ids, its number, and why."""
        ...

    async def owners(self) -> list[str]:
        """Return the ids of workers running segments, dead or alive."""
        ...

    async def owned(self, worker: str) -> list[str]:
        """Return the ids of a worker's segments."""
        ...

    async def recover(self, worker: str) -> int:
        """Queue a dead worker's segments again, and return their number.

        Those whose workers died more than once go to the suspect queues, and those whose workers
        died too often are given up. A queued call is given up after two deaths.
        """
        ...

    async def delay(self, segment_id: str, seconds: float) -> None:
        """Put back what this process has taken and cannot run. It is queued again later."""
        ...

    async def excuse(self, worker: str) -> None:
        """Excuse a worker's end: its current work counts no death."""
        ...

    async def retry(self, run: str, number: int, agent: str) -> bool:
        """Continue a run whose segment was given up, with this segment. Returns False if not."""
        ...

    def failure(self, run: str, number: int) -> Step:
        """Return a statement changing a row only while a segment is given up."""
        ...
