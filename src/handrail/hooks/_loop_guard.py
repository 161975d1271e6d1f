"""Loop guard: reject a call a model repeats despite failures, or without new results."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import NamedTuple

from handrail import READ, Call, CheckedCall, FailureKind, Hook, Result, Text
from handrail.hooks._shared import canonical, plural, quote_name, refuse

_MAX_OWNERS = 1_000
"""Principals and runs whose last call is remembered."""


def loop_guard(*, most: int = 3, repeats: int | None = 3, except_for: Collection[str] = ()) -> Hook:
    """Reject a call repeated in a row with the same name and arguments.

    A call is rejected after failing ``most`` times. A call with an unknown tool or invalid
    arguments is counted too: after the limit, the model gets the guard's refusal in place of the
    first message. A call waiting for approval is not counted.

    After ``repeats`` successes, a call's last result has a note to the model, and further calls are
    rejected. Each principal and each run has its own count. A read-only tool is counted as long as
    its result stays the same. With ``repeats=None``, successes are not counted.

    Another call in between resets both counts. In ``except_for``, list tools meant to be called
    until something happens.
    """
    if most < 1 or (repeats is not None and repeats < 1):
        raise ValueError(f"loop_guard(most={most}, repeats={repeats}): must be at least 1.")
    guard = _Repetitions(most, repeats, frozenset(except_for))
    return Hook(before=guard.before, after=guard.after)


class _Repetitions:
    def __init__(self, most: int, repeats: int | None, free: frozenset[str]) -> None:
        self._most = most
        self._repeats = repeats
        self._free = free
        self._last: tuple[str, str] | None = None
        """The last call's name and arguments."""
        self._running: set[str] = set()
        """The keys under which it has no result yet. A hook can rewrite everything else."""
        self._failures = 0
        self._successes: OrderedDict[tuple[str | None, str], _Success] = OrderedDict()
        """By principal and run: each has its own calls."""

    def before(self, call: CheckedCall) -> CheckedCall | Result:
        if call.name in self._free:
            return call
        self._note(call)
        if self._failures >= self._most:
            return _refuse_failing(call, self._most)
        owner, this = _owner(call), (call.name, canonical(call))
        found = self._successes.get(owner)
        if found is not None and found.call != this:
            del self._successes[owner]
        elif self._repeats is not None and found is not None and found.times >= self._repeats:
            return _refuse_repeated(call, self._repeats)
        self._running.add(call.key)
        return call

    def after(self, call: CheckedCall | Call, result: Result) -> Result:
        if isinstance(call, Call):
            return self._after_refusal(call, result)
        if call.key not in self._running:
            return result
        self._running.discard(call.key)
        if result.pending is not None:
            return result
        if result.failure is not None:
            self._failures += 1
            self._successes.pop(_owner(call), None)
            return result
        return self._after_success(call, result)

    def _after_success(self, call: CheckedCall, result: Result) -> Result:
        self._failures, owner = 0, _owner(call)
        this, before = (call.name, canonical(call)), self._successes.pop(owner, None)
        is_new = before is None or (call.spec.effect == READ and result.text != before.text)
        times = 1 if before is None or is_new else before.times + 1
        self._successes[owner] = _Success(this, times, result.text)
        if len(self._successes) > _MAX_OWNERS:
            self._successes.popitem(last=False)
        return (
            result if self._repeats is None or times < self._repeats else _warn(call, result, times)
        )

    def _after_refusal(self, call: Call, result: Result) -> Result:
        """Count a call rejected by the check, which ``before`` did not see."""
        cancelled = result.failure is not None and result.failure.kind is FailureKind.CANCELLED
        if call.name in self._free or cancelled:
            return result
        self._note(call)
        if self._failures >= self._most:
            return _refuse_failing(call, self._most)
        self._failures += 1
        return result

    def _note(self, call: CheckedCall | Call) -> None:
        """Reset the failure count if this call differs from the last one."""
        this = (call.name, canonical(call))
        if this != self._last:
            self._last, self._failures = this, 0
            self._running.clear()


class _Success(NamedTuple):
    """A principal's last call in a run, its successes in a row, and its result."""

    call: tuple[str, str]
    times: int
    text: str


def _owner(call: CheckedCall) -> tuple[str | None, str]:
    return call.turn.principal, call.turn.run_id


def _refuse_failing(call: CheckedCall | Call, failures: int) -> Result:
    often = plural(failures, "time")
    message = (
        f"Not run: this call of {quote_name(call)} failed {often} in a row. Change its arguments, "
        "use another tool, or tell the user what is wrong."
    )
    return refuse(call, FailureKind.DENIED, message, by="loop_guard")


def _refuse_repeated(call: CheckedCall, repeats: int) -> Result:
    often = plural(repeats, "time")
    message = (
        f"Not run: this call of {quote_name(call)} ran {often} in a row. Use the result that you "
        "have, change the arguments, or use another tool."
    )
    return refuse(call, FailureKind.DENIED, message, by="loop_guard")


def _warn(call: CheckedCall, result: Result, successes: int) -> Result:
    """Return a result with a note about the repeated call."""
    often = plural(successes, "time")
    note = f"[Note: this call of {quote_name(call)} ran {often} in a row. Do not repeat it.]"
    parts = (*result.parts, Text(note)) if result.parts else ()
    return result._replace(text=f"{result.text}\n{note}", parts=parts)
