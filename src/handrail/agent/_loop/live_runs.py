"""Find the run a call belongs to: a sub-agent works for it."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Protocol

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
    """Return the run this call belongs to. Inside its tools, other calls have another id."""
    run = _CURRENT.get()
    return run if run is not None and run.talk.run_id == run_id else None
