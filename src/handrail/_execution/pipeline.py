"""The call pipeline: takes each call through its stages, in one coroutine.

A single call runs in its caller's task, a call of a turn in a separate task (see ``tasks``). The
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
from handrail._execution.long_results import fit_result
from handrail._execution.ordering import Ordering
from handrail._execution.questions import Questions
from handrail._execution.restarts import Restarts, with_added
from handrail._execution.running import (
    CURRENT,
    Group,
    NeedsAccess,
    RunningCall,
    fail,
    not_begun,
    put_off,
)
from handrail._execution.settings import Approvals, CallLimits, Hook, LongResults
from handrail._permissions.checked_call import CheckedCall, with_decision
from handrail._permissions.decide import ALLOW, decide, denial_text
from handrail._support.loop import Home, checkpoint, current_loop, running_loop, trio_token
from handrail._turn.event_feed import Listeners
from handrail._turn.turn import Turn
from handrail._values.access import Access
from handrail._values.approval import valid_answer
from handrail._values.call import Call
from handrail._values.decision import Allow, Ask, Deny
from handrail._values.effect import READ
from handrail._values.errors import NeedsLogin, Refused, Suspended
from handrail._values.pending import Pending
from handrail._values.result import FailureKind, Result
from handrail.events import Answered, Decided, Finished, Requested

log = logging.getLogger("handrail")
_CHECKPOINT_EVERY = 128
"""Single calls that a task runs before it lets other tasks run."""


class Pipeline:
    """The parts that an executor shares with its restricted views."""

    def __init__(
        self,
        *,
        approvals: Approvals,
        hooks: Sequence[Hook],
        limits: CallLimits,
        long_results: LongResults,
        clock: Callable[[], float],
    ) -> None:
        self.closed = False
        self.run_id = os.urandom(16).hex()
        """The id of runs without a name."""
        self.home = Home()
        self.turns = 0
        """The number of turns without a name."""
        self._runs = 0
        self._changed: anyio.Event | None = None
        self.limits = limits
        self.long_results = long_results
        seen = [hook.observe for hook in hooks if hook.observe is not None]
        self.live: dict[RunningCall, Callable[[], Awaitable[Result]] | None] = {}
        """The calls without a result, in order of arrival; with work that its caller is to do."""
        self.arriving: list[Turn[Any]] = []
        """The turns whose calls come from a stream that has not ended."""
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
            self.questions, self.ordering, self.hooks, invoke=self._invoke, tell=self.tell_decided
        )
        self.cleanups: list[Callable[[], Awaitable[None]]] = []

    def bind(self) -> None:
        """Use the event loop that runs now. Raises RuntimeError if another one is in use."""
        if self.home.loop is current_loop():
            return
        self.home.bind()
        self._changed = None
        self._drop_lost()

    def _drop_lost(self) -> None:
        """Stop the calls of a closed loop. Their coroutines may end later, as garbage."""
        lost = tuple(self.live)
        self.live.clear()
        self.listeners.wake()
        self.ordering.drop_lost(lost)
        for running in lost:
            running.finish(result := result_of_stop(running))
            self.listeners.tell(running, Finished, result)

    async def run(self, running: RunningCall) -> Result:
        """Take a single call through all stages, in its caller's task."""
        self._runs += 1
        is_due = self._runs % _CHECKPOINT_EVERY == 0
        if is_due or self.home.loop is not (running_loop() or trio_token()):
            await self._prepare(is_due=is_due)
        self.live[running] = None
        try:
            if self.listeners.feeds:
                self.listeners.tell(running, Requested, running.call)
            result = self.look_up(running)
            if result is None and running.view.is_guarded:
                result = await self.hooks.guard(running)
            result = result or self.enter(running)
            if result is None:
                return await self.conduct(running)
            return await self.settle(running, result)
        except BaseException:
            if running in self.live:
                self.listeners.tell(running, Finished, result_of_stop(running))
            raise
        finally:
            self.live.pop(running, None)  # it may have been dropped
            if self._changed is not None:
                self._changed.set()

    async def _prepare(self, *, is_due: bool) -> None:
        """Use the event loop that runs now, and let other tasks run if that is due."""
        self.bind()
        if is_due:
            await checkpoint()  # the call has not started, so a cancellation loses nothing

    async def recall(self, running: RunningCall, known: Result) -> Result:
        """Return a result that was recorded before a restart. The call is not decided or run."""
        self.listeners.tell(running, Requested, running.call)
        if running.given is None or self.questions.check_answered(running, *running.given):
            self.look_up(running)
        if running.is_checked:
            known = fit_result(running, known, self.long_results, self.listeners)
        await self.questions.end(running, known)
        return await self.settle(running, known)

    def check(self, call: Call, running: RunningCall) -> CheckedCall | Result:
        """Find a call's tool, validate its arguments and collect its accesses."""
        checked = check(call, running.turn, running.view, running.nth)
        return with_added(running, checked) if running.added else checked

    async def may(self, running: RunningCall, accesses: tuple[Access, ...]) -> None:
        """Let a running call access more: see ``Context.may``."""
        if not self.ordering.is_started(running):
            raise RuntimeError("`may` was called after its call had ended.")
        if running.stopped or running.turn.is_closed:
            raise Refused(_STOPPED)
        await self.restarts.may(running, accesses)

    def look_up(self, running: RunningCall) -> Result | None:
        """Check a new call. Returns its result if it cannot run."""
        checked = check(running.call, running.turn, running.view, running.nth)
        if type(checked) is Result:
            running.meant = find_meant(running.call, running.turn, running.view)
            return self._refuse(running) or checked
        running.checked, running.is_checked = checked, True  # type: ignore[assignment]
        return self._refuse(running) if self.closed or running.stopped else None

    def enter(self, running: RunningCall, group: Group | None = None) -> Result | None:
        """Decide and schedule a checked call. Returns its result if it must not run.

        Nothing is awaited here, so no other call is decided or scheduled in between.
        """
        if self.closed or running.stopped:
            return self._refuse(running)
        checked, policy = running.checked, running.view.policy
        if policy is not None or checked.spec.needs_approval:
            if checked.decision is None:  # else it was decided in a thread
                running.checked = with_decision(checked, decide(policy, checked))
        elif self.is_hooked:
            running.checked = with_decision(checked, ALLOW)
        if self.listeners.feeds:
            self.tell_decided(running)
        return self.admit(running, group)

    def tell_decided(self, running: RunningCall) -> None:
        """Send an event about the decision of a call."""
        checked = running.checked
        changed = running.is_rewritten or checked.parsed.repairs or checked.via
        fields = checked.accesses, checked.decision or ALLOW, checked.call if changed else None
        self.listeners.tell(running, Decided, running.call.id, *fields)

    def _refuse(self, running: RunningCall) -> Result | None:
        """Return the result of a call that must not run any more, or None."""
        if self.closed:
            return fail(running, FailureKind.CANCELLED, _CLOSED)
        return not_begun(running) if running.stopped else None

    def admit(self, running: RunningCall, group: Group | None = None) -> Result | None:
        """Schedule a decided call. Returns its result if it must not run."""
        decision = running.checked.decision
        holds = 0
        if decision is not None and type(decision) is not Allow:
            if isinstance(decision, Deny):
                return fail(running, FailureKind.DENIED, denial_text(decision), decision.detail)
            if isinstance(decision, Ask) and self.questions.approver(running) is None:
                return self.questions.refuse_unasked(running, decision)
            holds = 1
        if group is not None and running.checked.spec.effect is not READ:
            group.held.append(running)
            holds += 1
        self.ordering.enter(running, holds)
        return None

    async def conduct(self, running: RunningCall) -> Result:
        """Take a scheduled call to its end: ask for approval, wait, run, finish its result."""
        result: Result | None = None
        try:
            if not running.may_start or running.stopped or running.turn.waiting:
                result = await self._wait(running)
            if result is None:
                result = await self._run_tool(running)
        except (NeedsLogin, NeedsAccess, Suspended) as error:
            result = await self.restarts.begin_again(running, error)
        except BaseException:
            result = result_of_stop(running)
            raise
        finally:
            self.ordering.leave(running)
            if running.given is not None and result is not None:
                await self.questions.end(running, result)
        assert result is not None  # noqa: S101  an error would have been raised
        shown = fit_result(running, result, self.long_results, self.listeners)
        if self.hooks.after or shown.found:
            shown = await self.hooks.run_after(running, shown)
        if self.listeners.feeds:
            self.listeners.tell(running, Finished, shown)
        return shown

    async def _wait(self, running: RunningCall) -> Result | None:
        """Ask for approval, and wait until a call can start. Returns its result if it never can."""
        asked, later = running.checked.decision, None
        if isinstance(asked, Ask) and not running.stopped:
            settled = await self.questions.ask(running, asked)
            if isinstance(settled, Result):
                return settled
            later = settled
            self.ordering.amend(running)
            self.ordering.release(running)
            self.ordering.launch()
        result = await self.ordering.wait(running)
        if running.stopped or result is not None:
            return result_of_stop(running) if running.stopped else result
        after = running.turn.waiting_before(running.position, running.checked.accesses)
        if later is not None:
            return put_off(running, replace(later, after=after))
        return await self.restarts.wait_behind(running, asked, after) if after else None

    async def _invoke_for_hooks(self, running: RunningCall) -> Result:
        """Run a call's tool for its ``around`` hooks, which always get a result."""
        try:
            return await self._invoke(running)
        except (NeedsLogin, NeedsAccess, Suspended) as error:
            return await self.restarts.begin_again(running, error)

    async def take_up(self, running: RunningCall) -> Result:
        """Resume a pending call that was answered."""
        given: Any = running.given
        pending, answer = given
        running.added = pending.added
        known = running.find_known_result()
        if known is not None:
            return await self.recall(running, known)
        self.listeners.tell(running, Requested, running.call)
        result = await self._use_answer(running, pending, answer)
        if result is None:
            return await self.conduct(running)
        await self.questions.end(running, result)
        return await self.settle(running, result)

    async def _use_answer(
        self, running: RunningCall, pending: Pending, answer: Any
    ) -> Result | None:
        """Use an answer if that is possible now. Returns the call's result if it does not run."""
        if refusal := self._refuse(running):
            running.given = None  # the answer was not used
            return refusal
        given = ALLOW if answer is None else valid_answer(pending, answer)
        if not isinstance(given, Deny):
            free = await self.questions.may_continue(running, pending.after)
            behind = running.turn.waiting_before(running.position, pending.accesses)
            asked = answer is None and pending.kind != "waiting"
            if not free or behind or asked or isinstance(given, Pending):
                return put_off(running, pending)
        assert not isinstance(given, Pending)  # noqa: S101  handled above
        if answer is not None and self.listeners.feeds:
            fields = pending.id, running.call.id, given, pending.asked_at
            self.listeners.tell(running, Answered, *fields)
        result = await self.questions.take(running, pending, given)
        if result is not None:
            return result
        if self.listeners.feeds:
            self.tell_decided(running)
        return self._refuse(running) or self.admit(running)

    async def settle(self, running: RunningCall, result: Result) -> Result:
        """Pass a result through the ``after`` hooks, and send the last event of its call."""
        if self.hooks.after or result.found:
            result = await self.hooks.run_after(running, result)
        if self.listeners.feeds:
            self.listeners.tell(running, Finished, result)
        return result

    def cancel(self, wants: Callable[[RunningCall], bool]) -> None:
        """Stop calls, also those that have not started."""
        for running in [running for running in self.live if wants(running)]:
            running.cancel()

    def notice(self) -> None:
        """Wake the tasks that wait for all calls to end."""
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
                    self._changed = anyio.Event()  # shared by all tasks that close it
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
