"""The part of an engine that durable runs use. All values are text, never objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Literal, Protocol, TypeAlias, cast

from handrail.runs._store.port import Step

Body: TypeAlias = Callable[[str], Awaitable[str | None]]
"""The body of a segment: takes its text, and returns how it ended; None if it was put back."""
SegmentStatus: TypeAlias = Literal["queued", "running", "parked", "done", "failed", "cancelled"]
"""The status of a segment, for the engine. The run has its own."""


def segment_id(run: str, number: int) -> str:
    """Return the id of a segment of a run."""
    return f"{run}:{number}"


def agent_queue(agent: str) -> str:
    """Return the name of the queue of an agent's segments. Its workers have the agent."""
    return f"handrail agent {agent}"


def suspect_queue(agent: str) -> str:
    """Return the name of the queue of an agent's segments whose workers died more than once."""
    return f"handrail suspect {agent}"


def call_queue(name: str) -> str:
    """Return the engine's name of a queue of calls."""
    return f"handrail call {name}"


QueueKind: TypeAlias = Literal["agent", "suspect", "call"]


def read_queue(queue: str) -> tuple[QueueKind, str]:
    """Return the kind of a queue, and the agent or the queue of calls that it belongs to."""
    _, kind, name = queue.split(" ", 2)
    return cast("QueueKind", kind), name


class Engine(Protocol):
    """Queues segments and runs each of them until it has ended, again after a crash.

    Our own rows record the steps of a segment. Forking a run needs nothing more: it starts a
    segment with another id.
    """

    @property
    def application(self) -> tuple[str, str]:
        """The name and the version of the application."""
        ...

    @property
    def taken(self) -> Mapping[str, str]:
        """The queues of the segments and calls that this process runs, by their ids."""
        ...

    async def open(self) -> None:
        """Connect to the database, and create or change what the engine keeps there."""
        ...

    def find_host(self) -> str | None:
        """Return the id of this process if it already runs the engine for something else."""
        ...

    async def launch(self, body: Body, call_body: Body, worker: str) -> None:
        """Prepare this process to run segments and queued calls. ``take`` begins them."""
        ...

    async def drain(self, seconds: float) -> None:
        """Wait for the segments that run."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...

    async def start(self, segment_id: str, agent: str, text: str) -> None:
        """Queue a segment. A second start with the same id joins the first."""
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
        """Return those of these queues that have something for this version."""
        ...

    async def measure(self) -> list[tuple[str, int, float]]:
        """Return the queues of this version: how many wait there, and since when the first."""
        ...

    async def take(self, queue: str, most: int) -> int:
        """Take at most ``most`` segments from a queue, and begin to run them.

        Returns how many were taken. A queue of calls has its own limits.
        """
        ...

    async def wake(self, segment_id: str) -> None:
        """Let a parked segment run now. Does nothing to any other."""
        ...

    async def cancel(self, segment_id: str) -> None:
        """Stop a segment, also while a step of it runs."""
        ...

    async def find(self, segment_id: str) -> SegmentStatus | None:
        """Return the status of a segment, or None if there is none."""
        ...

    async def given_up(self, run: str | None = None) -> list[tuple[str, int, str]]:
        """Return the runs whose segment was given up, or one: their ids, its number, and why."""
        ...

    async def unqueued(self, agents: Collection[str], before: float) -> list[str]:
        """Return queued runs of agents, without a segment, that have not changed since a time."""
        ...

    async def owners(self) -> list[str]:
        """Return the ids of the workers that run segments, dead or alive."""
        ...

    async def owned(self, worker: str) -> list[str]:
        """Return the ids of the segments that a worker runs."""
        ...

    async def recover(self, worker: str) -> int:
        """Queue the segments of a dead worker again, and return their number.

        Those whose workers died more than once go to the queues of suspects, and those whose
        workers died too often are given up. A queued call is given up after two deaths.
        """
        ...

    async def delay(self, segment_id: str, seconds: float) -> None:
        """Put back what this process has taken and cannot run. It is queued again later."""
        ...

    async def excuse(self, worker: str) -> None:
        """Let the end of a worker be no death for what it runs now."""
        ...

    async def retry(self, run: str, number: int, agent: str) -> bool:
        """Continue a run whose segment was given up, with this segment. Returns False if not."""
        ...

    def failure(self, run: str, number: int) -> Step:
        """Return a statement that changes a row only while a segment is given up."""
        ...
