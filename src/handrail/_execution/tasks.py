"""Run the calls of a turn, each in a separate task. They are decided together, in order."""

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
from handrail._execution.running import Group, RunningCall, pending_result
from handrail._execution.view import View
from handrail._support.loop import close_generator, in_context, must_pass, spawn
from handrail._turn.event_feed import EventFeed
from handrail._turn.turn import Turn
from handrail._values.call import Call
from handrail._values.decision import Ask
from handrail._values.result import Result
from handrail.events import Finished, Requested

log = logging.getLogger("handrail")
Work: TypeAlias = Callable[[], Awaitable[Result]]
"""The rest of a call's work."""


class Tasks:
    """Creates and owns the tasks of an executor. Any task can add a call or wait for it."""

    def __init__(self, pipeline: Pipeline, view: View) -> None:
        self.pipeline = pipeline
        self.view = view

    def restrict(self, view: View) -> Tasks:
        """Return the tasks of a restricted view."""
        return Tasks(self.pipeline, view)

    def run_hooked(self, running: RunningCall) -> Coroutine[Any, Any, Result]:
        """Run a single call with hooks. Await it."""
        if self.pipeline.hooks.around:
            return running.turn.run(running.call)
        # context variables that hooks set are visible to the tool, and not to the caller
        return in_context(self.pipeline.run(running), running.own_context())

    @property
    def run_id(self) -> str:
        """The id of runs without a name."""
        return self.pipeline.run_id

    def new_turn_id(self) -> str:
        """Return an id for a turn without a name."""
        self.pipeline.turns += 1
        return f"~{self.pipeline.turns}"

    def bind(self) -> None:
        """Use the event loop that runs now. Raises RuntimeError if another one is in use."""
        self.pipeline.bind()

    def record(self, turn: Turn[Any], call: Call) -> RunningCall:
        """Return the record of a call, stopped if its turn is closed.

        Raises RuntimeError in the wrong event loop.
        """
        self.pipeline.bind()
        running = RunningCall(turn, call, self.view)
        running.stopped = turn.is_closed
        return running

    def covers(self, running: RunningCall) -> bool:
        """Return whether a call belongs to this view, or to one that was made from it."""
        return self.view.covers(running.view)

    def cancel(self) -> None:
        """Stop all calls of this view, also those that a stream has yet to send."""
        for turn in self.pipeline.arriving:
            if self.view.covers(turn.owner.view):
                turn.cancel()
        self.pipeline.cancel(self.covers)

    def listen(self, turn: Turn[Any] | None = None, call_id: str | None = None) -> EventFeed:
        """Return a feed of events from now on: of the executor, of a turn, or of one call."""

        def wants(running: RunningCall) -> bool:
            if turn is None:
                return self.covers(running)
            is_it = call_id is None or (running.call.id, running.nth) == (call_id, 1)
            return running.turn is turn and is_it

        hears_all = turn is None and self.view.parent is None
        feed = self.pipeline.listeners.listen(
            None if hears_all else wants, ends=call_id is not None
        )
        if self.pipeline.closed:
            feed.close()
        return feed

    def begin(
        self,
        records: Sequence[RunningCall],
        contexts: Sequence[Context] = (),
        *,
        in_callers: bool = False,
    ) -> None:
        """Start calls that are decided together, each in its own context if it has one."""
        group = Group()
        if contexts:
            is_kept = in_callers and not self.pipeline.is_hooked
            self._begin_in(contexts, records, group, is_kept=is_kept)
            return
        todo = [(running, self._plan_work(running, group)) for running in records]
        self._decide_one_less(group)
        for running, work in todo:
            self._spawn(running, work)

    def _begin_in(
        self,
        contexts: Sequence[Context],
        records: Sequence[RunningCall],
        group: Group,
        *,
        is_kept: bool,
    ) -> None:
        todo = [
            (context, running, context.run(self._plan_work, running, group))
            for context, running in zip(contexts, records, strict=True)
        ]
        self._decide_one_less(group)
        for context, running, work in todo:
            # one that others wait for must not wait for its caller
            keeps = is_kept and running.entered is None
            context.run(self._keep if keeps else self._spawn, running, work)

    def _keep(self, running: RunningCall, work: Work) -> None:
        """Keep the work of a call for the task that awaits it."""
        self.pipeline.live[running] = work

    def take_kept(self, running: RunningCall) -> Work | None:
        """Return the work of a call that was kept, for the task that awaits it."""
        work = self.pipeline.live.get(running)
        if work is not None:
            self.pipeline.live[running] = None
        return work

    async def begin_from(
        self, turn: Turn[Any], calls: AsyncIterable[Call], record: Callable[[Call], RunningCall]
    ) -> None:
        """Start calls as they arrive. Those with side effects start when all have arrived."""
        self.pipeline.bind()
        group = Group()
        self.pipeline.arriving.append(turn)
        try:
            try:
                async for call in calls:
                    running = record(call)
                    self._spawn(running, self._plan_work(running, group))
            finally:
                await close_generator(calls)
        except BaseException:
            turn.cancel()
            raise
        finally:
            self.pipeline.arriving.remove(turn)
            self._decide_one_less(group)

    def take_up(self, running: RunningCall) -> None:
        """Resume a pending call that was answered."""
        self._spawn(running, partial(self.pipeline.take_up, running))

    def _plan_work(self, running: RunningCall, group: Group) -> Work:
        """Check and schedule a call, and return the rest of its work."""
        pipeline = self.pipeline
        known = running.find_known_result()
        if known is not None:
            return partial(pipeline.recall, running, known)
        if pipeline.listeners.feeds:
            pipeline.listeners.tell(running, Requested, running.call)
        group.undecided += 1
        try:
            return self._plan_next(running, group)
        except BaseException as error:  # noqa: BLE001  raised again in the call's own task
            running.previous = None
            self._decide_one_less(group)
            return partial(_raise, error)

    def _plan_next(self, running: RunningCall, group: Group) -> Work:
        pipeline = self.pipeline
        is_behind = pipeline.hooks.before or _waits_for_others(running)
        result = None if is_behind else pipeline.look_up(running)
        if is_behind or (result is None and may_be_long(running)):
            running.entered = anyio.Event()
            return partial(self._enter_later, running, group, running.entered)
        running.previous = None
        result = result or pipeline.enter(running, group)
        self._decide_one_less(group)
        if result is None:
            return partial(pipeline.conduct, running)
        return partial(pipeline.settle, running, result)

    async def _enter_later(
        self, running: RunningCall, group: Group, entered: anyio.Event
    ) -> Result:
        """Run a call's ``before`` hooks in parallel with others, then decide it in order."""
        pipeline = self.pipeline
        try:
            result = None if running.is_checked else pipeline.look_up(running)
            if result is None and pipeline.hooks.before:
                result = await pipeline.hooks.run_before(running)
            await _wait_for_those_before(running)
            if result is None:
                result = await pipeline.hooks.decide_apart(running)
            if result is None:
                result = pipeline.enter(running, group)
        finally:
            entered.set()
            self._decide_one_less(group)
        if result is None:
            return await pipeline.conduct(running)
        return await pipeline.settle(running, result)

    def _decide_one_less(self, group: Group) -> None:
        """Note that one call of a group is decided. After the last, all can start."""
        group.undecided -= 1
        if group.undecided:
            return
        ordering = self.pipeline.ordering
        for running in group.held:
            ordering.release(running)
        ordering.launch()
        for running in group.held:
            if not isinstance(running.checked.decision, Ask):  # it waits for an answer
                ordering.tell_if_crowded(running)

    def _spawn(self, running: RunningCall, work: Work) -> None:
        pipeline = self.pipeline
        context = running.own_context() if pipeline.is_hooked else copy_context()
        pipeline.live[running] = None
        running.task = spawn(context, self.finish, running, work, lost=self._begin_again)

    def _begin_again(self, running: RunningCall, work: Work) -> None:
        """Start a call again whose task was cancelled before it began."""
        running.cancel()
        self._spawn(running, work)

    async def finish(self, running: RunningCall, work: Work) -> None:
        """Set the result of a call, whatever happens to its task."""
        try:
            running.finish(await work())
        except KeyboardInterrupt as error:
            running.turn.interrupt = error
            self._give_up(running)
            running.turn.cancel()
        except BaseException as error:
            self._give_up(running)
            if must_pass(error):
                raise
            log.exception("the executor failed on a call of %r", running.call.name)
        finally:
            self.pipeline.live.pop(running, None)  # it may have been dropped
            running.task = None
            self.pipeline.notice()

    def _give_up(self, running: RunningCall) -> None:
        if running.result is not None:
            return  # its event loop was closed
        key = running.checked.key if running.is_checked else ""
        asked = [pending for pending in running.turn.waiting if pending.key == key]
        result = pending_result(asked[0]) if asked else result_of_stop(running)
        running.finish(result)
        self.pipeline.listeners.tell(running, Finished, result)


async def _raise(error: BaseException) -> NoReturn:
    raise error


def _waits_for_others(running: RunningCall) -> bool:
    """Return whether an earlier call of its turn is not scheduled yet."""
    previous = running.previous
    while previous is not None:
        if previous.entered is not None and not previous.entered.is_set():
            return True
        previous = previous.previous
    return False


async def _wait_for_those_before(running: RunningCall) -> None:
    """Wait until the earlier calls of its turn are scheduled, or never will be.

    A call that a ``before`` hook made does not wait: the hook's own call would wait for it.
    """
    previous, around = running.previous, running.enclosing()
    if any(outer.entered is not None and not outer.entered.is_set() for outer in around):
        previous = None
    while previous is not None:
        if previous.entered is not None:  # else its result was known
            await previous.entered.wait()
        previous = previous.previous  # a cancelled call has not waited for the one before it
    running.previous = None
