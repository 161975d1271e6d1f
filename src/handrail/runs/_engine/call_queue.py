"""A queue for some tools' calls, its limits, and journal lines about its calls."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from handrail.events import WaitReason
from handrail.runs.lines import LineFields


@dataclass(frozen=True, slots=True, kw_only=True)
class CallQueue:
    """Some tools' calls wait here for a worker. Without a limit, any number runs at once."""

    tools: Sequence[str] = ()
    """Names of tools whose calls go here."""
    tags: Sequence[str] = ()
    """Calls to tools with one of these tags go here too."""
    per_worker: int | None = None
    """How many run at once on one worker."""
    in_all: int | None = None
    """How many run at once on all workers."""
    per_tenant: int | None = None
    """How many run at once for one principal."""
    rate: tuple[int, float] | None = None
    """How many begin within how many seconds, on all workers."""

    @property
    def wait_reason(self) -> WaitReason:
        """Why its calls wait: for the rate if it has no other limit, else for their turn."""
        has_other = any((self.per_worker, self.in_all, self.per_tenant))
        return "rate" if self.rate and not has_other else "queue"


class QueuedLines:
    """Tells the journal how long calls wait on queues. The sending turn sees no start."""

    def __init__(self) -> None:
        self.sent: dict[str, LineFields] = {}
        """Unwritten lines, by call id."""
        self._taken: dict[str, float] = {}
        """When workers took calls."""

    def send(self, call: str, queue: str, reason: WaitReason) -> None:
        """Note a call's way to a queue."""
        line = {"event": "waiting", "at": time.time(), "call_id": call, "on": list[str]()}
        self.sent[call] = {**line, "reason": reason, "what": queue}

    def take(self, call: str, at: float | None) -> None:
        """Note when a worker took a call from a queue, if one did."""
        if at is not None:
            self._taken[call] = at

    def waits(self, calls: Iterable[str]) -> list[LineFields]:
        """Return the unwritten lines about these calls, each once."""
        return [self.sent.pop(call) for call in calls if call in self.sent]

    def change(self, line: LineFields) -> Iterator[LineFields]:
        """Yield a line. Before a call ends, it waited, and a worker took it."""
        call = str(line.get("call_id"))
        if line["event"] in {"attempt_failed", "finished"}:
            if waited := self.sent.pop(call, None):
                yield waited
            if began := self._taken.pop(call, None):
                yield {"event": "started", "at": began, "call_id": call, "attempt": 1}
        yield line
