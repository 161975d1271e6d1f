"""Runs of other programs for commands: durable runs, and those of chats in a web application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar

import anyio

from handrail import HandrailError
from handrail.agent import RunState
from handrail.cli._base.exits import Halt
from handrail.cli._runs.claims import answer_all
from handrail.cli._runs.saved import (
    WHY_CANCELLED,
    SavedRun,
    check_about,
    standing_of,
)
from handrail.permissions import Pending
from handrail.runs import AnswerOutcome, RunHead, RunStore
from handrail.runs.durable import DurableRuns
from handrail.runs.lines import EVENTS, LineFields, as_fields
from handrail.runs.statuses import CANCELLED, WORKED_ON, Standing

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
    continued_by = "a worker continues the run"

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


class WebRun(SavedRun):
    """A chat's run in a web application, which continues it after an answer."""

    is_durable: ClassVar[bool] = True
    __slots__ = ()

    @property
    def continued_by(self) -> str:
        """How it continues once its calls are answered."""
        return "the web application continues the run"

    def cancel(self) -> None:
        """Cancel the run. The process with the chat stops its tools."""
        self.put_standing(CANCELLED, WHY_CANCELLED)
        self.wait_for_release()

    def fork(self, turn: int | None, text: str | None) -> NoReturn:  # noqa: ARG002
        """Refuse: a chat has no other branch."""
        raise self._refusal("fork")

    def hold(self) -> NoReturn:
        """Refuse: the web application continues it."""
        raise self._refusal("resume")

    def _refusal(self, what: str) -> Halt:
        hint = "send a message in its chat"
        return Halt(f"cannot {what} run {self.id} of a web chat", code="refused", hint=hint)
