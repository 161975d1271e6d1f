"""Running the host's hooks: in order, with a deadline, and closed where one breaks."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Awaitable, Callable, Sequence
from types import CoroutineType
from typing import Any, NamedTuple

from handrail._call import Call
from handrail._decision import Allow, Deny
from handrail._hook import After, Answer, Approver, Before
from handrail._loop import Expired, Stop, finish, must_pass, resumed
from handrail._output import said
from handrail._pending import Edit, Pending
from handrail._result import Kind, Result

_COROUTINE: Any = CoroutineType
_NONE: Any = object()


def _unstoppable(_stop: Stop) -> None: ...


async def _waited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _step(answer: Any) -> Any:
    """What a hook gave, if it gave it at once; else what to wait for."""
    if type(answer) is _COROUTINE:
        try:
            return resumed(answer, answer.send(None), None)
        except StopIteration as stop:
            return stop.value
    return answer


async def _value(answer: Any, seconds: float) -> Any:
    if inspect.isawaitable(answer):
        return await finish(_waited(answer), seconds, _unstoppable)
    return answer


class Unfinished(NamedTuple):
    """Hooks that were begun and not ended: what the last one gave, and those still to come."""

    answer: Any
    rest: Sequence[Before]


def swiftly(call: Call, hooks: Sequence[Before]) -> Call | Unfinished:
    """The call, if every hook passes it on at once and as it is. On asyncio only."""
    for place, hook in enumerate(hooks):
        answer: Any
        try:
            answer = hook(call)
            if type(answer) is _COROUTINE:
                answer = resumed(answer, answer.send(None), None)
        except StopIteration as stop:
            answer = stop.value
        except BaseException as error:
            if must_pass(error):
                raise
            answer = _broken(call, error)
        if answer is not call:
            return Unfinished(answer, hooks[place + 1 :])
    return call


async def passed_on(
    call: Call, hooks: Sequence[Before], seconds: float, first: Any = _NONE
) -> Call | Result:
    """The call as the hooks leave it, or the answer that one of them gave.

    ``first`` is what a hook before these gave, where one has begun.
    """
    now = call
    answers = itertools.chain(() if first is _NONE else (lambda _: first,), hooks)
    for hook in answers:
        try:
            answer = await _value(hook(now), seconds)
        except Expired:
            return _denied(call, f"did not answer within {seconds:g} seconds")
        except BaseException as error:
            if must_pass(error):
                raise
            return _broken(call, error)
        if type(answer) is not Call:
            valid = isinstance(answer, Result) and answer.call_id == call.id
            return answer if valid else _denied(call, "gave neither a call nor its result")
        if answer.id != call.id:
            return _denied(call, "gave another call")
        now = answer
    return now


async def passed_back(
    call: Call, result: Result, hooks: Sequence[After], seconds: float, *, native: bool
) -> Result:
    """The result as the hooks leave it. On asyncio (native) none is waited for without need."""
    now = result
    for hook in hooks:
        try:
            answer = _step(hook(call, now)) if native else hook(call, now)
            if type(answer) is not Result:
                answer = await _value(answer, seconds)
        except Expired:
            now = _withheld(call, f"did not answer within {seconds:g} seconds")
        except BaseException as error:
            if must_pass(error):
                raise
            now = _withheld(call, f"broke ({type(error).__name__})", said(error))
        else:
            valid = type(answer) is Result and answer.call_id == call.id
            now = answer if valid else _withheld(call, "gave no result of this call")
    return now


async def answered(
    pending: Pending, approver: Approver, *, seconds: float, waits: Callable[[Stop], None]
) -> Answer | Pending:
    """What somebody says to a question; whatever goes wrong on the way is a no."""
    try:
        answer = await finish(_waited(approver(pending)), seconds, waits)
    except Expired:
        raise
    except BaseException as error:
        if must_pass(error):
            raise
        return Deny(f"The question could not be asked ({type(error).__name__}); nothing was run.")
    return valid(pending, answer)


def valid(pending: Pending, answer: object) -> Answer | Pending:
    """An answer, if it is one, and one to this question."""
    if isinstance(answer, Allow | Deny | Edit):
        return answer
    if isinstance(answer, Pending) and answer == pending:
        return answer
    if isinstance(answer, Result) and answer.call_id == pending.call.id:
        return answer
    return Deny("The answer was none that counts, and so nothing was run.")


def _broken(call: Call, error: BaseException) -> Result:
    return _denied(call, f"broke ({type(error).__name__})", said(error))


def _denied(call: Call, how: str, detail: str = "") -> Result:
    message = f"A check before the call {how}, and so nothing was run. Tell the user."
    return Result.fail(call.id, Kind.DENIED, message, detail)


def _withheld(call: Call, how: str, detail: str = "") -> Result:
    message = (
        f"The call ended, but a check after it {how}, and so its result is withheld. It may have "
        "had its effect: check before you call again. Tell the user."
    )
    return Result.fail(call.id, Kind.BUG, message, detail)
