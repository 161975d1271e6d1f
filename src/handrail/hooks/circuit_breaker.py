"""A circuit breaker: a tool that keeps failing is left alone for a while."""

from __future__ import annotations

import time
from dataclasses import dataclass

from handrail import Call, Kind, Result
from handrail.hooks._hook import Clock, Hook, counted, named, refuse, tenths, was_refused

_BROKEN = frozenset((Kind.TRANSIENT, Kind.TIMEOUT, Kind.UNKNOWN, Kind.BUG))
_MANY = 10_000
"""So many calls are known to be under way; a cancelled batch leaves some that never end."""


@dataclass(slots=True)
class _Trouble:
    """A tool that has failed: how often in a row, and since when it is left alone."""

    failures: int = 0
    since: float = 0.0


def circuit_breaker(
    *, failures: int = 5, cooldown: float = 30.0, clock: Clock = time.monotonic
) -> Hook:
    """Refuse a tool's calls for a while once so many in a row have failed for the tool's reasons.

    After the cooldown one call is let through. If it works, all are again; if not, the cooldown
    begins anew. Failures count whose kind is transient, timeout, unknown or bug. Use both sides.
    """
    if failures < 1:
        raise ValueError("a circuit breaker opens after at least one failure")
    breaker = _Breaker(failures, cooldown, clock)
    return Hook(breaker.before, breaker.after)


class _Breaker:
    def __init__(self, most: int, cooldown: float, clock: Clock) -> None:
        self._most = most
        self._cooldown = cooldown
        self._clock = clock
        self._troubles: dict[str, _Trouble] = {}
        self._under_way: dict[str, None] = {}
        """The ids of calls that were let through: other results say nothing of a tool."""

    async def before(self, call: Call) -> Call | Result:
        trouble = self._troubles.get(call.name)
        if trouble is not None and trouble.failures >= self._most:
            now = self._clock()
            wait = trouble.since + self._cooldown - now
            if wait > 0:
                return _refused(call, trouble.failures, wait)
            trouble.since = now  # this one finds out; if its result never comes, the next one will
        self._under_way[call.id] = None
        if len(self._under_way) > _MANY:
            del self._under_way[next(iter(self._under_way))]
        return call

    async def after(self, call: Call, result: Result) -> Result:
        if call.id in self._under_way:
            del self._under_way[call.id]
            self._learn(call.name, result)
        return result

    def _learn(self, name: str, result: Result) -> None:
        kind = None if result.failure is None else result.failure.kind
        if kind in _BROKEN and not was_refused(result):
            trouble = self._troubles.setdefault(name, _Trouble())
            trouble.failures += 1
            trouble.since = self._clock()
        elif kind in (None, Kind.FAILED):  # the tool did its work, whatever it says
            self._troubles.pop(name, None)
        elif name in self._troubles:  # nothing was found out: let another one try
            self._troubles[name].since = self._clock() - self._cooldown


def _refused(call: Call, failures: int, wait: float) -> Result:
    often = counted(failures, "time")
    message = (
        f"The tool {named(call)} failed {often} in a row and is left alone for a while; nothing "
        f"was run. It may be tried again in {tenths(wait)} seconds: do something else first, or "
        "tell the user."
    )
    return refuse(call, Kind.TRANSIENT, message, by="circuit_breaker")
