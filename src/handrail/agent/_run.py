"""One run: a model calls tools until it answers, needs approval or reaches a limit."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from operator import attrgetter
from types import CoroutineType
from typing import Any, Generic, TypeVar, cast

import anyio

from handrail import READ, Call, Executor, Result, Turn
from handrail.agent._conversation import Conversation
from handrail.agent._limits import CallBudget, LimitName, StoppedBy
from handrail.agent._model_stream import await_any, close_stream, expect_reply, run_within
from handrail.agent._next_step import Attempts, NextStep, find_next_step
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
from handrail.agent._streamed_reply import StreamedReply
from handrail.messages import (
    Content,
    Delta,
    Message,
    ModelError,
    Prompt,
    Reply,
    Request,
    RequiredTool,
    StreamItem,
    ToolChoice,
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
        self._talk = Conversation(state, prompt)
        self._cancel_model: Callable[[], None] | None = None
        self._turn: Turn[None] | None = None
        self._stopped_by: StoppedBy | None = None
        self._limit: LimitName | None = None
        self._output: tuple[T] | None = None
        self._attempts = Attempts(settings.retries)
        self._must_answer = False
        self._unanswered: Sequence[AnyCall] = ()
        self._budget = CallBudget(settings.limits, 0)

    @property
    def state(self) -> RunState:
        """The current state of the run. Pass it to ``Agent.resume`` to continue."""
        return self._talk.state

    def send(self, *parts: str | Content) -> None:
        """Add a message to the model's next turn."""
        self._talk.send(Prompt.of(*parts))

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
        return await run_within(seconds, self._run_turns, lambda: self._stop("seconds"))

    def _stop(self, by: StoppedBy) -> None:
        self._stopped_by = self._stopped_by or by
        if self._cancel_model is not None:
            self._cancel_model()
        if self._turn is not None:
            self._turn.cancel()

    async def _run_turns(self) -> RunResult[T]:
        last = self._talk.last
        if self._talk.waiting:
            await self._resume_waiting()
        elif type(last) is not Prompt:
            await self._resume_reply(last)
        while self._should_continue():
            await self._take_turn()
        return self._make_done()

    def _should_continue(self) -> bool:
        """Whether to send another request to the model."""
        talk = self._talk
        over = self._output is not None or self._stopped_by or self._limit or self._attempts.ended
        if talk.waiting or over or self._stop_reason or self._is_at_rest():
            return False
        limits = self._settings.limits
        self._limit = limits.over(talk.spent, talk.before)
        return not self._limit or (limits.last_word and type(talk.last) is ToolResults)

    def _is_at_rest(self) -> bool:
        """Whether the last message is the model's, and nothing more is to be asked."""
        talk = self._talk
        if talk.has_prompts:
            talk.take_prompts()
            self._attempts.reset()
        if not talk.messages:
            raise ValueError("The run has no messages. Pass a prompt.")
        last, final = talk.messages[-1], self._settings.final
        if type(last) is not Reply or last.stop == "paused":
            return False
        step = find_next_step(last)
        if step.problem is None:
            if final is None:
                return True
            step = NextStep("invalid", final.reminder, final.missing)
        prompt = self._attempts.prompt_after(step)
        if prompt is None:
            return True
        self._must_answer = final is not None
        talk.messages.append(Prompt.of(prompt))
        return False

    @property
    def _stop_reason(self) -> str | None:
        """Why a hook ended the run, or None."""
        return None if self._turn is None else self._turn.stop_reason

    def _make_done(self) -> RunResult[T]:
        state, output = self.state, None if self._output is None else self._output[0]
        if self._stop_reason is not None:
            return RunResult("stopped", state, output, self._stop_reason)
        if state.waiting:
            return RunResult("pending", state)
        if self._stopped_by == "interrupted" and self._output is None:
            return RunResult("interrupted", state)
        limit = self._limit or (None if self._output else self._stopped_by)
        if limit is not None:
            why = self._settings.limits.describe(cast("LimitName", limit))
            return RunResult("limit", state, output, why, cast("LimitName", limit))
        if (ended := self._attempts.ended) is not None and ended.problem is not None:
            return RunResult(ended.problem, state, stop_detail=ended.detail)
        return RunResult("answer", state, output)

    def _take_turn(self) -> Awaitable[None]:
        """Send one request to the model, and run the calls in its reply."""
        settings, tools = self._settings, self._executor.refresh_tools()
        talk = self._talk
        self._turn = turn = self._executor.turn(str(talk.turns + 1), run=talk.run_id)
        self._budget = CallBudget(settings.limits, talk.calls - talk.before.calls)
        if settings.final is not None:
            tools = settings.final.add_to(tools)
        asked = tuple(talk.messages), tools, settings.system, settings.max_tokens
        answer = settings.model(Request(*asked, self._choose_tools()))
        if isinstance(answer, _COROUTINE):
            return self._take_whole_reply(answer, turn)
        if isinstance(answer, AsyncIterator):
            return self._take_stream(answer, turn)
        return self._take_whole_reply(await_any(answer), turn)

    def _choose_tools(self) -> ToolChoice:
        final, must = self._settings.final, self._must_answer
        self._must_answer = False
        if final is not None and (must or self._limit):
            return RequiredTool(final.name)
        return "none" if self._limit else "auto"

    async def _take_whole_reply(self, answer: Any, turn: Turn[None]) -> None:
        """Take a turn with a model that does not stream."""
        collected = await collect(answer, self._wait_for_model)
        reply = expect_reply(collected, cancelled=bool(self._stopped_by))
        if reply is None:
            return
        calls = self._add_reply(StreamedReply().match(reply)[0])
        await self._save()
        if self._unanswered:
            started = [call for call in calls if self._can_run(call)]
            ran = await self._executor.run_all(started, turn=turn) if started else []
            await self._finish_turn(ran)

    def _wait_for_model(self, cancel: Callable[[], None]) -> None:
        """Record how to cancel the model while the run waits for it."""
        self._cancel_model = cancel
        if self._stopped_by:  # the model itself has interrupted the run
            cancel()

    async def _take_stream(self, pieces: AsyncIterator[StreamItem], turn: Turn[None]) -> None:
        before, streamed = self._talk.turns, StreamedReply()
        try:
            ran = await self._executor.run_all(self._calls_in(pieces, streamed, turn), turn=turn)
        except Exception:  # the stream failed
            self._discard(streamed.early, await turn.results())
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await close_stream(pieces)
        if self._talk.turns > before:
            self._discard(streamed.early, ran)
            if self._unanswered:
                await self._finish_turn(ran)

    async def _calls_in(
        self, pieces: AsyncIterator[StreamItem], streamed: StreamedReply, turn: Turn[None]
    ) -> AsyncGenerator[Call]:
        """Yield each call of a reply when it is complete. Calls that only read start immediately.

        The reply is added and saved before the other calls start.
        """
        early: set[str] = set()
        reply: Reply | None = None
        while reply is None and not self._stopped_by:
            piece = await collect(await_any(anext(pieces, None)), self._wait_for_model)
            if isinstance(piece, Call):
                call = streamed.add(piece)
                early.add(call.id)
                if self._can_run(call):
                    yield call
            else:
                reply = self._receive(piece, streamed)
        reply = reply or streamed.partial()
        for call in () if reply is None else await self._take_reply(reply, streamed, turn):
            if call.id not in early and self._can_run(call):
                yield call

    def _receive(self, piece: object, streamed: StreamedReply) -> Reply | None:
        """Receive a piece of text, or the reply that ends the stream."""
        if isinstance(piece, Delta):
            if not piece.thought:
                streamed.add_text(piece.text)
            if self._on_event is not None:
                self._on_event(piece)
            return None
        if piece is None and not self._stopped_by:
            raise ModelError("The model's stream ended without a Reply.")
        return expect_reply(piece, cancelled=bool(self._stopped_by))

    async def _take_reply(
        self, reply: Reply, streamed: StreamedReply, turn: Turn[None]
    ) -> Sequence[Call]:
        """Add and save the reply of a stream. Early calls that it does not have are cancelled."""
        reply, unmatched = streamed.match(reply)
        if unmatched:
            turn.cancel(*[call.id for call in unmatched])
        calls = self._add_reply(reply)
        await self._save()
        return calls

    def _discard(self, early: Sequence[Call], ran: Sequence[Result]) -> None:
        """Record the early calls that are in no reply. Only calls that read can have started."""
        if early:
            find, results = self._executor.tools.find, {result.call_id: result for result in ran}
            found = [(call, find(call.name)) for call in early if call.id in results]
            read = [call for call, tool in found if tool and tool.spec.effect == READ]
            self._talk.discard((call, results[call.id]) for call in read)

    def _add_reply(self, reply: Reply) -> Sequence[Call]:
        """Add a reply to the run, and return its complete calls."""
        self._unanswered = all_calls = requests(reply)
        calls = [call for call in all_calls if type(call) is Call]
        if self._limit and not all_calls and reply.stop == "end":
            reply = replace(reply, stop="other")  # the last word, and not the end of the work
        self._talk.add_reply(reply, len(calls))
        if self._on_event is not None:
            self._on_event(reply)
        return calls

    def _can_run(self, call: Call) -> bool:
        """Whether to pass a call to the executor."""
        if self._stopped_by or self._is_final(call):
            return False
        return self._budget.take(call.id, nothing_left=bool(self._limit))

    def _is_final(self, call: Call) -> bool:
        return self._settings.final is not None and call.name == self._settings.final.name

    async def _finish_turn(self, ran: Sequence[Result], *, again: bool = False) -> None:
        """Add a result for each call of the last reply: from the executor, or our own."""
        results = {result.call_id: result for result in ran}
        complete = [
            results.get(call.id) or self._result_without_run(call, again=again)
            for call in self._unanswered
        ]
        self._add_results(tuple(complete))
        await self._save()

    def _result_without_run(self, call: AnyCall, *, again: bool) -> Result:
        """Return the result of a call that was not passed to the executor."""
        if isinstance(call, TruncatedCall):
            return unknown_result(call)
        if (final := self._settings.final) is not None and call.name == final.name:
            return final.accept(call)[1]
        if call.id in self._budget.refused:
            return over_limit_result(call)
        return unknown_result(call) if again else not_started_result(call)

    async def _save(self) -> None:
        if self._settings.save is not None:
            await self._settings.save(self.state)

    def _add_results(self, results: tuple[Result, ...]) -> None:
        """Add results. The run waits if some are pending."""
        self._unanswered = ()
        pending = any(map(_PENDING, results))
        message = self._talk.add_results(results, pending=pending)
        if not pending:
            self._look_for_answer()
        if self._on_event is not None:
            self._on_event(message)

    def _look_for_answer(self) -> None:
        """Take the output from the last reply if it has a valid final answer."""
        final, last = self._settings.final, self._talk.messages[-2:]
        if [type(message) for message in last] != [Reply, ToolResults]:
            return
        reply = cast("Reply", last[0])
        if final is not None:
            answers = [call for call in reply.calls if call.name == final.name]
            for call in answers:
                self._output = self._output or final.accept(call)[0]
        if self._output is None:
            self._attempts.count_calls(reply, None if final is None else final.name)

    async def _resume_waiting(self) -> None:
        """Resume the pending calls that have an answer."""
        if not self._stopped_by and any(map(_PENDING, self._talk.waiting)):
            resumed = Resumption(self._executor, self._talk.waiting, self._answers)
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
        spent_before = self._talk.calls - self._talk.before.calls - len(last.calls)
        self._budget = CallBudget(self._settings.limits, spent_before)
        allowed = [call for call in last.calls if self._can_run(call)]
        calls = [call for call in allowed if is_repeatable(find(call.name))]
        turn = self._executor.turn(str(self._talk.turns), run=self._talk.run_id)
        self._turn = turn  # the same turn, again
        await self._finish_turn(await self._executor.run_all(calls, turn=turn), again=True)

    def _resume_idle(self, last: Message | None) -> None:
        """Resume a run without open calls."""
        if self._talk.has_prompts:
            return
        if isinstance(last, Reply) and last.stop == "other":  # the reply is incomplete
            self._talk.messages.append(Prompt.of(_CONTINUE))
        self._look_for_answer()


_COROUTINE: Any = CoroutineType
"""Most models return one; isinstance is fast for a concrete class."""
_PENDING = attrgetter("pending")
_CONTINUE = "You were interrupted. Continue."
