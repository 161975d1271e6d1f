"""Resume answered pending calls, in their original turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from handrail import Executor, Result, Turn
from handrail.agent._history.compaction import shorten
from handrail.agent._history.conversation import Conversation
from handrail.agent._loop.recorder import record_turn
from handrail.agent._loop.settings import RunOptions
from handrail.messages import find_loaded_tools
from handrail.permissions import Pending
from handrail.sources import Heard


class Resumption:
    """The pending calls' turn, and the calls ready to run."""

    def __init__(
        self, executor: Executor, talk: Conversation, options: RunOptions, heard: Heard
    ) -> None:
        answers, waiting = talk.take_answers(), talk.waiting
        open_ = [result.pending for result in waiting if result.pending is not None]
        open_.sort(key=attrgetter("position"))
        self._executor = executor
        self._talk = talk
        self._recorder = options.recorder
        self._waiting = waiting
        self._answers = answers
        self._open = {pending.key for pending in open_}
        self._ready = [
            pending for pending in open_ if pending.id in answers or pending.kind == "waiting"
        ]
        first, loaded = open_[0], find_loaded_tools(shorten(talk.messages, talk.shortened))
        given: dict[str, Any] = {**options.for_turn, "answers": answers, "heard": heard}
        self.turn: Turn[Any] = executor.turn(
            first.turn_id, run=first.run_id, loaded=loaded, **given
        )
        self.turn.adopt(*[pending for pending in open_ if pending not in self._ready])

    async def results(self) -> tuple[Result, ...]:
        """Run the calls with an answer or without a question. Return all results."""
        ran = await record_turn(self._recorder, self._talk, self.turn, self._run, again=True)
        new = {pending.id: result for pending, result in zip(self._ready, ran, strict=True)}
        return tuple(
            result if result.pending is None else new.get(result.pending.id, result)
            for result in self._waiting
        )

    async def _run(self) -> Sequence[Result]:
        for pending in self._ready:
            self.turn.answer(self._current(pending), self._answers.get(pending.id))
        return await self._executor.run_all((), turn=self.turn, background=True)

    def _current(self, pending: Pending) -> Pending:
        """Remove finished calls from a call's waiting list. The state knows them all."""
        return replace(pending, after=tuple(key for key in pending.after if key in self._open))
