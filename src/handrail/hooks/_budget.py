"""Budget: a maximum for calls."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from handrail import Call, CheckedCall, FailureKind, Hook, Result
from handrail.hooks._shared import plural, quote_name, refuse

_OTHERS = ""
"""The name under which tools without a separate limit are counted. No tool has it."""


def budget(*, calls: int | None = None, per_tool: Mapping[str, int] = MappingProxyType({})) -> Hook:
    """Reject calls over a maximum in total, or over a maximum for one tool.

    Every accepted call is counted, whatever its result, including calls to unknown tools or with
    invalid arguments. A rejected call is not counted. Create one hook for each run.
    """
    counter = _CallCounter(calls, per_tool)
    return Hook(before=counter.before, after=counter.after)


class _CallCounter:
    def __init__(self, calls: int | None, per_tool: Mapping[str, int]) -> None:
        self._calls = calls
        self._per_tool = per_tool
        self._made: Counter[str] = Counter()

    def before(self, call: CheckedCall) -> CheckedCall | Result:
        return self._count(call) or call

    def after(self, call: CheckedCall | Call, result: Result) -> Result:
        # `before` did not see a call that failed the check; a cancellation is not the model's doing
        cancelled = result.failure is not None and result.failure.kind is FailureKind.CANCELLED
        if isinstance(call, CheckedCall) or cancelled:
            return result
        return self._count(call) or result

    def _count(self, call: CheckedCall | Call) -> Result | None:
        """Count a call. Returns a refusal if the budget is used up."""
        made, most = self._made, math.inf if self._calls is None else self._calls
        if made.total() >= most:
            return _refusal(call, plural(self._calls or 0, "call"), "Finish with what you have.")
        if made[call.name] >= self._per_tool.get(call.name, math.inf):
            whose = f"{plural(self._per_tool[call.name], 'call')} of {quote_name(call)}"
            return _refusal(call, whose, "Use another tool, or finish with what you have.")
        made[call.name if call.name in self._per_tool else _OTHERS] += 1
        return None


def _refusal(call: CheckedCall | Call, what: str, advice: str) -> Result:
    message = f"Not run: the budget of {what} is used up. {advice}"
    return refuse(call, FailureKind.DENIED, message, by="budget")
