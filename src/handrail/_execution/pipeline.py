"""The call pipeline: takes each call through its stages, in one coroutine.

A single call runs in its caller's task, a turn's call in a separate task (see ``tasks``). The
stages are the same. Each has a module: check, hooks, decide, questions, ordering, invoke.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio

from handrail._execution.check import check, find_meant
from handrail._execution.hooks import Hooks
from handrail._execution.invoke import invoke, result_of_stop
from handrail._execution.long_results import fit_in_thread, fit_result
from handrail._execution.ordering import Ordering
from handrail._execution.questions import Questions
from handrail._execution.restarts import Restarts
from handrail._execution.running import (
    CURRENT,
    Group,
    NeedsAccess,
    RequestedCall,
    RunningCall,
    fail,
    make_running,
    mark_pending,
    not_begun,
)
from handrail._execution.settings import Approvals, CallLimits, FindCredential, Hook, LongResults
from handrail._execution.view import View
from handrail._permissions.checked_call import CheckedCall, find_heard, with_decision
from handrail._permissions.decide import ALLOW, decide, denial_text
from handrail._schedule.readiness import STARTED
from handrail._support.loop import LoopBinding, checkpoint, current_loop, running_loop, trio_token
from handrail._turn.event_feed import Listeners
from handrail._turn.heard_runs import HeardRuns
from handrail._turn.inner import add_unrepeated
from handrail._turn.turn import Turn
from handrail._values.access import Access
from handrail._values.approval import Answer, Approver, valid_answer
from handrail._values.call import Call
from handrail._values.decision import Allow, Ask, Deny
from handrail._values.effect import READ
from handrail._values.errors import NeedsLogin, Refused, Suspended
from handrail._values.pending import Pending
from handrail._values.result import FailureKind, Result
from handrail.events import Answered, Decided, Finished, Requested

log = logging.getLogger("handrail")
_CHECKPOINT_EVERY = 128
"""Single calls a task runs before it lets other tasks run."""


class Pipeline:
    """The parts an executor shares with its restricted views."""

    def __init__(
        self,
        *,
        approvals: Approvals,
        hooks: Sequence[Hook],
        limits: CallLimits,
        long_results: LongResults,
        clock: Callable[[], float],
        credentials: FindCredential | None,
    ) -> None:
        self.closed = False
        self.credentials = credentials
        self.run_id = os.urandom(16).hex()
        """The id for runs without a name."""
        self.home = LoopBinding()
        self.turns = 0
        """How many turns have no name."""
        self._runs = 0
        self._changed: anyio.Event | None = None
        self.limits = limits
        self.long_results = long_results
        seen = [hook.observe for hook in hooks if hook.observe is not None]
        self.heard = HeardRuns()
        self.live: dict[RequestedCall, Callable[[], Awaitable[Result]] | None] = {}
        """The calls without a result, in order of arrival; with work its caller is to do."""
        self.arriving: list[tuple[View, Turn[Any]]] = []
        """The turns with calls from an open stream, with their views."""
        self.listeners = Listeners(clock, self.home.call, self.live.__contains__, seen)
        self.hooks = Hooks(hooks, limits.hook_timeout, self.check)
        self._invoke: Callable[[RunningCall], Awaitable[Result]] = partial(invoke, self)
        self._run_tool = self._invoke
        if self.hooks.around:
            self._run_tool = partial(self.hooks.run_around, self._invoke_for_hooks)
        self.is_hooked = bool(self.hooks.before or self.hooks.after or self.hooks.around)
        self.questions = Questions(
            approvals,
            self.listeners,
            self.check,
            hooks=self.hooks,
            preview_timeout=limits.hook_timeout,
        )
        self.ordering = Ordering(limits, self.listeners, self.home.call, self.notice)
        self.restarts = Restarts(
            self.questions, self.ordering, self.hooks, invoke=self._invoke, emit=self.emit_decided
        )
        self.cleanups: list[Callable[[], Awaitable[None]]] = []

    def bind(self) -> None:
        """Use the running event loop. Raises RuntimeError if another one is in use."""
        if self.home.loop is current_loop():
            return
        self.home.bind()
        self._changed = None
        self._drop_lost()

    def _drop_lost(self) -> None:
        """Stop a closed loop's calls. Their coroutines may end later, as garbage."""
        lost = tuple(self.live)
        self.live.clear()
        self.listeners.wake()
        self.ordering.drop_lost(lost)
        for record in lost:
            record.finish(result := result_of_stop(record))
            self.listeners.emit(record, Finished, result)

    async def run(self, record: RequestedCall) -> Result:
        """Take a single call through all stages, in its caller's task."""
        self._runs += 1
        is_due = self._runs % _CHECKPOINT_EVERY == 0
        if is_due or self.home.loop is not (running_loop() or trio_token()):
            await self._prepare(is_due=is_due)
        self.live[record] = None
        try:
            if self.listeners.feeds:  # what no one uses is not made: decision 013
                self.listeners.emit(record, Requested, record.call)
            running = self.look_up(record)
            if type(running) is not RunningCall:
                return await self.finish(record, running)
            result = await self.hooks.guard(running) if record.view.is_guarded else None
            result = result or self.enter(running)
            if result is None:
                return await self.run_scheduled(running)
            return await self.finish(record, result)
        except BaseException:
            if record in self.live:
                self.listeners.emit(record, Finished, result_of_stop(record))
            raise
        finally:
            self.live.pop(record, None)  # it may have been dropped
            record.running = None  # else each would keep the other until a garbage collection
            if self._changed is not None:
                self._changed.set()

    async def _prepare(self, *, is_due: bool) -> None:
        """Use the running event loop, and let other tasks run if that is due."""
        self.bind()
        if is_due:
            await checkpoint()  # the call has not started, so a cancellation loses nothing

    async def recall(self, record: RequestedCall, known: Result) -> Result:
        """Return a result recorded before a restart. The call is not decided or run."""
        self.listeners.emit(record, Requested, record.call)
        answered = record.answered
        if answered is None or isinstance(self.questions.check_answered(record, *answered), Result):
            self.look_up(record)  # its tool says how long a result may be
        if record.running is not None:
            known = await fit_in_thread(record.running, known, self.long_results, self.listeners)
        await self.questions.end(record, known)
        return await self.finish(record, known)

    def check(self, call: Call, record: RequestedCall) -> CheckedCall | Result:
        """Find a call's tool, validate its arguments and collect its accesses."""
        return check(call, record.turn, record.view, record.nth)

    def find_approver(self, turn: Turn[Any]) -> Approver | None:
        """Return a turn's approver, or None."""
        return self.questions.approver(turn)

    async def may(self, running: RunningCall, accesses: tuple[Access, ...]) -> None:
        """Let a running call access more: see ``Context.may``."""
        if not self.ordering.is_started(running):
            raise RuntimeError("`may` was called after its call had ended.")
        if running.record.stopped or running.record.turn.is_closed:
            raise Refused(_STOPPED)
        await self.restarts.may(running, accesses)

    def look_up(self, record: RequestedCall) -> RunningCall | Result:
        """Check a new call. Returns its result if it cannot run."""
        checked = check(record.call, record.turn, record.view, record.nth)
        if isinstance(checked, Result):
            record.meant = find_meant(record.call, record.turn, record.view)
            return self._refuse(record) or checked
        running = make_running(record, checked)
        return self._refuse(record) or running if self.closed or record.stopped else running

    def enter(self, running: RunningCall, group: Group | None = None) -> Result | None:
        """Decide and schedule a checked call. Returns its result if it must not run.

        Nothing is awaited here, so no other call is decided or scheduled in between.
        """
        record = running.record
        if self.closed or record.stopped:
            return self._refuse(record)
        checked, policy = running.checked, record.view.policy
        if policy is not None or checked.spec.needs_approval:
            if checked.decision is None:  # else it was decided in a thread
                running.checked = with_decision(checked, decide(policy, checked))
        elif self.is_hooked:
            running.checked = with_decision(checked, ALLOW)
        if self.listeners.feeds:
            self.emit_decided(running)
        if group is not None or running.checked.decision is not None:
            return self.admit(running, group)
        self.ordering.enter(running)  # nothing decides about it, or waits for it
        return None

    def emit_decided(self, running: RunningCall) -> None:
        """Send an event about a call's decision."""
        checked, record = running.checked, running.record
        changed = running.is_rewritten or checked.parsed.repairs or checked.via != checked.call.via
        fields = checked.accesses, checked.decision or ALLOW, checked.call if changed else None
        self.listeners.emit(record, Decided, record.call.id, *fields, *find_heard(checked))

    def _refuse(self, record: RequestedCall) -> Result | None:
        """Return the result for a call no longer to run, or None."""
        if self.closed:
            return fail(record, FailureKind.CANCELLED, _CLOSED)
        return not_begun(record) if record.stopped else None

    def admit(self, running: RunningCall, group: Group | None = None) -> Result | None:
        """Schedule a decided call. Returns its result if it must not run."""
        decision, record = running.checked.decision, running.record
        releases = 0
        if decision is not None and type(decision) is not Allow:
            if isinstance(decision, Deny):
                return fail(record, FailureKind.DENIED, denial_text(decision), decision.detail)
            if isinstance(decision, Ask) and self.questions.approver(record.turn) is None:
                return self.questions.refuse_unasked(running, decision)
            releases = 1  # by its answer
        if group is not None and running.checked.spec.effect is not READ:
            group.held.append(running)  # nothing takes effect until the whole reply is decided
            releases += 1
        self.ordering.enter(running, releases)
        return None

    async def run_scheduled(self, running: RunningCall) -> Result:
        """Take a scheduled call to its end: ask for approval, wait, run, finish its result."""
        record, result = running.record, None
        try:
            if running.readiness is not STARTED or record.stopped or record.turn.waiting:
                result = await self._wait(running)
            if result is None:
                result = await self._run_tool(running)
        except (NeedsLogin, NeedsAccess, Suspended) as error:
            result = await self.restarts.begin_again(running, error)  # after a person's answer
        except BaseException:
            result = result_of_stop(record)
            raise
        finally:
            self.ordering.leave(running)  # before the hooks: others need not wait for them
            if record.answered is not None and result is not None:
                result = add_unrepeated(record, result)
                await self.questions.end(record, result)
        assert result is not None  # noqa: S101  an error would have been raised
        shown = (
            fit_result(running, result, self.long_results, self.listeners)
            if self.long_results.store is None
            else await fit_in_thread(running, result, self.long_results, self.listeners)
        )
        if self.hooks.after or shown.found or running.checked.spec.framed:
            shown = await self.hooks.run_after(record, shown)
        if self.listeners.feeds:
            self.listeners.emit(record, Finished, shown)
        return shown

    async def _wait(self, running: RunningCall) -> Result | None:
        """Ask for approval, and wait until a call can start. Returns its result if it never can."""
        asked, later, record = running.checked.decision, None, running.record
        if isinstance(asked, Ask) and not record.stopped:
            outcome = await self.questions.ask(running, asked)
            if isinstance(outcome, Result):
                return outcome
            later = outcome  # no answer now: it waits only to learn what it is behind
            self.ordering.amend(running)  # the answer may be an edit
            self.ordering.release(running)
            self.ordering.launch()
        result = await self.ordering.wait(running)
        if record.stopped or result is not None:
            return result_of_stop(record) if record.stopped else result
        after = record.turn.waiting_before(record.position, running.checked.accesses)
        if later is not None:
            return mark_pending(record.turn, replace(later, after=after))
        return await self.restarts.wait_behind(running, asked, after) if after else None

    async def _invoke_for_hooks(self, running: RunningCall) -> Result:
        """Run a call's tool for its ``around`` hooks, which always get a result."""
        try:
            return await self._invoke(running)
        except (NeedsLogin, NeedsAccess, Suspended) as error:
            return await self.restarts.begin_again(running, error)

    async def resume(
        self, record: RequestedCall, pending: Pending, answer: Answer | None
    ) -> Result:
        """Resume an answered pending call."""
        known = record.find_known_result()
        if known is not None:
            return await self.recall(record, known)
        self.listeners.emit(record, Requested, record.call)
        outcome = await self._use_answer(record, pending, answer)
        if isinstance(outcome, RunningCall):
            return await self.run_scheduled(outcome)
        await self.questions.end(record, outcome)
        return await self.finish(record, outcome)

    async def _use_answer(
        self, record: RequestedCall, pending: Pending, answer: Answer | None
    ) -> RunningCall | Result:
        """Use an answer if that is possible now. Returns the call's result if it does not run."""
        if refusal := self._refuse(record):
            record.answered = None  # the answer was not used
            return refusal
        used = ALLOW if answer is None else valid_answer(pending, answer)
        if not isinstance(used, Deny):  # a denied call waits for nothing
            free = await self.questions.may_continue(record, pending.after)
            behind = record.turn.waiting_before(record.position, pending.accesses)
            asked = answer is None and pending.kind != "waiting"
            if not free or behind or asked or isinstance(used, Pending):
                return mark_pending(record.turn, pending)
        if answer is not None and self.listeners.feeds:
            asked_at = pending.asked_at
            self.listeners.emit(record, Answered, pending.id, record.call.id, used, asked_at)
        running = await self.questions.apply_answer(record, pending, used)
        if isinstance(running, Result):
            return running
        if self.listeners.feeds:
            self.emit_decided(running)
        return self._refuse(record) or self.admit(running) or running

    async def finish(self, record: RequestedCall, result: Result) -> Result:
        """Pass a result through the ``after`` hooks, and send its call's last event."""
        if self.hooks.after or result.found or record.is_framed:
            result = await self.hooks.run_after(record, result)
        if self.listeners.feeds:
            self.listeners.emit(record, Finished, result)
        return result

    def cancel(self, wants: Callable[[RequestedCall], bool]) -> None:
        """Stop calls, also those that have not started."""
        for record in [record for record in self.live if wants(record)]:
            record.cancel()

    def notice(self) -> None:
        """Wake the tasks waiting for all calls to end."""
        if self._changed is not None:
            self._changed.set()

    async def close(self, grace: float) -> None:
        """Stop all calls, wait up to ``grace`` seconds for them, and run all cleanups."""
        current = CURRENT.get()
        if current is not None and current in self.live:
            raise RuntimeError("A tool cannot close the executor that runs it.")
        if self.home.loop is not None and not self.home.is_open:
            self.bind()
        self.closed = True
        self.cancel(lambda _: True)
        with anyio.move_on_after(grace, shield=True):
            while self.closed and self._is_busy():
                if self._changed is None or self._changed.is_set():
                    self._changed = anyio.Event()  # shared by all tasks closing it
                await self._changed.wait()
        if self.closed and self._is_busy():
            log.warning("the executor was closed while calls still ran, after %g seconds", grace)
        while self.closed and self.cleanups:
            with anyio.move_on_after(self.limits.hook_timeout, shield=True):
                await self._clean_up(self.cleanups.pop())
        if self.closed:  # else it was entered again, and the last exit closes it
            self.listeners.close()

    def open(self) -> None:
        """Accept calls again if it was closed."""
        self.closed = False
        self.notice()

    def _is_busy(self) -> bool:
        return bool(self.live) or not self.ordering.is_empty

    async def _clean_up(self, cleanup: Callable[[], Awaitable[None]]) -> None:
        """Run one cleanup. If it fails, the next one still runs."""
        try:
            await cleanup()
        except Exception:
            log.exception("a cleanup that a tool registered failed")


_STOPPED = "Not run: the call was stopped, and gets no more access."
_CLOSED = "Not run: the tools were shut down before the call."
