"""Loop guard: refuse a call that a model repeats although it fails."""

from __future__ import annotations

from collections.abc import Collection

from handrail import Call, CheckedCall, FailureKind, Hook, Result
from handrail.hooks._shared import canonical, plural, quote_name, refuse


def loop_guard(*, most: int = 3, except_for: Collection[str] = ()) -> Hook:
    """Refuse a call that has failed this many times in a row with the same name and arguments.

    Another call in between, or a success, resets the count. A call with an unknown tool or invalid
    arguments is counted too: after the limit, the model gets the guard's refusal in place of the
    first message. A call that waits for approval is not counted. List tools in ``except_for`` that
    are meant to be called until they succeed.
    """
    if most < 1:
        raise ValueError(f"loop_guard(most={most}): must be at least 1.")
    guard = _RepeatedFailures(most, frozenset(except_for))
    return Hook(before=guard.before, after=guard.after)


class _RepeatedFailures:
    def __init__(self, most: int, free: frozenset[str]) -> None:
        self._most = most
        self._free = free
        self._last: tuple[str, str] | None = None
        """Name and arguments of the last call."""
        self._running: set[str] = set()
        """The keys under which it has no result yet. A hook can rewrite everything else."""
        self._failures = 0

    def before(self, call: CheckedCall) -> CheckedCall | Result:
        if call.name in self._free:
            return call
        self._note(call)
        self._running.add(call.key)
        return call if self._failures < self._most else _refusal(call, self._most)

    def after(self, call: CheckedCall | Call, result: Result) -> Result:
        if isinstance(call, Call):
            return self._after_refusal(call, result)
        if call.key in self._running:
            self._running.discard(call.key)
            if result.pending is None:
                self._failures = 0 if result.failure is None else self._failures + 1
        return result

    def _after_refusal(self, call: Call, result: Result) -> Result:
        """Count a call that failed the check, which ``before`` did not see."""
        cancelled = result.failure is not None and result.failure.kind is FailureKind.CANCELLED
        if call.name in self._free or cancelled:
            return result
        self._note(call)
        if self._failures >= self._most:
            return _refusal(call, self._most)
        self._failures += 1
        return result

    def _note(self, call: CheckedCall | Call) -> None:
        """Reset the count if this call differs from the last one."""
        this = (call.name, canonical(call))
        if this != self._last:
            self._last, self._failures = this, 0
            self._running.clear()


def _refusal(call: CheckedCall | Call, failures: int) -> Result:
    often = plural(failures, "time")
    message = (
        f"Not run: this call of {quote_name(call)} failed {often} in a row. Change its arguments, "
        "use another tool, or tell the user what is wrong."
    )
    return refuse(call, FailureKind.DENIED, message, by="loop_guard")
