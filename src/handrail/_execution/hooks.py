"""Hooks: your code before a call, after it, and around its run. A failing hook denies the call."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import CoroutineType
from typing import Any, TypeGuard, cast

import anyio

from handrail._execution.running import RequestedCall, RunningCall, fail, keep_finds, not_begun
from handrail._execution.settings import After, Around, Before, Hook
from handrail._permissions.checked_call import CheckedCall, with_decision
from handrail._permissions.decide import is_quick
from handrail._permissions.deciding import Deciding
from handrail._support.loop import Expired, Stop, complete, finish, must_pass
from handrail._values.call import Call
from handrail._values.decision import Allow, Decision
from handrail._values.errors import StopRun, describe_error
from handrail._values.result import FailureKind, Result

log = logging.getLogger("handrail")
MAX_DEPTH = 20
"""Depth of calls hooks make about one another."""
_COROUTINE: Any = CoroutineType


class Hooks:
    """An executor's hooks, by stage."""

    def __init__(
        self, hooks: Sequence[Hook], seconds: float, check: Callable[..., CheckedCall | Result]
    ) -> None:
        self.before: list[Before] = [hook.before for hook in hooks if hook.before is not None]
        self.after: list[After] = [hook.after for hook in reversed(hooks) if hook.after is not None]
        self.around: list[Around] = [hook.around for hook in hooks if hook.around is not None]
        self._frames = all(hook.frames for hook in hooks)
        self._seconds = seconds
        self._check = check
        self._deciding = Deciding(seconds)

    async def decide_apart(self, running: RunningCall) -> Result | None:
        """Decide a call if that may take long. Returns its result if it was stopped."""
        if not may_be_long(running):
            return None
        decision = await self.decide(running)
        if decision is None:
            return not_begun(running.record)
        running.checked = with_decision(running.checked, decision)
        return None

    async def decide(self, running: RunningCall) -> Decision | None:
        """Return the decision about a call, or None if it was stopped before."""
        return await self._deciding.decide(
            running.record.view.policy, running.checked, running.record
        )

    async def decide_more(self, running: RunningCall, checked: CheckedCall) -> Decision:
        """Return the decision about a running call with more accesses. A stop ends its tool."""
        decision: Any = await self._deciding.decide(running.record.view.policy, checked, None)
        return cast("Decision", decision)

    def guard(self, running: RunningCall) -> Awaitable[Result | None]:
        """Run the hooks before a call, and ask a slow policy. Returns a result."""
        return (
            self.run_before(running) if running.record.view.policy is None else self._guard(running)
        )

    async def _guard(self, running: RunningCall) -> Result | None:
        result = await self.run_before(running) if self.before else None
        return result or await self.decide_apart(running)

    async def run_before(self, running: RunningCall) -> Result | None:
        """Pass a checked call through each hook. Returns a result if one answers or refuses it."""
        record = running.record
        if _is_too_deep(record):
            return fail(record, FailureKind.DENIED, _TOO_DEEP)
        for hook in self.before:
            answer: object
            try:
                answer = hook(running.checked)
                if answer is running.checked:
                    continue
                answer = await _resolve(answer, self._seconds, record.may_wait)
            except BaseException as error:  # noqa: BLE001  raised again if it must pass
                answer = self._refuse(record, error)
            if answer is not running.checked:
                result = await self._use_answer(answer, running)
                if result is not None:
                    return result
        return None

    def _refuse(self, record: RequestedCall, error: BaseException) -> Result:
        """Return the result for a call with a failed hook. Raises errors that must pass."""
        if isinstance(error, Expired) and record.stopped:
            return not_begun(record)
        if isinstance(error, Expired):
            return _deny(record, f"timed out after {self._seconds:g} s")
        if isinstance(error, StopRun):
            return stop_run(record, error)
        if must_pass(error):
            raise error
        log.error("a hook before a call of %r failed", record.call.name, exc_info=error)
        return _deny(record, f"failed ({type(error).__name__})", describe_error(error))

    async def _use_answer(self, answer: object, running: RunningCall) -> Result | None:
        """Use a hook's answer. A call is checked again; a result needs an allowed call."""
        record = running.record
        if _is_result_of(answer, record):
            if answer.failure is not None:
                return answer
            decision = await self.decide(running)
            return answer if isinstance(decision, Allow) else None
        if isinstance(answer, Call) and answer.id == record.call.id:
            checked = self._check(answer, record)
            if isinstance(checked, Result):
                return checked
            running.notes += running.checked.parsed.repairs
            running.recheck(checked, running.added)
            running.is_rewritten = True
            return None
        log.error("a hook before a call of %r returned %r", record.call.name, answer)
        another = isinstance(answer, Call | CheckedCall)
        return _deny(
            record,
            "returned another call" if another else "returned neither a call nor its result",
        )

    async def run_after(self, record: RequestedCall, result: Result) -> Result:
        """Pass a result through each hook. A failing one withholds it; only searches find tools."""
        if _is_too_deep(record):
            return fail(record, FailureKind.BUG, _TOO_DEEP_AFTER)
        for hook in self.after:
            answer: object
            try:
                answer = hook(record.subject, result)
                if type(answer) is not Result:
                    answer = await _resolve(answer, self._seconds, _ignore)
            except BaseException as error:  # noqa: BLE001  raised again if it must pass
                answer = self._withhold(record, result, error)
            result = _take_result(record, result, answer)
        result = keep_finds(record, result) if result.found else result
        if not (self._frames and record.is_framed):
            return result
        from handrail._sources.frames import frame_result  # few tools need it

        subject = record.subject
        call = subject.call if isinstance(subject, CheckedCall) else subject
        return frame_result(result, call.name)

    def _withhold(self, record: RequestedCall, result: Result, error: BaseException) -> Result:
        """Return the result after a failed ``after`` hook. Raises errors that must pass."""
        if isinstance(error, Expired):
            return _withhold_result(record, f"timed out after {self._seconds:g} s")
        if isinstance(error, StopRun):
            stop_run(record, error)
            return result
        if must_pass(error):
            raise error
        log.error("a hook after a call of %r failed", record.call.name, exc_info=error)
        return _withhold_result(record, f"failed ({type(error).__name__})", describe_error(error))

    async def run_around(
        self, invoke: Callable[[RunningCall], Awaitable[Result]], running: RunningCall
    ) -> Result:
        """Run a call inside its ``around`` hooks."""
        once = _SingleRun(invoke, running)
        step: Any = once.run
        for hook in reversed(self.around):
            step = partial(hook, running.checked, step)
        result: Any
        try:
            result = await finish(step(), math.inf, running.record.may_wait)
        except BaseException as error:  # noqa: BLE001  raised again if it must pass
            result = error
        await once.close()
        if isinstance(result, BaseException):
            result = self._handle_around_error(running, result, once.result)
        elif once.result is not None and once.result.pending is not None:
            result = once.result  # a hook cannot change a pending call
        elif not _is_result_of(result, running.record):
            log.error("a hook around a call of %r returned %r", running.record.call.name, result)
            result = _report_lost(running, "returned no result of it", repr(result))
        answer: Result = result
        return answer

    def _handle_around_error(
        self, running: RunningCall, error: BaseException, result: Result | None
    ) -> Result:
        """Return the result after an ``around`` hook failed. Raises errors that must pass."""
        record = running.record
        if isinstance(error, Expired) and record.stopped and not record.begun:
            return not_begun(record)
        if isinstance(error, StopRun):
            denied = stop_run(record, error)
            return denied if result is None else result
        if must_pass(error):
            raise error
        if result is not None and result.pending is not None:
            return result
        log.error("a hook around a call of %r failed", record.call.name, exc_info=error)
        return _report_lost(running, f"failed ({type(error).__name__})", describe_error(error))


class _SingleRun:
    """Runs a call's tool for its ``around`` hooks: once, and only while the call is scheduled."""

    def __init__(
        self, invoke: Callable[[RunningCall], Awaitable[Result]], running: RunningCall
    ) -> None:
        self.result: Result | None = None
        self._invoke = invoke
        self._running = running
        self._ended: anyio.Event | None = None
        self._is_closed = False

    async def run(self) -> Result:
        """Run the tool."""
        if self._is_closed:
            raise RuntimeError("`run` was awaited after its call had ended.")
        if self._ended is not None:
            raise RuntimeError("`run` was awaited twice, which could repeat a side effect.")
        self._ended = anyio.Event()
        self._running.record.stop = None  # from now on, a stop ends the tool, not the hooks
        try:
            self.result = await self._invoke(self._running)
        finally:
            self._running.record.stop = None
            self._ended.set()
        return self.result

    async def close(self) -> None:
        """Do not run the tool any more, and wait for it if a hook runs it in another task."""
        self._is_closed = True
        if self._ended is not None and not self._ended.is_set():
            with anyio.CancelScope(shield=True):
                await self._ended.wait()


def may_be_long(running: RunningCall) -> bool:
    """Return whether a checked call's policy must stay out of the event loop."""
    policy = running.record.view.policy
    return policy is not None and not is_quick(policy, running.checked)


def _is_result_of(answer: object, record: RequestedCall) -> TypeGuard[Result]:
    """Return whether this is a result of a call, and not a pending one."""
    if not isinstance(answer, Result):
        return False
    return answer.call_id == record.call.id and answer.pending is None


def _take_result(record: RequestedCall, result: Result, answer: object) -> Result:
    """Return a hook's result, if it belongs to the same call. A pending result stays pending."""
    if not isinstance(answer, Result) or answer.call_id != record.call.id:
        log.error("a hook after a call of %r returned %r", record.call.name, answer)
        answer = _withhold_result(record, "returned no result of this call")
    return answer if answer.pending is result.pending else result


async def _resolve(answer: Any, seconds: float, waits: Callable[[Stop], None]) -> Any:
    if type(answer) is _COROUTINE:
        return await complete(answer, seconds, waits)
    if inspect.isawaitable(answer):
        return await complete(_await(answer), seconds, waits)
    return answer


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _ignore(_stop: Stop) -> None: ...


def _is_too_deep(record: RequestedCall) -> bool:
    return record.parent is not None and len(record.enclosing()) >= MAX_DEPTH


def stop_run(record: RequestedCall, error: StopRun) -> Result:
    """Deny a call, close its turn, and let the run end."""
    reason = str(error) or StopRun.NO_REASON
    record.turn.close(reason)
    return fail(record, FailureKind.DENIED, StopRun.describe(reason))


def _deny(record: RequestedCall, how: str, detail: str = "") -> Result:
    message = f"Not run: a check before the call {how}. Tell the user."
    return fail(record, FailureKind.DENIED, message, detail or f"a hook {how}")


def _withhold_result(record: RequestedCall, how: str, detail: str = "") -> Result:
    message = (
        f"Result withheld: a check after the call {how}. The call may have taken effect: check "
        "before you call it again. Tell the user."
    )
    return fail(record, FailureKind.BUG, message, detail or f"a hook {how}")


def _report_lost(running: RunningCall, how: str, detail: str) -> Result:
    """Return the result for a failed ``around`` hook, before or after the tool ran."""
    record = running.record
    if not record.begun:
        message = f"Not run: a check around the call {how}. Tell the user."
        return fail(record, FailureKind.BUG, message, detail)
    repeatable = running.checked.is_repeatable
    message = (
        f"Result lost: a check around the call {how}. The call may have taken effect: check "
        "before you call it again. Tell the user."
    )
    kind = FailureKind.BUG if repeatable else FailureKind.UNKNOWN
    return fail(record, kind, message, detail)


_TOO_DEEP = "Not run: checks of calls are nested without end. Tell the user."
_TOO_DEEP_AFTER = (
    "Result withheld: checks of results are nested without end. The call may have taken effect: "
    "check before you call it again. Tell the user."
)
