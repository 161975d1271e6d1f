"""A run's state while it runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from handrail import Allow, Call, Result, Turn
from handrail.agent._history.given_answers import GivenAnswer, bind_answers, select_answers
from handrail.agent._history.state import (
    EarlyCall,
    RunState,
    Spent,
    stopped_result,
    unknown_result,
)
from handrail.messages import Message, Prompt, Reply, ToolResults
from handrail.permissions import Answer, Pending


class Conversation:
    """A run's messages, results and counts, and prompts for the next turn.

    A RunState is built on request: a short run builds only the last one.
    """

    def __init__(self, state: RunState, answers: Mapping[str, Answer]) -> None:
        self.run_id = state.run_id or os.urandom(16).hex()
        self.messages: list[Message] = [*state.messages]
        self.waiting = state.waiting
        self.usage, self.turns, self.calls = state.usage, state.turns, state.calls
        self.cost, self.before = state.cost, state.before
        self._inbox: list[Prompt] = [*state.inbox]
        self._discarded: list[EarlyCall] = [*state.discarded]
        self.shortened = state.shortened
        self.background = [*state.background]
        self._given = _find_answers(state, answers) if state.waiting else ()
        self._unused = state.answers

    @property
    def answers(self) -> dict[str, Answer]:
        """The answers to the calls the run waited for, by the request's id."""
        return {given.pending_id: given.answer for given in self._given}

    def take_answers(self) -> dict[str, Answer]:
        """Return the answers to use them now. Until there are results, the state has none.

        A state saved while they are in use must not approve the same calls again.
        """
        self._unused = ()
        return self.answers

    @property
    def state(self) -> RunState:
        """The state as one value."""
        return RunState(
            tuple(self.messages),
            self.waiting,
            tuple(self._inbox),
            self.usage,
            self.turns,
            self.calls,
            self.run_id,
            self.before,
            tuple(self._discarded),
            self.shortened,
            self.cost,
            self._unused,
            tuple(self.background),
        )

    @property
    def spent(self) -> Spent:
        """The run's turns, calls, tokens and cost so far."""
        return Spent(self.turns, self.calls, self.usage, self.cost)

    @property
    def last(self) -> Message | None:
        """The last message."""
        return self.messages[-1] if self.messages else None

    @property
    def has_prompts(self) -> bool:
        """Whether there are prompts for the next turn."""
        return bool(self._inbox)

    def send(self, prompt: Prompt) -> None:
        """Add a prompt to the next turn."""
        self._inbox.append(prompt)

    def take_prompts(self) -> None:
        """Add the prompts for the next turn to the messages."""
        self.messages += self._inbox
        self._inbox = []

    def add_reply(self, reply: Reply, calls: int) -> None:
        """Add a reply with this many complete calls."""
        self.messages.append(reply)
        self.turns += 1
        self.calls += calls

    def add_results(self, results: tuple[Result, ...], turn: Turn[Any]) -> ToolResults:
        """Add results for the last reply's calls. If some are pending, the run waits.

        Requests approved before their calls had to wait are not asked again. If a hook
        has ended the run, no call waits any more: an answer must not start one later.
        """
        if turn.stop_reason is not None:
            results = tuple([self._end(result, turn.stop_reason) for result in results])
        message = ToolResults(results)
        open_ = [result.pending for result in results if result.pending is not None]
        pending = [request for outer in open_ for request in outer.requests]
        self.waiting = results if pending else ()
        self._unused = self._find_unused(pending, turn.approved) if pending else ()
        if not pending:
            self.messages.append(message)
        return message

    def _end(self, result: Result, reason: str) -> Result:
        """Return a result that waits for nothing. A sub-agent may have done some work."""
        pending = result.pending
        if pending is None:
            return result
        return (
            unknown_result(pending.call) if pending.record else stopped_result(pending.call, reason)
        )

    def _find_unused(
        self, pending: Iterable[Pending], approved: Iterable[str]
    ) -> tuple[GivenAnswer, ...]:
        """Return the answers to open requests. A used answer has ended its own."""
        new = bind_answers(dict.fromkeys(approved, Allow()), pending)
        requests = RunState(waiting=self.waiting).requests
        given = {one.pending_id: one for one in (*self._given, *new)}
        return select_answers(given.values(), requests)

    def prepare_idle(self) -> bool:
        """Prepare to resume a run without open calls. Returns False if it has a prompt to send."""
        last = self.last
        if self._inbox:
            return False
        if isinstance(last, Reply) and last.stop == "other":  # the reply is incomplete
            self.messages.append(Prompt.of(_CONTINUE))
        return True

    def discard(self, calls: Iterable[tuple[Call, Result]]) -> None:
        """Record calls that started early and are in no reply."""
        self._discarded += [EarlyCall(*pair) for pair in calls]


def _find_answers(state: RunState, new: Mapping[str, Answer]) -> tuple[GivenAnswer, ...]:
    """Return the answers to the pending calls: those in the state, and new ones."""
    requests = state.requests
    given = (*select_answers(state.answers, requests), *bind_answers(new, requests))
    return tuple({one.pending_id: one for one in given}.values())


_CONTINUE = "You were interrupted. Continue."
