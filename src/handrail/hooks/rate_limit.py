"""A rate limit: a tool that was called too often is refused until some time has passed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType

from handrail import Call, Kind, Result
from handrail.hooks._hook import Clock, Hook, counted, named, refuse, tenths

_MANY = 1000
"""So many names are kept before those that were not called lately are forgotten."""


def rate_limit(
    calls: int,
    *,
    seconds: float = 1.0,
    per_tool: Mapping[str, int] = MappingProxyType({}),
    clock: Clock = time.monotonic,
) -> Hook:
    """Let each tool be called so often in any span of so many seconds; never waits.

    ``per_tool`` has the numbers of tools that may be called more or less often. A refused call
    does not count. Use its ``before``.
    """
    if min(calls, *per_tool.values(), seconds) <= 0:
        raise ValueError("a rate limit allows at least one call, in more than zero seconds")
    lately: dict[str, deque[float]] = {}

    async def before(call: Call) -> Call | Result:
        now = clock()
        if len(lately) >= _MANY:
            for name in [name for name, times in lately.items() if now - times[-1] >= seconds]:
                del lately[name]
        most = per_tool.get(call.name, calls)
        times = lately.setdefault(call.name, deque(maxlen=most))
        if len(times) == most and now - times[0] < seconds:
            return _refused(call, most, seconds, times[0] + seconds - now)
        times.append(now)
        return call

    return Hook(before=before)


def _refused(call: Call, most: int, seconds: float, wait: float) -> Result:
    message = (
        f"The tool {named(call)} may be called {counted(most, 'time')} in {seconds:g} seconds; "
        f"nothing was run. Call it again in {tenths(wait)} seconds, and do something else first."
    )
    return refuse(call, Kind.TRANSIENT, message, by="rate_limit")
