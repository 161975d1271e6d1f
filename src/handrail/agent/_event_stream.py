"""Watch a run: its text, its calls and its questions, as they happen."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, cast

import anyio
from anyio.abc import TaskGroup

from handrail import Executor
from handrail.agent._history.state import RunState
from handrail.agent._loop.events import CallEvent, InnerEvent, ModelEvent, OnEvent
from handrail.agent._loop.settings import RunResult, T
from handrail.agent._run import Run
from handrail.events import Asked, Finished, Progressed, Requested, Started, Yielded
from handrail.messages import ArgsDelta, Content, Delta, Reply, Restart
from handrail.permissions import Answer, Approver, Pending

StreamEvent: TypeAlias = ModelEvent | CallEvent | InnerEvent | RunResult[T]
"""An event of a streamed run. The last one is the RunResult."""
_CALL_EVENTS = (Requested, Asked, Started, Progressed, Yielded, Finished)


class EventStream(Generic[T]):
    """The events of a run. Enter it to start the run, iterate over it, and answer its questions.

    Leaving the block early cancels the run. Its ``state`` can be resumed.
    """

    def __init__(
        self, executor: Executor, make_run: Callable[[OnEvent, Approver | None], Run[T]]
    ) -> None:
        self._feed = executor.events()
        asks_here = executor.approver is None
        self._run = make_run(self._feed.insert, self._ask if asks_here else None)
        run_id = self._run.state.run_id
        self._turns = executor.turn("", run=run_id).key
        self._group: TaskGroup | None = None
        self._result: RunResult[T] | None = None
        self._error: Exception | None = None
        self._ended = anyio.Event()
        self._is_over = False
        self._shown: set[str] = set()
        self._answers: dict[str, Answer | None] = {}
        self._asking: dict[str, anyio.Event] = {}

    @property
    def state(self) -> RunState:
        """The current state of the run. Pass it to ``Agent.resume`` to continue."""
        return self._run.state

    @property
    def result(self) -> RunResult[T]:
        """The result of the run, once it has ended."""
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
        """Answer the question of an Asked event, before you read the next event.

        A question without an answer stays open: the run ends as ``pending``, and you can answer it
        when you resume.
        """
        self._settle(pending.id, answer)

    async def __aenter__(self) -> Self:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(self._work)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._group is not None  # noqa: S101  it was entered
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)  # an error of the block stays as it is

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent[T]:
        if self._group is None:
            raise RuntimeError("Start the run first: `async with agent.stream(...) as events`.")
        for pending_id in self._shown:
            self._settle(pending_id, None)
        self._shown.clear()
        async for event in self._feed:
            if not self._belongs(event):
                continue
            self._note_question(event)
            return cast("StreamEvent[T]", event)
        return await self._last_event()

    async def _last_event(self) -> RunResult[T]:
        """Return the result, once. Raises the exception of a run that failed."""
        await self._ended.wait()
        if self._is_over or self._error is not None:
            error, self._error = self._error, None
            raise error or StopAsyncIteration
        self._is_over = True
        return self.result

    def _belongs(self, event: Any) -> bool:
        """Whether an event is one of this run, and of a kind that is shown."""
        if isinstance(event, _CALL_EVENTS):
            return event.turn.startswith(self._turns)
        return isinstance(event, Delta | ArgsDelta | Restart | Reply | InnerEvent)

    def _note_question(self, event: Any) -> None:
        """Note that a question is shown now, of this run or of a sub-agent."""
        while isinstance(event, InnerEvent):
            event = event.event
        if isinstance(event, Asked):
            self._shown.add(event.pending.id)

    async def _work(self) -> None:
        try:
            self._result = await self._run
        except Exception as error:  # noqa: BLE001  raised where the events are read
            self._error = error
        finally:
            self._feed.close()
            self._ended.set()

    async def _ask(self, pending: Pending) -> Answer | Pending:
        """Wait until the question was shown, and answered or passed over."""
        if pending.id not in self._answers:
            self._asking[pending.id] = anyio.Event()
            await self._asking[pending.id].wait()
        return self._answers[pending.id] or pending

    def _settle(self, pending_id: str, answer: Answer | None) -> None:
        self._answers.setdefault(pending_id, answer)
        if pending_id in self._asking:
            self._asking[pending_id].set()
