"""A run's loop: a model calls tools until it answers, needs approval or reaches a limit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar, cast

from handrail import Call, Executor, Result, Toolset, Turn
from handrail._support.loop import checkpoint
from handrail.agent._history.compaction import shorten
from handrail.agent._history.conversation import Conversation
from handrail.agent._history.state import (
    AnyCall,
    RunState,
    find_called,
    is_repeatable,
    requests,
    result_without_run,
)
from handrail.agent._history.window import Window
from handrail.agent._loop.background import Background
from handrail.agent._loop.events import RunEvent
from handrail.agent._loop.heard import listen
from handrail.agent._loop.limits import CallBudget, StoppedBy
from handrail.agent._loop.live_runs import set_run
from handrail.agent._loop.model_stream import (
    USE_COMPACTION,
    ask_for_summary,
    await_any,
    expect_reply,
    settle,
)
from handrail.agent._loop.next_step import Attempts, NextStep, find_next_step
from handrail.agent._loop.recorder import has_rows, hide_pieces, record_turn
from handrail.agent._loop.resume import Resumption
from handrail.agent._loop.settings import (
    RunOptions,
    RunResult,
    RunSettings,
    SystemPrompt,
    make_result,
)
from handrail.agent._loop.spending import Reached, Spending
from handrail.agent._loop.stream_turn import StreamTurn
from handrail.agent._loop.streamed_reply import StreamedReply
from handrail.messages import (
    Delta,
    Message,
    ModelError,
    Prompt,
    Reply,
    Request,
    RequiredTool,
    ToolChoice,
    ToolResults,
    TruncatedCall,
    collect,
    find_loaded_tools,
)

T = TypeVar("T")


class Loop(Generic[T]):
    """Asks the model, runs its reply's calls, and asks again."""

    def __init__(
        self, settings: RunSettings[T], options: RunOptions, executor: Executor, state: RunState
    ) -> None:
        self._settings = settings
        self._options = options
        self._executor = executor
        self.talk = Conversation(state, options.answers)
        fixed = settings.system if isinstance(settings.system, str) else None
        self.heard = listen(self.talk, fixed, caller=options.caller)
        self.spending = Spending(self.talk, settings, options.parent)
        self.budgets = options.budgets
        self.stopped_by: StoppedBy | None = None
        self._system = fixed
        self._cancel_model: Callable[[], None] | None = None
        self._turn: Turn[Any] | None = None
        self._limit: Reached | None = None
        self._output: tuple[T] | None = None
        self._attempts = Attempts(settings.retries)
        self._must_answer = False
        self._unanswered: Sequence[AnyCall] = ()
        self._budget = CallBudget(settings.limits, 0)
        compaction = settings.compaction
        self._window = None if compaction is None else Window(compaction, self.talk, executor)
        self.background = Background(self, executor, options.recorder)

    def stop(self, by: StoppedBy) -> None:
        """Stop the model and the running calls."""
        self.stopped_by = self.stopped_by or by
        if self._cancel_model is not None:
            self._cancel_model()
        if self._turn is not None:
            self._turn.cancel()
        self.background.stop()

    async def run(self) -> RunResult[T]:
        """Run until the run ends. A ModelError has the run's state."""
        outer = set_run(self)
        try:
            return await self._run_turns()
        except BaseException:
            await self.background.abandon()
            raise
        finally:
            set_run(outer)

    async def _run_turns(self) -> RunResult[T]:
        await self._find_system()
        last = self.talk.last
        try:
            if self.talk.waiting:
                await self._resume_waiting()
            elif type(last) is not Prompt:
                await self._resume_reply(last)
            while await self._goes_on():
                await self._take_turn()
        except Exception as error:
            await self.background.take("all")
            if not isinstance(error, ModelError):
                raise
            self.spending.add(error.usage)
            if error.kind != "budget":
                error.state = self.talk.state
                raise
            self._limit = Reached("budget", error.reason.removesuffix("."))
        return self._make_done()

    async def _goes_on(self) -> bool:
        """Whether to send another request. The run waits for calls in the background first."""
        await self.background.take()
        while not self._should_continue():
            stopped = self.stopped_by or self._limit or self._stop_reason or self._attempts.ended
            is_over = bool(self.talk.waiting or stopped)
            if not await self.background.take("all" if is_over else "one"):
                return False
            self._output = self._output if is_over else None  # it has not read these results
        return True

    async def _find_system(self) -> None:
        """Find the system prompt, once for the whole run: it can be cached."""
        if self._system is None:
            system = cast("SystemPrompt", self._settings.system)(self.talk.state)
            self._system = await settle(system, self.wait_for_model) or ""

    def _should_continue(self) -> bool:
        """Whether to send another request to the model."""
        talk = self.talk
        over = self._output is not None or self.stopped_by or self._limit or self._attempts.ended
        if talk.waiting or over or self._stop_reason or self._is_at_rest():
            return False
        self._limit = limit = self.spending.reached()
        return limit is None or (limit.last_word and type(talk.last) is ToolResults)

    def _is_at_rest(self) -> bool:
        """Whether the last message is the model's, and nothing more is to be asked."""
        talk = self.talk
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
        here = None if self._turn is None else self._turn.stop_reason
        return here or self.background.stop_reason

    def _make_done(self) -> RunResult[T]:
        how = (self._stop_reason, self.stopped_by, self._limit, self._attempts.ended)
        return make_result(self._settings, self.talk.state, self._output, *how)

    async def _take_turn(self) -> None:
        """Send one request to the model, and run the calls in its reply."""
        settings, talk = self._settings, self.talk
        self._budget = CallBudget(settings.limits, talk.calls - talk.before.calls)
        choice = self._choose_tools()
        request = await self._make_request(choice)
        try:
            ran = await self._send(request)
        except ModelError as error:
            request = await self._make_shorter_request(request, error)
            ran = await self._send(request)
        if ran is not None and self._window is not None:
            self._window.learn(request.messages, cast("Reply", talk.last).usage)
        if ran is not None and self._unanswered:
            await self._finish_turn(ran)

    async def _make_shorter_request(self, request: Request, error: ModelError) -> Request:
        """Return the request with a shorter history. Raises the error if that does not help."""
        if error.kind != "too_long":
            raise error
        if self._window is None:
            error.add_note(USE_COMPACTION)
            raise error
        self.spending.add(error.usage)
        self._window.overflow()
        shorter = await self._make_request(request.tool_choice)
        if shorter.messages == request.messages:
            raise error
        return shorter

    async def _make_request(self, choice: ToolChoice) -> Request:
        settings, system = self._settings, self._system or ""
        tools = await self._executor.prepare_tools()
        if settings.final is not None:
            tools = settings.final.add_to(tools)
        messages = tuple(self.talk.messages)
        if self._window is not None:
            messages = await self._window.fit(system, tools, partial(self._summarize, tools))
            tools = self._window.add_tools(tools)
        output = "" if settings.final is None else settings.final.name
        request = Request(messages, tools, system, settings.max_tokens, choice, output)
        if settings.prepare is not None:
            request = await settle(settings.prepare(request), self.wait_for_model) or request
        return request

    async def _summarize(self, tools: Toolset, messages: tuple[Message, ...]) -> str:
        settings, system = self._settings, self._system or ""
        request = Request(messages, tools, system, settings.max_tokens, "none")
        return await ask_for_summary(self, hide_pieces(settings.model), request)

    async def shorten_now(self) -> None:
        """Let the model summarize everything before the last turn."""
        await self._find_system()
        if self._window is not None:
            self._window.overflow()
            await self._make_request("none")

    async def _send(self, request: Request) -> Sequence[Result] | None:
        """Return the results from calls, or None if there is no reply."""
        if self.stopped_by:  # perhaps before the request was prepared
            return None
        self._turn = turn = self._make_turn(str(self.talk.turns + 1), request.messages)
        streamed, answer = StreamedReply(), self._settings.model(request)
        if isinstance(answer, AsyncIterator):
            stream = StreamTurn(self, self._executor, turn, streamed)
            return await stream.take(answer, self._options.recorder)
        return await self._take_whole_reply(answer, turn, streamed)

    def _make_turn(self, number: str, messages: Iterable[Message]) -> Turn[Any]:
        """Begin a turn. The model can call the tools the messages have found."""
        loaded = find_loaded_tools(messages) if self._executor.tools.has_deferred else ()
        options: dict[str, Any] = {**self._options.for_turn, "heard": self.heard}
        return self._executor.turn(number, run=self.talk.run_id, loaded=loaded, **options)

    def make_turn_again(self, number: str) -> Turn[Any]:
        """Open a turn again."""
        return self._make_turn(number, shorten(self.talk.messages, self.talk.shortened))

    def _choose_tools(self) -> ToolChoice:
        final, must, self._must_answer = self._settings.final, self._must_answer, False
        if final is not None and (must or self._limit):
            return RequiredTool(final.name)
        return "none" if self._limit else "auto"

    async def _take_whole_reply(
        self, answer: Awaitable[Reply], turn: Turn[Any], streamed: StreamedReply
    ) -> Sequence[Result] | None:
        """Return the results from calls, or None if there is no reply."""
        collected = await collect(await_any(answer), self.wait_for_model)
        reply = expect_reply(collected, cancelled=bool(self.stopped_by))
        if reply is None:
            return None
        calls = self.add_reply(streamed.match(reply))
        await self.save()
        started = [call for call in calls if self.can_run(call)]
        run = partial(self._executor.run_all, started, turn=turn, background=True)
        return await record_turn(self._options.recorder, self.talk, turn, run) if started else []

    def wait_for_model(self, cancel: Callable[[], None]) -> None:
        """Record how to cancel the model while the run waits for it."""
        self._cancel_model = cancel
        if self.stopped_by:  # the model itself has interrupted the run
            cancel()

    def add_reply(self, reply: Reply) -> Sequence[Call]:
        """Add a reply to the run, and return its complete calls."""
        self._unanswered = all_calls = requests(reply)
        calls = [call for call in all_calls if type(call) is Call]
        if self._limit and not all_calls and reply.stop == "end":
            reply = replace(reply, stop="other")  # the last word, but the work goes on
        self.talk.add_reply(reply, len(calls))
        self.spending.add(reply.usage, reply.model)
        self.emit(reply)
        return calls

    def emit(self, event: RunEvent) -> None:
        """Tell the listener about an event."""
        if self._options.on_event is not None:
            self._options.on_event(event)

    async def show(self, event: RunEvent) -> None:
        """Tell the listener about an event, and let it show text: a stream may never wait."""
        self.emit(event)
        if self._options.on_event is not None and isinstance(event, Delta):
            await checkpoint()

    def can_run(self, call: Call) -> bool:
        """Whether to pass a call to the executor."""
        if self.stopped_by or self._answer_own(call) is not None:
            return False
        return self._budget.take(call.id, nothing_left=bool(self._limit))

    def _answer_own(self, call: Call) -> Result | None:
        """Return the result for a final answer, or for reading earlier results."""
        if (final := self._settings.final) is not None and call.name == final.name:
            return final.answer(call, self._unanswered)
        return None if self._window is None else self._window.answer(call)

    async def _finish_turn(self, ran: Sequence[Result], *, again: bool = False) -> None:
        """Add a result for each call in the last reply: from the executor, or our own."""
        results = {result.call_id: result for result in ran}
        complete = [
            results.get(call.id) or self._result_without_run(call, again=again)
            for call in self._unanswered
        ]
        self._add_results(tuple(complete))
        await self.save()

    def _result_without_run(self, call: AnyCall, *, again: bool) -> Result:
        """Return the result for a call not passed to the executor."""
        own = None if isinstance(call, TruncatedCall) else self._answer_own(call)
        is_over = call.id in self._budget.refused
        return own or result_without_run(call, is_over_limit=is_over, again=again)

    async def save(self) -> None:
        """Save the state, if the run has a function to do so."""
        if self._settings.save is not None:
            await self._settings.save(self.talk.state)

    def _add_results(self, results: tuple[Result, ...]) -> None:
        """Add results. The run waits if some are pending, unless a hook has ended it."""
        turn, self._unanswered = cast("Turn[Any]", self._turn), ()
        if turn.background:
            self.background.follow(turn, requests(cast("Reply", self.talk.last)))
        message = self.talk.add_results(results, turn)
        if not self.talk.waiting:
            self._look_for_answer()
        self.emit(message)

    def _look_for_answer(self) -> None:
        """Take the output from the last reply if it has a valid final answer."""
        final, last = self._settings.final, self.talk.messages[-2:]
        if [type(message) for message in last] != [Reply, ToolResults]:
            return
        reply = cast("Reply", last[0])
        if final is not None:
            self._output = self._output or final.find(reply)
        if self._output is None:
            self._attempts.count_calls(reply, None if final is None else final.name)

    async def _resume_waiting(self) -> None:
        """Resume answered pending calls."""
        if not self.stopped_by and any(one.pending for one in self.talk.waiting):
            resumed = Resumption(self._executor, self.talk, self._options, self.heard)
            self._turn = resumed.turn
            self._add_results(await resumed.results())
            await self.save()

    async def _resume_reply(self, last: Message | None) -> None:
        """Add results to a reply without any. Calls run again only if safe."""
        calls_left = requests(last) if isinstance(last, Reply) else ()
        if not isinstance(last, Reply) or not calls_left:
            if self.talk.prepare_idle():
                self._look_for_answer()
            return
        self._unanswered = calls_left
        await self._executor.prepare_tools()
        spent_before = self.talk.calls - self.talk.before.calls - len(last.calls)
        self._budget = CallBudget(self._settings.limits, max(0, spent_before))
        allowed = [call for call in last.calls if self.can_run(call)]
        if not has_rows(self._options.recorder):  # repeat no effect after a crash: decision 028
            allowed = [one for one in allowed if is_repeatable(find_called(one, self._executor))]
        self._turn = turn = self.make_turn_again(str(self.talk.turns))
        run = partial(self._executor.run_all, allowed, turn=turn, background=True)
        ran = await record_turn(self._options.recorder, self.talk, turn, run, again=True)
        await self._finish_turn(ran, again=True)
