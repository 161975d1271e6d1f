"""Keep what is sent to a model within its context window."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from handrail import WRITE, Access, Call, Executor, Result, Toolset
from handrail.agent._history.compaction import (
    CHARS_PER_TOKEN,
    SUMMARIZE,
    Compaction,
    Shortened,
    TokenCount,
    count_chars,
    facts,
    next_start,
    shorten,
    turn_starts,
    write_summary,
)
from handrail.agent._history.conversation import Conversation
from handrail.agent._history.earlier_results import EarlierResults
from handrail.messages import Message, ModelError, Prompt, Reply, Usage

Summarize: TypeAlias = Callable[[tuple[Message, ...]], Awaitable[str]]
"""Asks the model to summarize these messages. Returns an empty text if it does not."""


class Window:
    """Shortens one run's history when it comes near the window's size."""

    def __init__(self, settings: Compaction, talk: Conversation, executor: Executor) -> None:
        self._settings = settings
        self._talk = talk
        self._executor = executor
        self._tokens = TokenCount()
        self._earlier = EarlierResults(talk.messages)
        self._is_full = False
        self._chars_at_refusal: int | None = None
        self._learn_from_history()

    def _learn_from_history(self) -> None:
        """Learn the size of an earlier run's last request."""
        messages = self._talk.messages
        for at in range(len(messages) - 1, 0, -1):
            reply = messages[at]
            if isinstance(reply, Reply):
                self.learn(shorten(messages[:at], self._talk.shortened), reply.usage)
                return

    def add_tools(self, tools: Toolset) -> Toolset:
        """Return the tools, with the one that reads earlier results once some are left out."""
        return self._earlier.add_to(tools) if any(self._talk.shortened) else tools

    def answer(self, call: Call) -> Result | None:
        """Return the result for a call reading earlier results, or None for any other."""
        return self._earlier.answer(call)

    def learn(self, sent: Sequence[Message], usage: Usage) -> None:
        """Learn a request's real size from its reply's usage."""
        self._tokens.learn(sent, usage)

    def overflow(self) -> None:
        """A request was too long: the history is shortened before the next one."""
        self._is_full = True

    async def fit(self, system: str, tools: Toolset, summarize: Summarize) -> tuple[Message, ...]:
        """Return the messages to send, shortened if that is necessary.

        Much is left out at once: what is sent then stays the same for many turns, and is cached.
        """
        talk, with_reader = self._talk, self._earlier.add_to(tools)

        def exceeds(shortened: Shortened, part: float) -> bool:
            sent = shorten(talk.messages, shortened)
            most = self._settings.window * self._settings.threshold * part
            return self._is_full or self._tokens.estimate(sent, system, with_reader) > most

        if exceeds(talk.shortened, 1):
            recent, is_enough = self._leave_out(exceeds)
            if not is_enough and recent > talk.shortened.start and self._may_ask():
                await self._summarize(recent, summarize)
            self._is_full = False
        return shorten(talk.messages, talk.shortened)

    def _leave_out(self, exceeds: Callable[[Shortened, float], bool]) -> tuple[int, bool]:
        """Leave out old results. Return where the recent turns start, and whether it is enough.

        If it is not, the turns before them are to be summarized.
        """
        talk, turns = self._talk, 1 if self._is_full else self._settings.keep_turns
        while True:
            recent = next_start(talk.messages, turns)
            before = max(recent, talk.shortened.results_before)
            shorter = talk.shortened._replace(results_before=before)
            is_enough = not exceeds(shorter, _TARGET)
            if is_enough or turns <= 1 or not exceeds(Shortened(recent, "", recent), _TARGET):
                talk.shortened = shorter
                return recent, is_enough
            turns -= 1

    async def _summarize(self, recent: int, summarize: Summarize) -> None:
        talk = self._talk
        if self._settings.before_summary is not None:
            await self._settings.before_summary()
        older = shorten(talk.messages[:recent], talk.shortened)
        summary = await _summarize_what_fits(older, summarize)
        self._chars_at_refusal = None if summary else count_chars(talk.messages)
        if summary:
            known = facts(talk.messages[:recent], self._touched, self._settings.window // 3)
            talk.shortened = Shortened(recent, write_summary(summary, known), recent)

    def _may_ask(self) -> bool:
        """Whether to ask for a summary: after a refusal, only if there is clearly more to say."""
        if self._chars_at_refusal is None or self._is_full:
            return True
        more = count_chars(self._talk.messages) - self._chars_at_refusal
        return more / CHARS_PER_TOKEN >= self._settings.window * _MORE_AFTER_REFUSAL

    def _touched(self, call: Call) -> Iterable[Access]:
        """Return what a call has changed, as its tool declares it."""
        accesses = self._executor.explain(call).accesses
        return [access for access in accesses if access.verb >= WRITE]


async def _summarize_what_fits(older: tuple[Message, ...], summarize: Summarize) -> str:
    """Return a summary. If the messages are too long even for that, of half of their turns."""
    while True:
        try:
            return await summarize((*older, Prompt.of(SUMMARIZE)))
        except ModelError as error:
            turns = len(turn_starts(older))
            if error.kind != "too_long" or turns < _MIN_TURNS:
                raise
            older = (older[0], *older[next_start(older, turns // 2) :])


_MIN_TURNS = 2
"""Fewer turns cannot be divided."""
_MORE_AFTER_REFUSAL = 0.1
"""The window share by which the history grows before a refusing model is asked again."""
_TARGET = 2 / 3  # less would change the cached beginning in each request: decision 055
"""The threshold share to send after shortening the history."""
