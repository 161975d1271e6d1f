"""A durable run for commands: read from its journal, and acted on by the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import anyio

from handrail import HandrailError
from handrail.agent import RunState
from handrail.cli._base.exits import Halt
from handrail.cli._runs.claims import answer_all
from handrail.cli._runs.saved import check_about, standing_of
from handrail.permissions import Pending
from handrail.runs import AnswerOutcome, RunHead, RunStore
from handrail.runs.durable import DurableRuns
from handrail.runs.lines import EVENTS, LineFields, as_fields
from handrail.runs.statuses import WORKED_ON, Standing

T = TypeVar("T")


def act(store: RunStore, work: Callable[[DurableRuns], Awaitable[T]], **options: Any) -> T:
    """Do something with durable runs, without agents, and return its result."""

    async def inside() -> T:
        codec = store.database.seals.codec
        async with DurableRuns(store.database.url, {}, codec=codec, **options) as runs:
            return await work(runs)

    return anyio.run(inside)


class DurableSavedRun:
    """A durable run; see ``StoredRun``."""

    is_durable = True

    def __init__(self, store: RunStore, run: str) -> None:
        self.id = run
        self.journal = store

    @property
    def head(self) -> RunHead:
        """Its chain's end, and its summary."""
        return self.journal.head(self.id) or RunHead(self.id)

    @property
    def about(self) -> dict[str, Any]:
        """The run's summary, checked."""
        return check_about(self.id, self.head)

    @property
    def standing(self) -> Standing:
        """The run's status, and why it ended."""
        return standing_of(self.about)

    @property
    def busy(self) -> bool:
        """Whether a worker works on it, or will without an answer."""
        return self.head.status in WORKED_ON

    def lines(self) -> list[LineFields]:
        """Return what happened, as fields."""
        return [as_fields(entry) for entry in self.journal.read(self.id, kinds=EVENTS)]

    def state(self) -> RunState:
        """Return an ended run's messages."""
        state = self._act(lambda runs: runs.get(self.id)).state
        if state is None:
            hint = f"see its events with `handrail runs show {self.id}`"
            raise Halt(f"run {self.id} has not ended", code="unreadable", hint=hint)
        return state

    def pending(self) -> Sequence[Pending]:
        """Return the calls waiting for a person."""
        requests = self.journal.requests(run=self.id)
        return [one.pending for one in requests if one.answer is None]

    def answer(
        self, pending: Sequence[Pending], given: Mapping[str, str]
    ) -> Sequence[AnswerOutcome]:
        """Give the same answer to some pending calls."""
        return answer_all(self.journal, pending, given)

    def cancel(self) -> None:
        """Cancel the run: its tools are stopped."""
        self._act(lambda runs: runs.cancel(self.id))

    def fork(self, turn: int | None, text: str | None) -> tuple[str, int]:
        """Start another run from a turn. Return its id and the turn's number."""
        new = self._act(lambda runs: runs.fork(self.id, turn=turn, text=text))
        return new, int(DurableSavedRun(self.journal, new).head.summary["forked_at"])

    def requeue(self) -> None:
        """Let a worker continue a failed run."""
        self._act(lambda runs: runs.resume(self.id))

    def remove(self) -> None:
        """Delete the run."""
        self._act(lambda runs: runs.remove(self.id))

    def _act(self, work: Callable[[DurableRuns], Awaitable[T]]) -> T:
        """Act as the application that started the run."""
        summary = self.head.summary
        names = {"name": summary.get("application"), "version": summary.get("version")}
        options = {key: value for key, value in names.items() if isinstance(value, str)}
        try:
            return act(self.journal, work, **options)
        except (LookupError, ValueError, HandrailError) as error:
            hint = f"see `handrail runs show {self.id}`"
            raise Halt(str(error), code="refused", hint=hint) from None
