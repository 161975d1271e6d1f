"""Loop guard: refuse a call that a model repeats although it fails, or brings nothing new."""

from __future__ import annotations

from collections.abc import Collection

from handrail import READ, Call, CheckedCall, FailureKind, Hook, Result, Text
from handrail.hooks._shared import canonical, plural, quote_name, refuse


def loop_guard(*, most: int = 3, repeats: int | None = 3, except_for: Collection[str] = ()) -> Hook:
    """Refuse a call that is repeated in a row with the same name and arguments.

    A call that has failed ``most`` times is refused. A call with an unknown tool or invalid
    arguments is counted too: after the limit, the model gets the guard's refusal in place of the
    first message. A call that waits for approval is not counted.

    A call that has succeeded ``repeats`` times has a note to the model in its last result, and is
    refused from then on. A tool that only reads is counted as long as its result stays the same.
    With ``repeats=None``, successes are not counted.

    Another call in between resets both counts. List tools in ``except_for`` that are meant to be
    called until something happens.
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
        """Name and arguments of the last call."""
        self._running: set[str] = set()
        """The keys under which it has no result yet. A hook can rewrite everything else."""
        self._failures = 0
        self._successes = 0
        self._text = ""
        """The last result."""

    def before(self, call: CheckedCall) -> CheckedCall | Result:
        if call.name in self._free:
            return call
        self._note(call)
        if self._failures >= self._most:
            return _refuse_failing(call, self._most)
        if self._repeats is not None and self._successes >= self._repeats:
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
            self._failures, self._successes = self._failures + 1, 0
            return result
        return self._after_success(call, result)

    def _after_success(self, call: CheckedCall, result: Result) -> Result:
        is_new = call.spec.effect == READ and result.text != self._text
        self._failures, self._successes = 0, 1 if is_new else self._successes + 1
        self._text = result.text
        if self._repeats is None or self._successes < self._repeats:
            return result
        return _warn(call, result, self._successes)

    def _after_refusal(self, call: Call, result: Result) -> Result:
        """Count a call that failed the check, which ``before`` did not see."""
        cancelled = result.failure is not None and result.failure.kind is FailureKind.CANCELLED
        if call.name in self._free or cancelled:
            return result
        self._note(call)
        if self._failures >= self._most:
            return _refuse_failing(call, self._most)
        self._failures += 1
        return result

    def _note(self, call: CheckedCall | Call) -> None:
        """Reset the counts if this call differs from the last one."""
        this = (call.name, canonical(call))
        if this != self._last:
            self._last, self._failures, self._successes = this, 0, 0
            self._running.clear()


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
    """Return a result with a note that the call was repeated."""
    often = plural(successes, "time")
    note = f"[Note: this call of {quote_name(call)} ran {often} in a row. Do not repeat it.]"
    parts = (*result.parts, Text(note)) if result.parts else ()
    return result._replace(text=f"{result.text}\n{note}", parts=parts)
