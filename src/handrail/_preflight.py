"""Preflight: from a call to a judged one that could run, or to a refusal. Pure: touches nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from handrail._access import EVERYTHING, Access
from handrail._call import Args, Call
from handrail._decision import Decision
from handrail._effect import Effect, Exposure
from handrail._json import clipped
from handrail._output import said
from handrail._policy import Policy, judge
from handrail._result import Failure, Kind, Result
from handrail._tool import AnyTool
from handrail._toolset import Toolset


class Ready(NamedTuple):
    """A call that may run, or may once somebody has said yes."""

    call: Call
    tool: AnyTool
    args: Args
    accesses: tuple[Access, ...]
    decision: Decision


ALL_OF_IT: dict[Effect, tuple[Access, ...]] = {
    effect: (Access(effect, EVERYTHING),) for effect in Effect
}
"""What a tool touches that does not say, by its effect."""
_new: Callable[..., Any] = vars(tuple)["__new__"]


def preflight(
    call: Call, tools: Toolset, policy: Policy | None, live: Callable[[], Toolset] | None = None
) -> Ready | Result:
    """Look a call up, read its arguments, ask what it will touch, and judge it.

    ``live`` gives the tools as they are now, where they may have changed since they were told.
    """
    tool = tools.find(call.name)
    if tool is None or tool.spec.exposure is Exposure.HIDDEN:
        return _unknown(call, tools)
    if live is not None and _changed(tool, live()):
        return Result.fail(call.id, Kind.STALE, _STALE.format(call.name))
    try:
        args = tool.parse(call.args)
    except Exception as error:  # noqa: BLE001  a validator of the tool's author
        return Result.fail(call.id, Kind.BUG, _UNREAD.format(call.name), said(error))
    if isinstance(args, Failure):
        return Result(call.id, args.message, failure=args)
    if args.repairs:
        call = replace(call, args=args.text)  # what is judged is what will run
    spec = tool.spec
    accesses = ALL_OF_IT[spec.effect] if tool.touches is None else _touched(call, tool, args)
    if isinstance(accesses, Result):
        return accesses
    decision = judge(policy, call, spec, accesses)
    made: Ready = _new(Ready, (call, tool, args, accesses, decision))
    return made


def _touched(call: Call, tool: AnyTool, args: Args) -> tuple[Access, ...] | Result:
    try:
        accesses = tool.accesses(args)
    except Exception as error:  # noqa: BLE001  a tool's own code, which must not end the batch
        detail = f"touches of {tool.origin} raised {said(error)}"
        return Result.fail(call.id, Kind.BUG, _BROKEN.format(call.name), detail)
    if any(type(one) is not Access or one.verb > tool.spec.effect for one in accesses):
        detail = f"{tool.origin} is a {tool.spec.effect.name} tool, but would {accesses}"
        return Result.fail(call.id, Kind.BUG, _BROKEN.format(call.name), detail)
    return accesses


def _changed(tool: AnyTool, now: Toolset) -> bool:
    current = now.find(tool.spec.name)
    return current is None or current.spec != tool.spec


def _unknown(call: Call, tools: Toolset) -> Result:
    near = [name for name in tools.closest(call.name) if _told(tools, name)]
    hint = f"Did you mean {' or '.join(near)}?" if near else "Use one of the tools you were given."
    message = f"There is no tool {clipped(call.name)!r}. {hint}"
    return Result.fail(call.id, Kind.UNKNOWN_TOOL, message)


def _told(tools: Toolset, name: str) -> bool:
    found = tools.find(name)
    return found is not None and found.spec.exposure is not Exposure.HIDDEN


_STALE = (
    "The tool {!r} has changed since you were told of it, and nothing was run. "
    "Read its new definition and call again."
)
_UNREAD = (
    "The tool {!r} is broken: it cannot read its arguments, and so nothing was run. This is not "
    "your fault. Do it another way, or tell the user."
)
_BROKEN = (
    "The tool {!r} is broken: it does not say properly what it would touch, and so nothing was "
    "run. This is not your fault. Do it another way, or tell the user."
)
