"""Find the run a call belongs to: a sub-agent works for it."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Protocol
from urllib.parse import unquote

from handrail.agent._history.conversation import Conversation
from handrail.agent._loop.budgets import RunBudget
from handrail.agent._loop.events import RunEvent
from handrail.agent._loop.spending import Spending


class LiveRun(Protocol):
    """The part of a run its sub-agents use."""

    talk: Conversation
    spending: Spending
    budgets: Sequence[RunBudget]

    def emit(self, event: RunEvent) -> None:
        """Tell the listener about an event."""
        ...


_CURRENT: ContextVar[LiveRun | None] = ContextVar("handrail_run", default=None)


def set_run(run: LiveRun | None) -> LiveRun | None:
    """Make a run known to the calls it starts. Returns the run known before."""
    outer = _CURRENT.get()
    _CURRENT.set(run)
    return outer


def find_run(run_id: str) -> LiveRun | None:
    """Return the run this call belongs to, also for calls that a program or tool makes inside it.

    Calls of an executor of a tool's own have another id.
    """
    run = _CURRENT.get()
    return run if run is not None and list_calls_above(run_id, run) is not None else None


def list_calls_above(run_id: str, run: LiveRun) -> list[str] | None:
    """Return the ids of the run's calls around an inner turn, the innermost first.

    An inner turn has the key of the call around it as its run's id. None for another run's turn.
    """
    calls: list[str] = []
    while run_id != run.talk.run_id:
        turn, _, call = run_id.rpartition("/")
        above, _, _ = turn.rpartition("/")
        if not above:
            return None
        calls.append(unquote(call.partition("#")[0]))
        run_id = unquote(above)
    return calls
