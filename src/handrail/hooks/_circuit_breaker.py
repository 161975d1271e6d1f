"""Circuit breaker: a tool failing repeatedly is paused for a while."""

from __future__ import annotations

import time
from dataclasses import dataclass

from handrail import CheckedCall, FailureKind, Hook, Result
from handrail.hooks._shared import Clock, Next, plural, quote_name, refuse, tenths, was_refused

_BROKEN = frozenset(
    (FailureKind.TRANSIENT, FailureKind.TIMEOUT, FailureKind.UNKNOWN, FailureKind.BUG)
)


@dataclass(slots=True)
class _Circuit:
    """A tool's failures in a row, and when its pause began."""

    failures: int = 0
    since: float = 0.0


def circuit_breaker(
    *, failures: int = 5, cooldown: float = 30.0, clock: Clock = time.monotonic
) -> Hook:
    """Reject a tool's calls for ``cooldown`` seconds after this many failures in a row.

    After the cooldown, one call passes. If it succeeds, all calls pass again. If not, the cooldown
    starts again. Only the failure kinds transient, timeout, unknown and bug are counted. The hook
    wraps a call's run: list it after ``cache``, to keep cached results out.
    """
    if failures < 1:
        raise ValueError(f"circuit_breaker(failures={failures}): must be at least 1.")
    breaker = _ToolCircuits(failures, cooldown, clock)
    return Hook(around=breaker.around)


class _ToolCircuits:
    def __init__(self, most: int, cooldown: float, clock: Clock) -> None:
        self._most = most
        self._cooldown = cooldown
        self._clock = clock
        self._circuits: dict[str, _Circuit] = {}

    async def around(self, call: CheckedCall, run: Next) -> Result:
        circuit = self._circuits.get(call.name)
        if circuit is not None and circuit.failures >= self._most:
            now = self._clock()
            wait = circuit.since + self._cooldown - now
            if wait > 0:
                return _refusal(call, circuit.failures, wait)
            circuit.since = now  # this call is the probe, or a later one if it never ends
        result = await run()
        self._learn(call.name, result)
        return result

    def _learn(self, name: str, result: Result) -> None:
        kind = None if result.failure is None else result.failure.kind
        if kind in _BROKEN and not was_refused(result):
            circuit = self._circuits.setdefault(name, _Circuit())
            circuit.failures += 1
            circuit.since = self._clock()
        elif kind in (None, FailureKind.FAILED):  # the tool did its work
            self._circuits.pop(name, None)
        elif name in self._circuits:  # the probe showed nothing: let another call pass
            self._circuits[name].since = self._clock() - self._cooldown


def _refusal(call: CheckedCall, failures: int, wait: float) -> Result:
    often = plural(failures, "time")
    message = (
        f"Not run: {quote_name(call)} failed {often} in a row and is paused. Retry in "
        f"{tenths(wait)} s, and continue with other work until then, or tell the user."
    )
    return refuse(call, FailureKind.TRANSIENT, message, by="circuit_breaker")
