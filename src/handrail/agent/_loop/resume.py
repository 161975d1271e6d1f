"""Resume the pending calls that have an answer, in their original turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from handrail import Executor, Result, Turn
from handrail.agent._loop.settings import RunOptions
from handrail.permissions import Pending


class Resumption:
    """The turn of the pending calls, and the calls that can run now."""

    def __init__(self, executor: Executor, waiting: Sequence[Result], options: RunOptions) -> None:
        answers = options.answers
        open_ = [result.pending for result in waiting if result.pending is not None]
        open_.sort(key=attrgetter("position"))
        self._executor = executor
        self._waiting = waiting
        self._answers = answers
        self._open = {pending.key for pending in open_}
        self._ready = [
            pending for pending in open_ if pending.id in answers or not pending.question
        ]
        first = open_[0]
        self.turn: Turn[Any] = executor.turn(first.turn_id, run=first.run_id, **options.for_turn)
        self.turn.adopt(*[pending for pending in open_ if pending not in self._ready])

    async def results(self) -> tuple[Result, ...]:
        """Run the calls that have an answer or need none. Return the results of all calls."""
        for pending in self._ready:
            self.turn.answer(self._current(pending), self._answers.get(pending.id))
        ran = await self._executor.run_all((), turn=self.turn)
        new = {pending.id: result for pending, result in zip(self._ready, ran, strict=True)}
        return tuple(
            result if result.pending is None else new.get(result.pending.id, result)
            for result in self._waiting
        )

    def _current(self, pending: Pending) -> Pending:
        """Remove finished calls from those that a call waits for. The state knows them all."""
        return replace(pending, after=tuple(key for key in pending.after if key in self._open))
