"""Watch a run: its text, its calls and its questions, as they happen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextvars import copy_context
from functools import cached_property
from typing import Any, Generic, Self, TypeAlias, cast
from urllib.parse import unquote

import anyio

from handrail import Executor
from handrail._support.loop import spawn
from handrail.agent._history.state import RunState
from handrail.agent._loop.events import CallEvent, InnerEvent, ModelEvent, OnEvent, RunEvent
from handrail.agent._loop.settings import RunResult, T
from handrail.agent._run import Run
from handrail.events import Asked, Event, Finished, Progressed, Requested, Started, Yielded
from handrail.messages import ArgsDelta, Content, Delta, Reply, Restart
from handrail.permissions import Answer, Approver, Pending

StreamEvent: TypeAlias = ModelEvent | CallEvent | InnerEvent | RunResult[T]
"""A streamed run's event. The last one is the RunResult."""
_Question: TypeAlias = tuple[str, str]
_CALL_EVENTS = (Requested, Asked, Started, Progressed, Yielded, Finished)


class EventStream(Generic[T]):
    """A run's events. Enter it to start the run, iterate over it, and answer its questions.

    Leaving the block early cancels the run. Its ``state`` can be resumed.
    """

    def __init__(
        self, executor: Executor, make_run: Callable[[OnEvent, Approver | None], Run[T]]
    ) -> None:
        self._executor = executor
        asks_here = executor.approver is None
        self._run = make_run(self._insert, self._ask if asks_here else None)
        self._task: object = None
        self._result: RunResult[T] | None = None
        self._error: BaseException | None = None
        self._has_ended = False
        self._end: anyio.Event | None = None
        self._is_over = False
        self._shown: set[_Question] = set()
        self._answers: dict[_Question, Answer] = {}
        self._asking: dict[_Question, anyio.Event] = {}
        self._records: list[Any] = []

    @property
    def state(self) -> RunState:
        """The run's current state. Pass it to ``Agent.resume`` to continue."""
        return self._run.state

    @property
    def result(self) -> RunResult[T]:
        """The run's result, once it has ended. Raises a failed run's exception."""
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise RuntimeError("The run has not ended. Read its events to the end first.")
        return self._result

    def send(self, *parts: str | Content) -> None:
        """Add a message to the model's next turn."""
        self._run.send(*parts)

    def interrupt(self) -> None:
        """Stop the model and the running calls. The run then ends as ``interrupted``."""
        self._run.interrupt()

    def answer(self, pending: Pending, answer: Answer) -> None:
        """Answer an Asked event's question, before you read the next event.

        A question without an answer stays open: the run ends as ``pending``, and you can answer it
        when you resume.
        """
        self._settle(_question(pending), answer)

    def call_events(self) -> AsyncIterator[Event]:
        """Return all events of the run's calls from now on, such as for a record.

        Iterating over the stream shows the most important ones. This feed has the others, too:
        decisions, waiting, attempts. It ends with the run.
        """
        feed = self._executor.events()
        self._records.append(feed)
        return (event async for event in feed if self._calls_around(event.turn) is not None)

    async def __aenter__(self) -> Self:
        self._feed = self._executor.events()
        self._scope = anyio.CancelScope()
        self._task = spawn(copy_context(), self._work, lost=self._note_end)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._wait_for_end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent[T]:
        if self._task is None:
            raise RuntimeError("Start the run first: `async with agent.stream(...) as events`.")
        for question in self._shown:
            self._settle(question, None)
        self._shown.clear()
        async for event in self._feed:
            own = self._find_own(event)
            if own is None:
                continue
            self._note_question(own)
            return cast("StreamEvent[T]", own)
        return await self._last_event()

    async def _last_event(self) -> RunResult[T]:
        """Return the result, once. Raises a failed run's exception."""
        await self._wait_for_end()
        if self._is_over:
            raise StopAsyncIteration
        self._is_over = True
        return self.result

    async def _wait_for_end(self) -> None:
        if not self._has_ended:
            self._end = self._end or anyio.Event()
            await self._end.wait()

    @cached_property
    def _turns(self) -> str:
        """The prefix for the run's turn keys."""
        return self._executor.turn("", run=self._run.state.run_id).key

    def _find_own(self, event: Any) -> Any:
        """Return this run's event, if its kind is shown. An inner call's event is inside."""
        if isinstance(event, _CALL_EVENTS):
            calls = self._calls_around(event.turn)
            found: Any = event
            for call in calls or ():
                found = InnerEvent(call, found)
            return None if calls is None else found
        return (
            event if isinstance(event, Delta | ArgsDelta | Restart | Reply | InnerEvent) else None
        )

    def _calls_around(self, key: str) -> list[str] | None:
        """Return the calls around a turn, the innermost first; None for another run's turn."""
        calls: list[str] = []
        while not key.startswith(self._turns):
            owner, _, turn = key.rpartition("/")
            if not turn.startswith("."):  # as in ids for turns made by tools
                return None
            key, _, call = unquote(owner).rpartition("/")
            calls.append(unquote(call.partition("#")[0]))
        return calls

    def _note_question(self, event: Any) -> None:
        """Note that this run or a sub-agent shows a question now."""
        while isinstance(event, InnerEvent):
            event = event.event
        if isinstance(event, Asked) and (question := _question(event.pending)) in self._asking:
            self._shown.add(question)

    async def _work(self) -> None:
        try:
            with self._scope:
                self._result = await self._run
        except (anyio.get_cancelled_exc_class(), GeneratorExit):
            raise  # the event loop ends
        except BaseException as error:  # noqa: BLE001  raised where the events are read
            self._error = error
        finally:
            self._note_end()

    def _note_end(self) -> None:
        for feed in (self._feed, *self._records):
            feed.close()
        self._has_ended = True
        if self._end is not None:
            self._end.set()

    async def _ask(self, pending: Pending) -> Answer | Pending:
        """Wait until the question was shown, and answered or passed over."""
        question = _question(pending)
        settled = self._asking[question] = anyio.Event()
        await settled.wait()
        return self._answers.pop(question, pending)

    def _settle(self, question: _Question, answer: Answer | None) -> None:
        """Answer this run's question, or pass it over. Later answers to it are ignored.

        Another run with the same id can ask in the same executor: its questions are not asked here.
        """
        settled = self._asking.pop(question, None)
        if settled is not None:
            if answer is not None:
                self._answers[question] = answer
            settled.set()

    def _insert(self, event: RunEvent) -> None:
        self._feed.insert(event)


def _question(pending: Pending) -> _Question:
    """Return what an answer is tied to: the request, and exactly its call."""
    return pending.id, pending.fingerprint
