"""Find the runs of this process: a sub-agent works for one of them."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Protocol

from handrail.agent._history.conversation import Conversation
from handrail.agent._loop.events import RunEvent
from handrail.agent._loop.spending import Spending
from handrail.permissions import Answer, Approver


class LiveRun(Protocol):
    """The part of a run that its sub-agents use."""

    talk: Conversation
    spending: Spending

    @property
    def answers(self) -> Mapping[str, Answer]:
        """The answers that the run was resumed with."""
        ...

    @property
    def approver(self) -> Approver | None:
        """The function that answers the questions of the run, if there is one."""
        ...

    def emit(self, event: RunEvent) -> None:
        """Tell the listener of an event."""
        ...


_LIVE: dict[str, LiveRun] = {}


@contextmanager
def live(run_id: str, run: LiveRun) -> Generator[None]:
    """Make a run known while it runs."""
    _LIVE[run_id] = run
    try:
        yield
    finally:
        _LIVE.pop(run_id, None)


def find_run(run_id: str) -> LiveRun | None:
    """Return the run with this id, if it runs in this process."""
    return _LIVE.get(run_id)
