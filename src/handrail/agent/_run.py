"""One run: a model and its tools take turns until there is an answer, a question or a limit."""

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
from operator import attrgetter
from types import CoroutineType
from typing import Any, Generic, TypeVar, cast

import anyio

from handrail import Call, Executor, Result, Text
from handrail.agent._listen import awaited, closed, reply_in
from handrail.agent._plan import Done, Plan, Watch
from handrail.agent._state import State, lost, not_begun, repeatable, requests, too_many
from handrail.judgement import Answer
from handrail.messages import (
    NOTHING_USED,
    Content,
    Cut,
    Delta,
    Message,
    ModelFailed,
    Piece,
    Prompt,
    Reply,
    Request,
    Results,
    hear,
)

T = TypeVar("T")
_INTERRUPTED = "interrupted"


class Run(Generic[T]):
    """A run: await it, talk to it, interrupt it. Its state is good at any moment.

    Calls are stopped by their ids: do not interrupt a run while another one with the same ids goes
    on in the same executor.
    """

    def __init__(  # noqa: PLR0913  by an agent alone
        self,
        plan: Plan[T],
        executor: Executor,
        state: State,
        *,
        prompt: Prompt | None,
        answers: Mapping[str, Answer],
        own: bool,
        watch: Watch | None,
    ) -> None:
        self._plan = plan
        self._executor = executor
        self._answers = answers
        self._own = own
        self._watch = watch
        self._call_off: Callable[[], None] | None = None
        self._why = ""
        self._output: tuple[T] | None = None
        self._under_way: Sequence[Call | Cut] = ()
        # a state is made when somebody wants it: a short run makes none but its last
        said, self._waiting, meanwhile, self._usage, self._turns, self._calls = state
        self._messages: list[Message] = [*said] if prompt is None else [*said, prompt]
        self._inbox: list[Prompt] = [*meanwhile]

    @property
    def state(self) -> State:
        """All that there is to know of the run, as it is now."""
        said, meanwhile = tuple(self._messages), tuple(self._inbox)
        return State(said, self._waiting, meanwhile, self._usage, self._turns, self._calls)

    def say(self, *parts: str | Content) -> None:
        """Tell the model something; it hears it with its next turn."""
        self._inbox.append(Prompt.of(*parts))

    def interrupt(self) -> None:
        """Stop what the model says, and the calls that run. The run then ends by itself."""
        self._stop(_INTERRUPTED)

    def __await__(self) -> Generator[Any, Any, Done[T]]:
        bounded = self._own or self._plan.limits.seconds is not None
        return (self._bounded() if bounded else self._all_turns()).__await__()

    async def _bounded(self) -> Done[T]:
        """A run with an executor of its own, a limit of time, or both."""
        if not self._own:
            return await self._in_time()
        async with self._executor:
            return await self._in_time()

    async def _in_time(self) -> Done[T]:
        seconds = self._plan.limits.seconds
        if seconds is None:
            return await self._all_turns()
        failed: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._out_of_time, seconds)
            try:
                await self._all_turns()
            except Exception as error:  # noqa: BLE001  raised below, and not as one of a group
                failed = error
            group.cancel_scope.cancel()
        if failed is not None:
            raise failed
        return self._done()

    async def _out_of_time(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        self._stop(f"the limit of {seconds:g} seconds is reached")

    def _stop(self, why: str) -> None:
        self._why = self._why or why
        if self._call_off is not None:
            self._call_off()
        if self._under_way:
            self._executor.cancel(*(one.id for one in self._under_way))

    async def _all_turns(self) -> Done[T]:
        last = self._messages[-1] if self._messages else None
        if self._waiting:
            await self._take_up()
        elif type(last) is not Prompt:
            await self._go_on(last)
        while self._goes_on():
            await self._turn()
        return self._done()

    def _goes_on(self) -> bool:
        """Whether the model is to be asked once more."""
        if self._waiting or self._output is not None or self._why or self._at_rest():
            return False
        self._why = self._plan.limits.over(self._turns, self._calls, self._usage)
        return not self._why

    def _at_rest(self) -> bool:
        """Whether the model has had the last word, and nobody wants more of it."""
        if self._inbox:
            self._messages += self._inbox
            self._inbox = []
        if not self._messages:
            raise ValueError("there is nothing to go on from: give a prompt")
        if type(self._messages[-1]) is not Reply:
            return False
        if self._plan.final is None:
            return True
        self._messages.append(Prompt.of(self._plan.final.reminder))
        return False

    def _done(self) -> Done[T]:
        if self._waiting:
            return Done("pending", self.state)
        if self._output is not None:
            return Done("answer", self.state, self._output[0])
        if not self._why:
            return Done("answer", self.state)
        if self._why == _INTERRUPTED:
            return Done("interrupted", self.state)
        return Done("limit", self.state, why=self._why)

    def _turn(self) -> Awaitable[None]:
        """Ask the model once, and run what it calls."""
        plan, tools = self._plan, self._executor.advertise()
        if plan.final is not None:
            tools = plan.final.beside(tools)
        said = plan.model(Request(tuple(self._messages), tools, plan.system, plan.max_tokens))
        if isinstance(said, _COROUTINE):
            return self._whole(said)
        if isinstance(said, AsyncIterator):
            return self._streamed(said)
        return self._whole(awaited(said))

    async def _whole(self, said: Any) -> None:
        """A turn of a model that gives its reply as a whole, from a coroutine."""
        reply = reply_in(await hear(said, self._waits), called_off=bool(self._why))
        if reply is None:
            return
        calls = self._replied(reply)
        if self._plan.save is not None:
            await self._saved()
        asked = self._under_way
        if asked:
            handed = self._handed(calls)
            if len(handed) == 1:
                ran = [await self._executor.run(handed[0])]
            else:
                ran = await self._executor.run_all(handed) if handed else []
            all_ran = len(ran) == len(asked)
            self._note(tuple(ran) if all_ran else self._complete(asked, handed, ran))
            if self._plan.save is not None:
                await self._saved()

    def _handed(self, calls: Sequence[Call]) -> Sequence[Call]:
        """Those calls of a reply that the executor is to have."""
        if not self._why and self._plan.final is None and self._plan.limits.calls is None:
            return calls
        return [call for number, call in enumerate(calls, 1) if self._runs(call, number)]

    def _waits(self, call_off: Callable[[], None]) -> None:
        """The model has to be waited for, and can be called off."""
        self._call_off = call_off
        if self._why:  # the model itself has interrupted the run
            call_off()

    async def _streamed(self, pieces: AsyncIterator[Piece]) -> None:
        before = len(self._messages)
        handed: list[Call] = []
        try:
            ran = await self._executor.run_all(self._calls_in(pieces, handed))
        finally:
            with anyio.CancelScope(shield=True):
                await closed(pieces)
        asked = self._under_way
        if len(self._messages) > before and asked:
            all_ran = len(ran) == len(asked)
            self._note(tuple(ran) if all_ran else self._complete(asked, handed, ran))
            await self._saved()

    async def _calls_in(
        self, pieces: AsyncIterator[Piece], handed: list[Call]
    ) -> AsyncGenerator[Call]:
        """The calls of a reply, each as soon as it is complete; those that only read start then.

        The reply is noted, and written down, before the others may start.
        """
        words: list[str] = []
        given: list[Call] = []
        self._under_way, reply = given, None
        while reply is None and not self._why:
            piece = await hear(awaited(anext(pieces, None)), self._waits)
            if isinstance(piece, Delta):
                self._overhear(piece, words)
            elif isinstance(piece, Call):
                given.append(piece)
                if self._runs(piece, len(given)):
                    handed.append(piece)
                    yield piece
            else:
                reply = self._last(piece, words, given)
        reply = reply or self._last(None, words, given)
        if reply is not None:
            calls = self._replied(reply)
            await self._saved()
            for number, call in enumerate(calls[len(given) :], len(given) + 1):
                if self._runs(call, number):  # of a model that only gives its reply
                    handed.append(call)
                    yield call

    def _overhear(self, piece: Delta, words: list[str]) -> None:
        if not piece.thought:
            words.append(piece.text)
        if self._watch is not None:
            self._watch(piece)

    def _last(self, piece: object, words: list[str], given: list[Call]) -> Reply | None:
        """The reply that ends a stream; what there is of one that was interrupted, if anything."""
        if piece is not None:
            return reply_in(piece, called_off=False)
        if not self._why:
            raise ModelFailed("the model's stream ended without a reply")
        said = [Text("".join(words))] if words else []
        return Reply((*said, *given), "other") if said or given else None

    def _replied(self, reply: Reply) -> Sequence[Call]:
        """Note a reply, and what it asks for; its calls that are complete."""
        asked: list[Call | Cut] = []
        calls: list[Call] = []
        for part in reply.parts:
            if type(part) is Call:
                asked.append(part)
                calls.append(part)
            elif type(part) is Cut:
                asked.append(part)
        self._messages.append(reply)
        self._under_way = asked
        self._turns += 1
        self._calls += len(calls)
        if reply.usage is not NOTHING_USED:
            self._usage += reply.usage
        if self._watch is not None:
            self._watch(reply)
        return calls

    def _runs(self, call: Call, number: int) -> bool:
        """Whether the executor is to have a call: the so-manieth of its reply."""
        return not self._why and not self._is_final(call) and not self._too_many(number)

    def _is_final(self, call: Call) -> bool:
        return self._plan.final is not None and call.name == self._plan.final.name

    def _too_many(self, number: int) -> bool:
        most, last = self._plan.limits.calls, self._messages[-1]
        these = len(last.calls) if isinstance(last, Reply) else 0  # of the reply that is answered
        return most is not None and self._calls - these + number > most

    def _complete(
        self,
        asked: Sequence[Call | Cut],
        handed: Sequence[Call],
        ran: Sequence[Result],
        *,
        again: bool = False,
    ) -> tuple[Result, ...]:
        """A result for each request of the last reply: from the executor, or one of our own."""
        results: list[Result] = []
        number = place = 0
        for one in asked:
            number += isinstance(one, Call)
            if place < len(handed) and one == handed[place]:
                results.append(ran[place])
                place += 1
            else:
                results.append(self._not_run(one, number, again=again))
        return tuple(results)

    def _not_run(self, request: Call | Cut, number: int, *, again: bool) -> Result:
        """The result of what the executor was not given."""
        if isinstance(request, Cut):
            return lost(request)
        if self._plan.final is not None and self._is_final(request):
            return self._plan.final.taken(request)[1]
        if self._too_many(number):
            return too_many(request)
        return lost(request) if again else not_begun(request)

    async def _saved(self) -> None:
        if self._plan.save is not None:
            await self._plan.save(self.state)

    def _note(self, results: tuple[Result, ...]) -> None:
        """Note results; the run may have to wait for some."""
        self._under_way = ()
        told = Results(results)
        if any(map(_PENDING, results)):
            self._waiting = results
        else:
            self._waiting = ()
            self._messages.append(told)
            if self._plan.final is not None:
                self._look_for_answer()
        if self._watch is not None:
            self._watch(told)

    def _look_for_answer(self) -> None:
        """Whether the last reply gave the final answer, and it was taken."""
        final, last = self._plan.final, self._messages[-2:]
        if final is not None and [type(one) for one in last] == [Reply, Results]:
            for call in cast("Reply", last[0]).calls:
                if call.name == final.name:
                    self._output = self._output or final.taken(call)[0]

    async def _take_up(self) -> None:
        """Go on with what waited for answers, as far as they are here."""
        waiting = self._waiting
        open_ = [one.pending for one in waiting if one.pending is not None]
        self._under_way = [] if self._why else [one.call for one in open_]
        if self._under_way:
            ran = iter(await self._executor.resume(open_, self._answers))
            self._note(tuple(one if one.pending is None else next(ran) for one in waiting))
            await self._saved()

    async def _go_on(self, last: Message | None) -> None:
        """Give results to a reply that was left without: again where that repeats no effect."""
        asked = requests(last) if isinstance(last, Reply) else ()
        if not isinstance(last, Reply) or not asked:
            self._pick_up(last)
            return
        self._under_way = asked
        find = self._executor.advertise().find
        calls = [call for call in self._handed(last.calls) if repeatable(find(call.name))]
        ran = await self._executor.run_all(calls)
        self._note(self._complete(asked, calls, ran, again=True))
        await self._saved()

    def _pick_up(self, last: Message | None) -> None:
        """Go on where nothing is open: with what was said meanwhile, if anything was."""
        if self._inbox:
            return
        if isinstance(last, Reply) and last.stop == "other":  # broken off in the middle
            self._messages.append(Prompt.of(_GO_ON))
        self._look_for_answer()


_COROUTINE: Any = CoroutineType
"""What most models give; for a concrete class, isinstance is fast."""
_PENDING = attrgetter("pending")
_GO_ON = "You were interrupted. Go on."
