"""Run a turn's calls, each in a separate task. They are decided together, in order."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import Any, NoReturn, TypeAlias

import anyio

from handrail._execution.hooks import may_be_long
from handrail._execution.invoke import result_of_stop
from handrail._execution.pipeline import Pipeline
from handrail._execution.running import (
    Group,
    RequestedCall,
    RunningCall,
    make_requested,
    pending_result,
)
from handrail._execution.view import View
from handrail._support import close_generator
from handrail._support.loop import in_context, must_pass, spawn
from handrail._turn.event_feed import EventFeed
from handrail._turn.record import Record
from handrail._turn.turn import Turn
from handrail._values.approval import Answer
from handrail._values.call import Call
from handrail._values.decision import Ask
from handrail._values.pending import Pending
from handrail._values.result import Result
from handrail.events import Finished, Requested

log = logging.getLogger("handrail")
Work: TypeAlias = Callable[[], Awaitable[Result]]
"""The rest of a call's work."""


class Tasks:
    """Creates and owns an executor's tasks. Any task can add a call or wait for it."""

    def __init__(self, pipeline: Pipeline, view: View) -> None:
        self.pipeline = pipeline
        self.view = view

    def restrict(self, view: View) -> Tasks:
        """Return a restricted view's tasks."""
        return Tasks(self.pipeline, view)

    def run_hooked(self, record: RequestedCall) -> Coroutine[Any, Any, Result]:
        """Run a single call with hooks. Await it."""
        if self.pipeline.hooks.around:
            return record.turn.run(record.call)
        # context variables hooks set are visible to the tool, and not to the caller
        return in_context(self.pipeline.run(record), record.own_context())

    @property
    def run_id(self) -> str:
        """The id for runs without a name."""
        return self.pipeline.run_id

    def new_turn_id(self) -> str:
        """Return an id for a turn without a name."""
        self.pipeline.turns += 1
        return f"~{self.pipeline.turns}"

    def bind(self) -> None:
        """Use the running event loop. Raises RuntimeError if another one is in use."""
        self.pipeline.bind()

    def stop(self, records: Sequence[Record], /) -> None:
        """Stop these calls, from any thread."""

        def stop_all() -> None:
            for record in records:
                record.cancel()

        self.pipeline.home.call(stop_all)

    def record(self, turn: Turn[Any], call: Call) -> RequestedCall:
        """Return a call's record, stopped if its turn is closed.

        Raises RuntimeError in the wrong event loop.
        """
        self.pipeline.bind()
        record = make_requested(turn, call, self.view)
        # asked here, since a stopped reply may still send calls: decision 090
        record.stopped = turn.is_closed
        return record

    def covers(self, record: RequestedCall) -> bool:
        """Return whether a call belongs to this view, or to one made from it."""
        return self.view.covers(record.view)

    def cancel(self) -> None:
        """Stop all calls in this view, also those still to be streamed, from any thread."""
        if self.pipeline.home.loop is not None:
            self.pipeline.home.call(self._cancel)

    def _cancel(self) -> None:
        for view, turn in self.pipeline.arriving:
            if self.view.covers(view):
                turn.cancel()
        self.pipeline.cancel(self.covers)

    def listen(self, turn: Turn[Any] | None = None, call_id: str | None = None) -> EventFeed:
        """Return a feed of future events: the executor's, a turn's, or one call's."""

        def wants(record: RequestedCall) -> bool:
            if turn is None:
                return self.covers(record)
            if call_id is None:
                return _is_within(record.turn, turn)
            return record.turn is turn and record.name == (call_id, 1)

        hears_all = turn is None and self.view.parent is None
        feed = self.pipeline.listeners.listen(
            None if hears_all else wants, ends=call_id is not None
        )
        if self.pipeline.closed:
            feed.close()
        return feed

    def begin(
        self,
        records: Sequence[RequestedCall],
        contexts: Sequence[Context] = (),
        *,
        in_callers: bool = False,
    ) -> None:
        """Start calls decided together, each in its own context if it has one."""
        group = Group()
        if contexts:
            is_kept = in_callers and not self.pipeline.is_hooked
            self._begin_in(contexts, records, group, is_kept=is_kept)
            return
        todo = [(record, self._plan_work(record, group)) for record in records]
        self._decide_one_less(group)
        for record, work in todo:
            self._spawn(record, work)

    def _begin_in(
        self,
        contexts: Sequence[Context],
        records: Sequence[RequestedCall],
        group: Group,
        *,
        is_kept: bool,
    ) -> None:
        todo = [
            (context, record, context.run(self._plan_work, record, group))
            for context, record in zip(contexts, records, strict=True)
        ]
        self._decide_one_less(group)
        for context, record, work in todo:
            # one others wait for must not wait for its caller
            keeps = is_kept and record.entered is None
            context.run(self._keep if keeps else self._spawn, record, work)

    def _keep(self, record: RequestedCall, work: Work) -> None:
        """Keep a call's work for the awaiting task."""
        self.pipeline.live[record] = work

    def take_kept(self, record: RequestedCall) -> Work | None:
        """Return a call's kept work, for the awaiting task."""
        work = self.pipeline.live.get(record)
        if work is not None:
            self.pipeline.live[record] = None
        return work

    async def begin_from(
        self, turn: Turn[Any], calls: AsyncIterable[Call], add: Callable[[Call], RequestedCall]
    ) -> None:
        """Start calls as they arrive. Those with side effects start when all have arrived."""
        self.pipeline.bind()
        group, arriving = Group(), (self.view, turn)
        self.pipeline.arriving.append(arriving)
        try:
            try:
                async for call in calls:
                    record = add(call)
                    self._spawn(record, self._plan_work(record, group))
            finally:
                await close_generator(calls)
        except BaseException:
            turn.cancel()
            raise
        finally:
            self.pipeline.arriving.remove(arriving)
            self._decide_one_less(group)

    def resume(self, record: RequestedCall, pending: Pending, answer: Answer | None) -> None:
        """Resume an answered pending call."""
        self._spawn(record, partial(self.pipeline.resume, record, pending, answer))

    def _plan_work(self, record: RequestedCall, group: Group) -> Work:
        """Check and schedule a call, and return the rest of its work."""
        pipeline = self.pipeline
        known = record.find_known_result()
        if known is not None:
            return partial(pipeline.recall, record, known)
        if pipeline.listeners.feeds:
            pipeline.listeners.emit(record, Requested, record.call)
        group.undecided += 1
        try:
            return self._plan_next(record, group)
        except BaseException as error:  # noqa: BLE001  raised again in the call's own task
            record.previous = None
            self._decide_one_less(group)
            return partial(_raise, error)

    def _plan_next(self, record: RequestedCall, group: Group) -> Work:
        pipeline = self.pipeline
        is_behind = pipeline.hooks.before or _waits_for_others(record)
        running = None if is_behind else pipeline.look_up(record)
        if running is None or (type(running) is RunningCall and may_be_long(running)):
            record.entered = anyio.Event()
            return partial(self._enter_later, record, running, group, record.entered)
        record.previous = None
        if type(running) is RunningCall:
            outcome = pipeline.enter(running, group) or running
        else:
            outcome = running
        self._decide_one_less(group)
        if type(outcome) is RunningCall:
            return partial(pipeline.run_scheduled, outcome)
        return partial(pipeline.finish, record, outcome)

    async def _enter_later(
        self,
        record: RequestedCall,
        running: RunningCall | None,
        group: Group,
        entered: anyio.Event,
    ) -> Result:
        """Run a call's ``before`` hooks in parallel with others, then decide it in order."""
        pipeline = self.pipeline
        try:
            outcome = running or pipeline.look_up(record)
            if type(outcome) is RunningCall and pipeline.hooks.before:
                outcome = await pipeline.hooks.run_before(outcome) or outcome
            await _wait_for_those_before(record)
            if type(outcome) is RunningCall:
                outcome = await pipeline.hooks.decide_apart(outcome) or outcome
            if type(outcome) is RunningCall:
                outcome = pipeline.enter(outcome, group) or outcome
        finally:
            entered.set()
            self._decide_one_less(group)
        if type(outcome) is RunningCall:
            return await pipeline.run_scheduled(outcome)
        return await pipeline.finish(record, outcome)

    def _decide_one_less(self, group: Group) -> None:
        """Record one decision in a group. After the last, all can start."""
        group.undecided -= 1
        if group.undecided:
            return
        ordering = self.pipeline.ordering
        for running in group.held:
            ordering.release(running)
        ordering.launch()
        for running in group.held:
            if not isinstance(running.checked.decision, Ask):  # it waits for an answer
                ordering.emit_if_crowded(running)

    def _spawn(self, record: RequestedCall, work: Work) -> None:
        pipeline = self.pipeline
        context = record.own_context() if pipeline.is_hooked else copy_context()
        pipeline.live[record] = None
        record.task = spawn(context, self.finish, record, work, lost=self._begin_again)

    def _begin_again(self, record: RequestedCall, work: Work) -> None:
        """Start a call again whose task was cancelled before it began."""
        record.cancel()
        self._spawn(record, work)

    async def finish(self, record: RequestedCall, work: Work) -> None:
        """Set a call's result, whatever happens to its task."""
        try:
            record.finish(await work())
        except KeyboardInterrupt as error:
            record.turn.interrupt = error
            self._give_up(record)
            record.turn.cancel()
        except BaseException as error:
            self._give_up(record)
            if must_pass(error):
                raise
            log.exception("the executor failed on a call of %r", record.call.name)
        finally:
            self.pipeline.live.pop(record, None)  # it may have been dropped
            record.running = record.task = None
            self.pipeline.notice()

    def _give_up(self, record: RequestedCall) -> None:
        if record.result is not None:
            return  # its event loop was closed
        key = record.running.checked.key if record.running is not None else ""
        asked = [pending for pending in record.turn.waiting if pending.key == key]
        result = pending_result(asked[0]) if asked else result_of_stop(record)
        record.finish(result)
        self.pipeline.listeners.emit(record, Finished, result)


def _is_within(inner: Turn[Any], turn: Turn[Any]) -> bool:
    """Return whether this is the turn, or one a tool in it made."""
    while inner is not turn:
        if not inner.is_inner:
            return False
        inner = inner.options.outer.turn
    return True


async def _raise(error: BaseException) -> NoReturn:
    raise error


def _waits_for_others(record: RequestedCall) -> bool:
    """Return whether an earlier call of its turn is not scheduled yet."""
    previous = record.previous
    while previous is not None:
        if previous.entered is not None and not previous.entered.is_set():
            return True
        previous = previous.previous
    return False


async def _wait_for_those_before(record: RequestedCall) -> None:
    """Wait until the earlier calls of its turn are scheduled, or never will be.

    A call a ``before`` hook made does not wait: the hook's own call would wait for it.
    """
    previous, around = record.previous, record.enclosing()
    if any(outer.entered is not None and not outer.entered.is_set() for outer in around):
        previous = None
    while previous is not None:
        if previous.entered is not None:  # else its result was known
            await previous.entered.wait()
        previous = previous.previous  # a cancelled call has not waited for the one before it
    record.previous = None
