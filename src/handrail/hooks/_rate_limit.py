"""Rate limit: reject calls to a tool called too often."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from handrail import CheckedCall, FailureKind, Hook, Result
from handrail.hooks._shared import Clock, plural, quote_name, refuse, tenths

_MAX_TOOLS = 1000
"""Tools to remember. Beyond this, those without recent calls are dropped."""


class Rates(Protocol):
    """Counts calls for several processes."""

    def check(self, most: int, /) -> None:
        """Raise ValueError for a limit too large to count."""
        ...

    async def take(self, call: CheckedCall, most: int, seconds: float, /) -> float | None:
        """Count a call. Returns None, or the seconds until it would be accepted."""
        ...


def rate_limit(
    calls: int,
    *,
    seconds: float = 1.0,
    per_tool: Mapping[str, int] = MappingProxyType({}),
    clock: Clock = time.monotonic,
    rates: Rates | None = None,
) -> Hook:
    """Allow ``calls`` calls to each tool in any period of ``seconds``. Rejects others, never waits.

    ``per_tool`` has other limits for some tools. A rejected call is not counted, nor is one failing
    the check. With ``rates``, such as ``handrail.shared.SharedRates``, several processes share the
    limits.
    """
    if min(calls, *per_tool.values(), seconds) <= 0:
        raise ValueError("rate_limit: calls, per_tool and seconds must be greater than 0.")
    if rates is not None:
        return Hook(before=_before_shared(rates, calls, per_tool, seconds))
    lately: dict[str, deque[float]] = {}

    def before(call: CheckedCall) -> CheckedCall | Result:
        now = clock()
        if len(lately) >= _MAX_TOOLS:
            for name in [name for name, times in lately.items() if now - times[-1] >= seconds]:
                del lately[name]
        most = per_tool.get(call.name, calls)
        times = lately.setdefault(call.name, deque(maxlen=most))
        if len(times) == most and now - times[0] < seconds:
            return _refusal(call, most, seconds, times[0] + seconds - now)
        times.append(now)
        return call

    return Hook(before=before)


def _before_shared(
    rates: Rates, calls: int, per_tool: Mapping[str, int], seconds: float
) -> Callable[[CheckedCall], Awaitable[CheckedCall | Result]]:
    rates.check(max(calls, *per_tool.values(), calls))

    async def before(call: CheckedCall) -> CheckedCall | Result:
        most = per_tool.get(call.name, calls)
        wait = await rates.take(call, most, seconds)
        return call if wait is None else _refusal(call, most, seconds, wait)

    return before


def _refusal(call: CheckedCall, most: int, seconds: float, wait: float) -> Result:
    message = (
        f"Not run: {quote_name(call)} is limited to {plural(most, 'call')} in {seconds:g} s. Retry "
        f"in {tenths(wait)} s, and continue with other work until then."
    )
    return refuse(call, FailureKind.TRANSIENT, message, by="rate_limit")
