"""Rate limit: reject calls to a tool called too often."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType

from handrail import CheckedCall, FailureKind, Hook, Result
from handrail.hooks._shared import Clock, plural, quote_name, refuse, tenths

_MAX_TOOLS = 1000
"""Tools to remember. Beyond this, those without recent calls are dropped."""


def rate_limit(
    calls: int,
    *,
    seconds: float = 1.0,
    per_tool: Mapping[str, int] = MappingProxyType({}),
    clock: Clock = time.monotonic,
) -> Hook:
    """Allow ``calls`` calls to each tool in any period of ``seconds``. Rejects others, never waits.

    ``per_tool`` has other limits for some tools. A rejected call is not counted, nor is one failing
    the check.
    """
    if min(calls, *per_tool.values(), seconds) <= 0:
        raise ValueError("rate_limit: calls, per_tool and seconds must be greater than 0.")
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


def _refusal(call: CheckedCall, most: int, seconds: float, wait: float) -> Result:
    message = (
        f"Not run: {quote_name(call)} is limited to {plural(most, 'call')} in {seconds:g} s. Retry "
        f"in {tenths(wait)} s, and continue with other work until then."
    )
    return refuse(call, FailureKind.TRANSIENT, message, by="rate_limit")
