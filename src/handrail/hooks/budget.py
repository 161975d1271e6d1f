"""A budget: so many calls, and no more."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from handrail import Call, Kind, Result
from handrail.hooks._hook import Hook, counted, named, refuse

_OTHERS = ""
"""The name under which tools without a number of their own are counted; no tool has it."""


def budget(*, calls: int | None = None, per_tool: Mapping[str, int] = MappingProxyType({})) -> Hook:
    """Refuse calls past a number in all, or past a number of one tool's.

    Whatever is let through counts, however it ends; what is refused does not. Make one for each
    run. Use its ``before``.
    """
    made: Counter[str] = Counter()
    most = math.inf if calls is None else calls

    async def before(call: Call) -> Call | Result:
        if made.total() >= most:
            return _refused(call, counted(calls or 0, "call"), "Finish with what you have.")
        if made[call.name] >= per_tool.get(call.name, math.inf):
            whose = f"{counted(per_tool[call.name], 'call')} of {named(call)}"
            return _refused(call, whose, "Use another tool, or finish with what you have.")
        made[call.name if call.name in per_tool else _OTHERS] += 1
        return call

    return Hook(before=before)


def _refused(call: Call, what: str, advice: str) -> Result:
    message = f"The budget of {what} is used up; nothing was run. {advice}"
    return refuse(call, Kind.DENIED, message, by="budget")
