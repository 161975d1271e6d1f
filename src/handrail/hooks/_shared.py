"""Names, arguments and refusals, shared by the ready-made hooks."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from handrail import Call, CheckedCall, FailureKind, Result

Clock: TypeAlias = Callable[[], float]
"""Returns the time, in seconds."""
Next: TypeAlias = Callable[[], Awaitable[Result]]
"""Runs the call wrapped by a hook."""

REFUSED_BY = "refused_by"
"""The key in a refusal's metadata with the hook's name."""
_MAX_NAME_CHARS = 80


def refuse(call: CheckedCall | Call, kind: FailureKind, message: str, *, by: str) -> Result:
    """Return a call's refusal. Its metadata and its detail name the hook."""
    hook = f"handrail.hooks.{by}"
    refusal = Result.fail(call.id, kind, message, f"refused by {hook}")
    return refusal._replace(metadata={REFUSED_BY: hook})


def was_refused(result: Result) -> bool:
    """Return whether a ready-made hook rejected the call before any tool ran."""
    return REFUSED_BY in result.metadata


def as_sent(call: CheckedCall | Call) -> Call:
    """Return the call itself, with the model's name for its tool."""
    return call.call if isinstance(call, CheckedCall) else call


def quote_name(call: CheckedCall | Call) -> str:
    """Return a call's name for a message, shortened: a model may have sent a very long one."""
    name = as_sent(call).name
    return repr(name if len(name) <= _MAX_NAME_CHARS else f"{name[: _MAX_NAME_CHARS - 1]}…")


def canonical(call: CheckedCall | Call) -> str:
    """Return a call's arguments as text independent from key order and whitespace."""
    given = as_sent(call).args
    try:
        args = json.loads(given) if isinstance(given, str) else dict(given)
        return json.dumps(args, sort_keys=True, separators=(",", ":"), default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(given)  # not JSON: the check refused it


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, for a message."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def tenths(seconds: float) -> str:
    """Return seconds for a message, rounded up to tenths."""
    return f"{math.ceil(round(seconds * 10, 6)) / 10:g}"
