"""The one shape of all ready-made hooks, and what they have in common."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from handrail import Call, Kind, Registry, Result, Tool, Toolset

Before: TypeAlias = Callable[[Call], Awaitable[Call | Result]]
"""Passes a call on, as it is or rewritten; or answers it, and then it does not run."""
After: TypeAlias = Callable[[Call, Result], Awaitable[Result]]
"""Passes a result on, as it is or rewritten."""
Clock: TypeAlias = Callable[[], float]
"""Says what time it is, in seconds."""

_BY = "refused by handrail.hooks."
_LONGEST_NAME = 80


async def pass_on(call: Call) -> Call:
    """A ``before`` that does nothing."""
    return call


async def pass_back(_call: Call, result: Result) -> Result:
    """An ``after`` that does nothing."""
    return result


@dataclass(frozen=True, slots=True)
class Hook:
    """Two sides of one hook; a side that it does not need passes everything on."""

    before: Before = pass_on
    after: After = pass_back


def refuse(call: Call, kind: Kind, message: str, *, by: str) -> Result:
    """Answer a call with a refusal that says, to whoever runs the program, which hook it was."""
    return Result.fail(call.id, kind, message, _BY + by)


def was_refused(result: Result) -> bool:
    """Whether one of the ready-made hooks refused the call, so that no tool was reached."""
    return result.failure is not None and result.failure.detail.startswith(_BY)


def named(call: Call) -> str:
    """A call's name for a message: a model may have made up a very long one."""
    name = call.name
    return repr(name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…")


def canonical(call: Call) -> str:
    """A call's arguments as text that does not depend on key order or white space."""
    try:
        args = json.loads(call.args) if isinstance(call.args, str) else dict(call.args)
        return json.dumps(args, sort_keys=True, separators=(",", ":"), default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(call.args)  # no JSON: it will be refused, and is itself only


def find(tools: Toolset | Registry, call: Call) -> Tool[..., Any] | None:
    """The tool that a call will reach, if there is one."""
    known = tools.snapshot() if isinstance(tools, Registry) else tools
    return known.find(call.name)


def counted(number: int, what: str) -> str:
    """So many of something, in words for a model."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def tenths(seconds: float) -> str:
    """A wait in words for a model, never too short."""
    return f"{math.ceil(round(seconds * 10, 6)) / 10:g}"
