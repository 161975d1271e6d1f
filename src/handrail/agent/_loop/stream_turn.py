"""Take a turn with a model that streams: calls start while the reply still arrives."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Protocol

import anyio

from handrail import READ, Call, Executor, Result, Turn
from handrail._support import close_generator
from handrail.agent._history.conversation import Conversation
from handrail.agent._history.state import find_called
from handrail.agent._loop.events import RunEvent
from handrail.agent._loop.model_stream import await_any, expect_reply
from handrail.agent._loop.recorder import Recorder, record_turn
from handrail.agent._loop.streamed_reply import StreamedReply
from handrail.messages import (
    ArgsDelta,
    Delta,
    ModelError,
    Reply,
    Restart,
    StreamItem,
    collect,
)


class StreamLoop(Protocol):
    """The part of the loop a streamed turn uses."""

    talk: Conversation
    stopped_by: Any

    def wait_for_model(self, cancel: Callable[[], None]) -> None:
        """Record how to cancel the model."""
        ...

    def can_run(self, call: Call) -> bool:
        """Whether to pass a call to the executor."""
        ...

    def add_reply(self, reply: Reply) -> Sequence[Call]:
        """Add a reply, and return its complete calls."""
        ...

    async def show(self, event: RunEvent) -> None:
        """Tell the listener about an event, and let it run."""
        ...

    async def save(self) -> None:
        """Save the state."""
        ...


class StreamTurn:
    """One turn with a streaming model."""

    def __init__(
        self, loop: StreamLoop, executor: Executor, turn: Turn[Any], streamed: StreamedReply
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._turn = turn
        self._streamed = streamed

    async def take(
        self, pieces: AsyncIterator[StreamItem], recorder: Recorder | None
    ) -> Sequence[Result] | None:
        """Return the results from calls, or None if there is no reply."""
        talk = self._loop.talk
        before, calls = talk.turns, self._calls_in(pieces)
        try:
            run = partial(self._executor.run_all, calls, turn=self._turn, background=True)
            ran = await record_turn(recorder, talk, self._turn, run)
        except BaseException:  # the stream failed, or the task was cancelled
            self._discard(await self._turn.results())
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await close_generator(pieces)
        self._discard(ran)
        return None if talk.turns == before else ran

    async def _calls_in(self, pieces: AsyncIterator[StreamItem]) -> AsyncGenerator[Call]:
        """Yield each complete call in a reply. Calls that only read start immediately.

        The reply is added and saved before the other calls start.
        """
        loop, streamed = self._loop, self._streamed
        early: set[str] = set()
        reply: Reply | None = None
        while reply is None and not loop.stopped_by:
            piece = await collect(await_any(anext(pieces, None)), loop.wait_for_model)
            if isinstance(piece, Call):
                call = streamed.add(piece)
                early.add(call.id)
                if loop.can_run(call):
                    yield call
            else:
                reply = await self._receive(piece)
        reply = streamed.partial() if reply is None else streamed.match(reply)
        for call in () if reply is None else await self._take_reply(reply):
            if call.id not in early and loop.can_run(call):
                yield call

    async def _receive(self, piece: object) -> Reply | None:
        """Receive some text, or the reply ending the stream."""
        if isinstance(piece, Delta | ArgsDelta | Restart):
            self._streamed.add_piece(piece)
            await self._loop.show(piece)
            return None
        if piece is None and not self._loop.stopped_by:
            raise ModelError("The model's stream ended without a Reply.")
        return expect_reply(piece, cancelled=bool(self._loop.stopped_by))

    async def _take_reply(self, reply: Reply) -> Sequence[Call]:
        """Add and save the reply. Early calls it does not have are cancelled."""
        if unmatched := self._streamed.early:
            self._turn.cancel(*[call.id for call in unmatched])
        calls = self._loop.add_reply(reply)
        await self._loop.save()
        return calls

    def _discard(self, ran: Sequence[Result]) -> None:
        """Record the early calls in no reply. Only calls that read can have started."""
        if early := self._streamed.early:
            executor, results = self._executor, {result.call_id: result for result in ran}
            found = [(call, find_called(call, executor)) for call in early if call.id in results]
            read = [call for call, tool in found if tool and tool.spec.effect == READ]
            self._loop.talk.discard((call, results[call.id]) for call in read)
