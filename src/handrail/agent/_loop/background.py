"""Calls in the background: a run continues beside them, and reads their results as messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias

import anyio

from handrail import Executor, Result, Turn
from handrail.agent._history.conversation import Conversation
from handrail.agent._history.state import (
    AnyCall,
    BackgroundCall,
    find_background,
    find_called,
    is_repeatable,
    report_ended,
    unknown_result,
)
from handrail.agent._loop.recorder import Recorder
from handrail.messages import TruncatedCall, read_result, write_result

Until: TypeAlias = Literal["now", "one", "all"]
"""What to wait for: nothing, one ended call, or all."""


class BackgroundLoop(Protocol):
    """The loop, for calls in the background."""

    talk: Conversation

    def make_turn_again(self, number: str) -> Turn[Any]:
        """Open a turn again."""
        ...

    async def save(self) -> None:
        """Save the state."""
        ...


class Background:
    """A run's calls in the background, in this process and from before a restart."""

    def __init__(self, loop: BackgroundLoop, executor: Executor, recorder: Recorder | None) -> None:
        self._loop = loop
        self._talk = loop.talk
        self._executor = executor
        self._recorder = recorder
        self._turns: dict[tuple[str, str], Turn[Any]] = {}
        """Where calls run in this process, by turn and call."""
        self._lost: dict[tuple[str, str], Result] = {}
        """Results for calls another process left, by turn and call."""
        self._news = anyio.Event()
        self.stop_reason: str | None = None
        """Why a hook ended the run, if one did."""

    def follow(self, turn: Turn[Any], calls: Iterable[AnyCall]) -> None:
        """Add the calls a turn left running. A recorded turn's calls run in no process."""
        left, kept = set(turn.background), {call.id for call in calls}
        turn.cancel(*left - kept) if left - kept else ()
        for call in calls:
            if call.id in left and not isinstance(call, TruncatedCall):
                self._talk.background.append(BackgroundCall(call, turn.id))
                if call.id in turn:
                    self._turns[turn.id, call.id] = turn

    def stop(self) -> None:
        """Stop the calls."""
        for (_, call_id), turn in self._turns.items():
            turn.cancel(call_id)
        self.wake()

    def wake(self) -> None:
        """Let the run look for news."""
        self._news.set()

    async def abandon(self) -> None:
        """Stop the calls, and wait until they have ended, whatever else is cancelled."""
        if self._turns:
            self.stop()
            with anyio.CancelScope(shield=True):
                for turn in self._turns.values():
                    await turn.ended()

    async def take(self, until: Until = "now") -> bool:
        """Add ended calls' results to the run's inbox. Returns whether any call was open."""
        if not self._talk.background:
            return False
        work = partial(self._collect, until)
        steps = None if self._recorder is None else self._recorder.steps
        text = await (work() if steps is None else steps.record("background", work))
        for turn_id, plain in json.loads(text):
            self._report(turn_id, read_result(plain))
        if text != "[]":
            await self._loop.save()
        return True

    def _report(self, turn_id: str, result: Result) -> None:
        """Add a call's result to the inbox, as a quote."""
        talk = self._talk
        ended = find_background(talk.background, turn_id, result.call_id)
        talk.background.remove(ended)
        turn = self._turns.pop((turn_id, result.call_id), None)
        if turn is not None:
            self.stop_reason = self.stop_reason or turn.stop_reason
        talk.send(report_ended(ended.call, result))

    async def _collect(self, until: Until) -> str:
        """Return ended calls' results as JSON text."""
        open_ = self._talk.background
        for turn_id in dict.fromkeys(one.turn_id for one in open_):
            lost = [one for one in open_ if one.turn_id == turn_id and not self._is_known(one)]
            if lost:
                await self._find_lost(turn_id, lost)
        if until != "now":
            await self._wait(open_, until)
        results = [(one.turn_id, await self._result_of(one)) for one in open_ if self._ended(one)]
        return json.dumps([[turn_id, write_result(result)] for turn_id, result in results])

    def _is_known(self, one: BackgroundCall) -> bool:
        key = one.turn_id, one.call.id
        return key in self._turns or key in self._lost

    def _ended(self, one: BackgroundCall) -> bool:
        turn = self._turns.get((one.turn_id, one.call.id))
        if turn is None:
            return True
        return any(
            record.call.id == one.call.id and record.result is not None for record in turn.records
        )

    async def _find_lost(self, turn_id: str, calls: Sequence[BackgroundCall]) -> None:
        """Find the results for calls whose process ended. Only safe ones run again."""
        turn, recorder = self._loop.make_turn_again(turn_id), self._recorder
        if recorder is not None:
            await recorder.begin(turn, again=True)
        for one in calls:
            key = turn_id, one.call.id
            is_safe = is_repeatable(find_called(one.call, self._executor))
            if recorder is None and not is_safe:
                self._lost[key] = unknown_result(one.call)
            else:  # a recorder knows what else cannot run again
                turn.add(one.call)
                self._turns[key] = turn

    async def _wait(self, calls: Sequence[BackgroundCall], until: Until) -> None:
        """Wait until one call or all have ended, or there is other news."""
        self._news = anyio.Event()
        if until == "one" and (self._talk.has_prompts or any(map(self._ended, calls))):
            return
        async with anyio.create_task_group() as group:

            async def wait(one: BackgroundCall) -> None:
                with suppress(KeyboardInterrupt):  # raised with the result
                    await self._turns[one.turn_id, one.call.id].result(one.call.id)
                if until == "one":
                    self._news.set()

            async def wait_for_news() -> None:
                await self._news.wait()
                group.cancel_scope.cancel()

            if until == "one":
                group.start_soon(wait_for_news)
            for one in calls:
                if not self._ended(one):
                    group.start_soon(wait, one)

    async def _result_of(self, one: BackgroundCall) -> Result:
        """Return an ended call's result. If it asks for something, it gets no answer."""
        key = one.turn_id, one.call.id
        if key not in self._turns:
            return self._lost[key]
        turn = self._turns[key]
        result = await turn.result(one.call.id)
        if result.pending is not None:
            result = await turn.dismiss(result.pending, _CANNOT_ASK)
        return result


_CANNOT_ASK = (
    "It needed an answer while it ran in the background, and no one could give it at once. It may "
    "have taken effect in part."
)
