"""A loop guard: a model that sends the same failing call again and again is told to stop."""

from __future__ import annotations

from collections.abc import Collection

from handrail import Call, Kind, Result
from handrail.hooks._hook import Hook, canonical, counted, named, refuse


def loop_guard(*, most: int = 3, except_for: Collection[str] = ()) -> Hook:
    """Refuse a call that has failed so many times in a row with the same name and arguments.

    Another call in between, or a success, begins the count anew. Tools that are meant to be asked
    again until they succeed are named in ``except_for``. Use both sides.
    """
    if most < 1:
        raise ValueError("a loop guard lets a call through at least once")
    guard = _Guard(most, frozenset(except_for))
    return Hook(guard.before, guard.after)


class _Guard:
    def __init__(self, most: int, free: frozenset[str]) -> None:
        self._most = most
        self._free = free
        self._same: tuple[str, str] | None = None
        """The call that was made last."""
        self._under_way: set[str] = set()
        """The ids under which it has no result yet; a hook may rewrite all else of a call."""
        self._failures = 0

    async def before(self, call: Call) -> Call | Result:
        if call.name in self._free:
            return call
        this = (call.name, canonical(call))
        if this != self._same:
            self._same, self._failures = this, 0
            self._under_way.clear()
        self._under_way.add(call.id)
        return call if self._failures < self._most else _refused(call, self._most)

    async def after(self, call: Call, result: Result) -> Result:
        if call.id in self._under_way:
            self._under_way.discard(call.id)
            self._failures = 0 if result.failure is None else self._failures + 1
        return result


def _refused(call: Call, failures: int) -> Result:
    often = counted(failures, "time")
    message = (
        f"The same call of {named(call)} failed {often} in a row; it was not run again. "
        "Change its arguments, use another tool, or tell the user what stands in the way."
    )
    return refuse(call, Kind.DENIED, message, by="loop_guard")
