"""The state of a run while it runs."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from handrail import Call, Result
from handrail.agent._history.state import EarlyCall, InnerRun, RunState, Spent
from handrail.messages import Message, Prompt, Reply, ToolResults


class Conversation:
    """The messages, results and counts of a run, and prompts for the next turn.

    A RunState is built on request: a short run builds only the last one.
    """

    def __init__(self, state: RunState) -> None:
        self.run_id = state.run_id or uuid.uuid4().hex
        self.messages: list[Message] = [*state.messages]
        self.waiting = state.waiting
        self.usage, self.turns, self.calls = state.usage, state.turns, state.calls
        self.cost, self.before = state.cost, state.before
        self._inbox: list[Prompt] = [*state.inbox]
        self._discarded: list[EarlyCall] = [*state.discarded]
        self._inner = dict(state.inner)
        self.shortened = state.shortened

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
            tuple([InnerRun(key, state) for key, state in self._inner.items()]),
            self.shortened,
            self.cost,
        )

    @property
    def spent(self) -> Spent:
        """The turns, calls, tokens and cost of the run so far."""
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
        """Add a reply with a number of complete calls."""
        self.messages.append(reply)
        self.turns += 1
        self.calls += calls

    def add_results(self, results: tuple[Result, ...], *, pending: bool) -> ToolResults:
        """Add the results of the last reply's calls. If some are pending, the run waits."""
        message = ToolResults(results)
        self.waiting = results if pending else ()
        open_ = {result.pending.key for result in results if result.pending is not None}
        self._inner = {key: state for key, state in self._inner.items() if key in open_}
        if not pending:
            self.messages.append(message)
        return message

    def find_inner(self, key: str) -> RunState | None:
        """Return the state of the sub-agent that waited inside a call, if there is one.

        It stays until the call has its result: the run may end before.
        """
        return self._inner.get(key)

    def put_inner(self, key: str, state: RunState) -> None:
        """Keep the state of a sub-agent that waits inside a call."""
        self._inner[key] = state

    def discard(self, calls: Iterable[tuple[Call, Result]]) -> None:
        """Record calls that started early and are in no reply."""
        for call, result in calls:
            self._discarded.append(EarlyCall(call, result))
            if result.pending is not None:
                self._inner.pop(result.pending.key, None)
