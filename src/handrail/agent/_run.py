"""One run: a model calls tools until it answers, needs approval or reaches a limit."""

from __future__ import annotations

import uuid
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Mapping,
    Sequence,
)
from operator import attrgetter
from types import CoroutineType
from typing import Any, Generic, TypeVar, cast

import anyio

from handrail import Call, Executor, Result, Text, Turn
from handrail.agent._limits import StoppedBy
from handrail.agent._model_stream import await_any, close_stream, expect_reply
from handrail.agent._resume import Resumption
from handrail.agent._settings import OnEvent, RunResult, RunSettings
from handrail.agent._state import (
    AnyCall,
    RunState,
    is_repeatable,
    not_started_result,
    over_limit_result,
    requests,
    unknown_result,
)
from handrail.messages import (
    NO_USAGE,
    Content,
    Delta,
    Message,
    ModelError,
    Prompt,
    Reply,
    Request,
    StreamItem,
    ToolResults,
    TruncatedCall,
    collect,
)
from handrail.permissions import Answer

T = TypeVar("T")


class Run(Generic[T]):
    """A run of an agent. Await it for its RunResult. Its state can be saved at any time."""

    def __init__(  # noqa: PLR0913  called only by Agent
        self,
        settings: RunSettings[T],
        executor: Executor,
        state: RunState,
        *,
        prompt: Prompt | None,
        answers: Mapping[str, Answer],
        own: bool,
        on_event: OnEvent | None,
    ) -> None:
        self._settings = settings
        self._executor = executor
        self._answers = answers
        self._own = own
        self._on_event = on_event
        self._cancel_model: Callable[[], None] | None = None
        self._turn: Turn[None] | None = None
        self._stopped_by: StoppedBy | None = None
        self._output: tuple[T] | None = None
        self._unanswered: Sequence[AnyCall] = ()
        # a state is built on request: a short run builds only the last one
        messages, self._waiting, inbox, self._usage, self._turns, self._calls, run_id = state
        self._id = run_id or uuid.uuid4().hex
        self._messages: list[Message] = [*messages] if prompt is None else [*messages, prompt]
        self._inbox: list[Prompt] = [*inbox]

    @property
    def state(self) -> RunState:
        """The current state of the run. Pass it to ``Agent.resume`` to continue."""
        messages, inbox = tuple(self._messages), tuple(self._inbox)
        counts = self._usage, self._turns, self._calls
        return RunState(messages, self._waiting, inbox, *counts, self._id)

    def send(self, *parts: str | Content) -> None:
        """Add a message to the model's next turn."""
        self._inbox.append(Prompt.of(*parts))

    def interrupt(self) -> None:
        """Stop the model and the running calls. The run then ends as ``interrupted``."""
        self._stop("interrupted")

    def __await__(self) -> Generator[Any, Any, RunResult[T]]:
        bounded = self._own or self._settings.limits.seconds is not None
        return (self._run_bounded() if bounded else self._run_turns()).__await__()

    async def _run_bounded(self) -> RunResult[T]:
        """Run with an own executor, a time limit, or both."""
        if not self._own:
            return await self._run_in_time()
        async with self._executor:
            return await self._run_in_time()

    async def _run_in_time(self) -> RunResult[T]:
        seconds = self._settings.limits.seconds
        if seconds is None:
            return await self._run_turns()
        failed: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._stop_after, seconds)
            try:
                await self._run_turns()
            except Exception as error:  # noqa: BLE001  raised below, outside of the group
                failed = error
            group.cancel_scope.cancel()
        if failed is not None:
            raise failed
        return self._make_done()

    async def _stop_after(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        self._stop("seconds")

    def _stop(self, by: StoppedBy) -> None:
        self._stopped_by = self._stopped_by or by
        if self._cancel_model is not None:
            self._cancel_model()
        if self._turn is not None:
            self._turn.cancel()

    async def _run_turns(self) -> RunResult[T]:
        last = self._messages[-1] if self._messages else None
        if self._waiting:
            await self._resume_waiting()
        elif type(last) is not Prompt:
            await self._resume_reply(last)
        while self._should_continue():
            await self._take_turn()
        return self._make_done()

    def _should_continue(self) -> bool:
        """Whether to send another request to the model."""
        over = self._waiting or self._output is not None or self._stopped_by or self._stop_reason
        if over or self._is_at_rest():
            return False
        self._stopped_by = self._settings.limits.over(self._turns, self._calls, self._usage)
        return not self._stopped_by

    def _is_at_rest(self) -> bool:
        """Whether the last message is the model's, and it is a final answer."""
        if self._inbox:
            self._messages += self._inbox
            self._inbox = []
        if not self._messages:
            raise ValueError("The run has no messages. Pass a prompt.")
        if type(self._messages[-1]) is not Reply:
            return False
        if self._settings.final is None:
            return True
        self._messages.append(Prompt.of(self._settings.final.reminder))
        return False

    @property
    def _stop_reason(self) -> str | None:
        """Why a hook ended the run, or None."""
        return None if self._turn is None else self._turn.stop_reason

    def _make_done(self) -> RunResult[T]:
        output = None if self._output is None else self._output[0]
        if self._stop_reason is not None:
            return RunResult("stopped", self.state, output, self._stop_reason)
        if self._waiting:
            return RunResult("pending", self.state)
        stopped_by = self._stopped_by
        if self._output is not None or stopped_by is None:
            return RunResult("answer", self.state, output)
        if stopped_by == "interrupted":
            return RunResult("interrupted", self.state)
        why = self._settings.limits.describe(stopped_by)
        return RunResult("limit", self.state, stop_detail=why, limit=stopped_by)

    def _take_turn(self) -> Awaitable[None]:
        """Send one request to the model, and run the calls in its reply."""
        settings, tools = self._settings, self._executor.refresh_tools()
        self._turn = turn = self._executor.turn(str(self._turns + 1), run=self._id)
        if settings.final is not None:
            tools = settings.final.add_to(tools)
        messages = tuple(self._messages)
        answer = settings.model(Request(messages, tools, settings.system, settings.max_tokens))
        if isinstance(answer, _COROUTINE):
            return self._take_whole_reply(answer, turn)
        if isinstance(answer, AsyncIterator):
            return self._take_stream(answer, turn)
        return self._take_whole_reply(await_any(answer), turn)

    async def _take_whole_reply(self, answer: Any, turn: Turn[None]) -> None:
        """Take a turn with a model that does not stream."""
        collected = await collect(answer, self._wait_for_model)
        reply = expect_reply(collected, cancelled=bool(self._stopped_by))
        if reply is None:
            return
        calls = self._add_reply(reply)
        await self._save()
        if self._unanswered:
            started = self._select_calls(calls)
            ran = await self._executor.run_all(started, turn=turn) if started else []
            await self._finish_turn(started, ran)

    def _select_calls(self, calls: Sequence[Call]) -> Sequence[Call]:
        """Select the calls of a reply to pass to the executor."""
        settings = self._settings
        if not self._stopped_by and settings.final is None and settings.limits.calls is None:
            return calls
        return [call for number, call in enumerate(calls, 1) if self._can_run(call, number)]

    def _wait_for_model(self, cancel: Callable[[], None]) -> None:
        """Record how to cancel the model while the run waits for it."""
        self._cancel_model = cancel
        if self._stopped_by:  # the model itself has interrupted the run
            cancel()

    async def _take_stream(self, pieces: AsyncIterator[StreamItem], turn: Turn[None]) -> None:
        before = len(self._messages)
        started: list[Call] = []
        try:
            ran = await self._executor.run_all(self._calls_in(pieces, started), turn=turn)
        finally:
            with anyio.CancelScope(shield=True):
                await close_stream(pieces)
        if len(self._messages) > before and self._unanswered:
            await self._finish_turn(started, ran)

    async def _calls_in(
        self, pieces: AsyncIterator[StreamItem], started: list[Call]
    ) -> AsyncGenerator[Call]:
        """Yield each call of a reply when it is complete. Calls that only read start immediately.

        The reply is added and saved before the other calls start.
        """
        texts: list[str] = []
        received: list[Call] = []
        self._unanswered, reply = received, None
        while reply is None and not self._stopped_by:
            piece = await collect(await_any(anext(pieces, None)), self._wait_for_model)
            if isinstance(piece, Delta):
                self._add_delta(piece, texts)
            elif isinstance(piece, Call):
                received.append(piece)
                if self._can_run(piece, len(received)):
                    started.append(piece)
                    yield piece
            else:
                reply = self._last_reply(piece, texts, received)
        reply = reply or self._last_reply(None, texts, received)
        if reply is not None:
            calls = self._add_reply(reply)
            await self._save()
            for number, call in enumerate(calls[len(received) :], len(received) + 1):
                if self._can_run(call, number):  # the stream had only the reply
                    started.append(call)
                    yield call

    def _add_delta(self, piece: Delta, texts: list[str]) -> None:
        if not piece.thought:
            texts.append(piece.text)
        if self._on_event is not None:
            self._on_event(piece)

    def _last_reply(self, piece: object, texts: list[str], received: list[Call]) -> Reply | None:
        """Return the reply that ends a stream, or the received part if it was interrupted."""
        if piece is not None:
            return expect_reply(piece, cancelled=False)
        if not self._stopped_by:
            raise ModelError("The model's stream ended without a Reply.")
        text = [Text("".join(texts))] if texts else []
        return Reply((*text, *received), "other") if text or received else None

    def _add_reply(self, reply: Reply) -> Sequence[Call]:
        """Add a reply to the run, and return its complete calls."""
        self._unanswered = all_calls = requests(reply)
        calls = [call for call in all_calls if type(call) is Call]
        self._messages.append(reply)
        self._turns += 1
        self._calls += len(calls)
        if reply.usage is not NO_USAGE:
            self._usage += reply.usage
        if self._on_event is not None:
            self._on_event(reply)
        return calls

    def _can_run(self, call: Call, number: int) -> bool:
        """Whether to pass a call to the executor. ``number`` is its position in the reply."""
        return not self._stopped_by and not self._is_final(call) and not self._is_too_many(number)

    def _is_final(self, call: Call) -> bool:
        return self._settings.final is not None and call.name == self._settings.final.name

    def _is_too_many(self, number: int) -> bool:
        most, last = self._settings.limits.calls, self._messages[-1]
        counted = len(last.calls) if isinstance(last, Reply) else 0  # calls of the last reply
        return most is not None and self._calls - counted + number > most

    async def _finish_turn(
        self, started: Sequence[Call], ran: Sequence[Result], *, again: bool = False
    ) -> None:
        """Add a result for each call of the last reply: from the executor, or our own."""
        all_ran = len(ran) == len(self._unanswered)
        self._add_results(tuple(ran) if all_ran else self._complete(started, ran, again=again))
        await self._save()

    def _complete(
        self, started: Sequence[Call], ran: Sequence[Result], *, again: bool
    ) -> tuple[Result, ...]:
        results: list[Result] = []
        number = place = 0
        for call in self._unanswered:
            number += isinstance(call, Call)
            if place < len(started) and call == started[place]:
                results.append(ran[place])
                place += 1
            else:
                results.append(self._result_without_run(call, number, again=again))
        return tuple(results)

    def _result_without_run(self, call: AnyCall, number: int, *, again: bool) -> Result:
        """Return the result of a call that was not passed to the executor."""
        if isinstance(call, TruncatedCall):
            return unknown_result(call)
        if self._settings.final is not None and self._is_final(call):
            return self._settings.final.accept(call)[1]
        if self._is_too_many(number):
            return over_limit_result(call)
        return unknown_result(call) if again else not_started_result(call)

    async def _save(self) -> None:
        if self._settings.save is not None:
            await self._settings.save(self.state)

    def _add_results(self, results: tuple[Result, ...]) -> None:
        """Add results. The run waits if some are pending."""
        self._unanswered = ()
        message = ToolResults(results)
        if any(map(_PENDING, results)):
            self._waiting = results
        else:
            self._waiting = ()
            self._messages.append(message)
            if self._settings.final is not None:
                self._find_final_answer()
        if self._on_event is not None:
            self._on_event(message)

    def _find_final_answer(self) -> None:
        """Take the output from the last reply if it has a valid final answer."""
        final, last = self._settings.final, self._messages[-2:]
        if final is not None and [type(message) for message in last] == [Reply, ToolResults]:
            for call in cast("Reply", last[0]).calls:
                if call.name == final.name:
                    self._output = self._output or final.accept(call)[0]

    async def _resume_waiting(self) -> None:
        """Resume the pending calls that have an answer."""
        if not self._stopped_by and any(map(_PENDING, self._waiting)):
            resumed = Resumption(self._executor, self._waiting, self._answers)
            self._turn = resumed.turn
            self._add_results(await resumed.results())
            await self._save()

    async def _resume_reply(self, last: Message | None) -> None:
        """Add results to a reply without any. Calls run again only if that is safe."""
        calls_left = requests(last) if isinstance(last, Reply) else ()
        if not isinstance(last, Reply) or not calls_left:
            self._resume_idle(last)
            return
        self._unanswered = calls_left
        find = self._executor.refresh_tools().find
        calls = [call for call in self._select_calls(last.calls) if is_repeatable(find(call.name))]
        self._turn = self._executor.turn(str(self._turns), run=self._id)  # the same turn, again
        ran = await self._executor.run_all(calls, turn=self._turn)
        await self._finish_turn(calls, ran, again=True)

    def _resume_idle(self, last: Message | None) -> None:
        """Resume a run without open calls."""
        if self._inbox:
            return
        if isinstance(last, Reply) and last.stop == "other":  # the reply is incomplete
            self._messages.append(Prompt.of(_CONTINUE))
        self._find_final_answer()


_COROUTINE: Any = CoroutineType
"""Most models return one; isinstance is fast for a concrete class."""
_PENDING = attrgetter("pending")
_CONTINUE = "You were interrupted. Continue."
