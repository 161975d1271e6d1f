"""The read port: what pages need from runs, whatever keeps them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from handrail.runs._reading.values import (
    CallRecord,
    CallsPage,
    EventQuery,
    EventsPage,
    Fleet,
    InboxPage,
    RequestRecord,
    RuleCount,
    RunFigures,
    RunPart,
    RunQuery,
    RunsPage,
    RunSummary,
    TurnRow,
)
from handrail.runs.answers import AnswerRecord
from handrail.runs.history import TokenShare
from handrail.runs.journal import EventRow


class Records(Protocol):
    """Reads what pages show. It never writes.

    ``RunStore.records`` makes one. It sees only runs that have one of its labels, and answers about
    all others as about runs that do not exist. Its methods block, each reads with few statements,
    and they are safe in any thread.
    """

    @property
    def searches_texts(self) -> bool:
        """Whether a search finds words of prompts. It cannot if they are sealed."""
        ...

    def inbox(self, *, after: str = "", limit: int = 50) -> InboxPage:
        """Return what waits for a person, by the time that is left.

        Args:
            after: The key of the page, from ``InboxPage.next``.
            limit: How many rows to return at most.
        """
        ...

    def request(self, pending_id: str) -> RequestRecord | None:
        """Return a request with everything that was stored when it was asked."""
        ...

    def receipt(self, pending_id: str) -> AnswerRecord | None:
        """Return the answer to a request; None if it has none."""
        ...

    def runs(self, query: RunQuery | None = None, *, after: str = "", limit: int = 50) -> RunsPage:
        """Return runs, the newest first."""
        ...

    def figures(self, *, since: float = 0.0) -> RunFigures:
        """Return how many runs there are by status, and when they began."""
        ...

    def tokens(self, *, since: float = 0.0, limit: int = 10_000) -> tuple[TokenShare, ...]:
        """Return the tokens of runs by model and tool.

        Args:
            since: Only runs that began at this time or later.
            limit: How many runs count at most, the newest first.
        """
        ...

    def run(self, run: str) -> RunSummary | None:
        """Return the summary of a run."""
        ...

    def turns(self, run: str, *, after: int = 0, limit: int = 2000) -> tuple[TurnRow, ...]:
        """Return the turns of a run, in order.

        Args:
            run: The run.
            after: The number of the turn to continue after.
            limit: How many rows to return at most.
        """
        ...

    def parts(self, run: str, *, limit: int = 80) -> tuple[RunPart, ...]:
        """Return where the time of a run went, in at most ``limit`` parts of its turns."""
        ...

    def calls(
        self, run: str, *, after: int | None = None, turn: int | None = None, limit: int = 100
    ) -> CallsPage:
        """Return calls of a run, in order.

        Without ``after`` and ``turn``, the page opens at the turn that matters. That is the first
        with a call that waits for a person, else the first with one that failed, else the last.

        Args:
            run: The run.
            after: The number of the call to continue after.
            turn: The turn to begin at.
            limit: How many rows to return at most.
        """
        ...

    def call(self, run: str, number: int, *, page: CallsPage | None = None) -> CallRecord | None:
        """Return one call with its history; ``page`` spares reading its events again."""
        ...

    def events(
        self, query: EventQuery | None = None, *, before: int = 0, limit: int = 100
    ) -> EventsPage:
        """Return events, the newest first.

        A page searches a bounded part of the journals. It can be empty though others follow.

        Args:
            query: Which events.
            before: The place to continue before, from ``EventsPage.next``.
            limit: How many rows to return at most.
        """
        ...

    def rules(self, *, since: str = "", until: str = "") -> tuple[RuleCount, ...]:
        """Return how often each rule decided, between two days such as ``2026-11-17``."""
        ...

    def fleet(self) -> Fleet | None:
        """Return workers, queues and parked requests; None if no engine runs the runs."""
        ...

    def follow(self, after: int | None = None) -> AsyncIterator[EventRow]:
        """Yield events as they are written, after a place; default: from now on."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...
