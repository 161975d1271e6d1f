"""Check: find the tool, validate the arguments, collect the accesses. Has no side effects."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from handrail._collection.registry import Registry
from handrail._collection.toolset import Toolset
from handrail._definition.tool import AnyTool
from handrail._execution.view import View
from handrail._permissions.checked_call import CheckedCall
from handrail._turn.turn import Turn
from handrail._values.access import EVERYTHING, Access
from handrail._values.call import Args, Call
from handrail._values.effect import Effect, Exposure
from handrail._values.errors import describe_error
from handrail._values.names import closest, join_or
from handrail._values.result import Failure, FailureKind, Result
from handrail._values.spec import Spec
from handrail._values.strict_json import clip

log = logging.getLogger("handrail")
_new: Callable[..., Any] = vars(tuple)["__new__"]
_HIDDEN = Exposure.HIDDEN
"""Looking up an enum's member takes longer than comparing it."""
MAX_LISTED_CHARS = 200
"""Characters of the names of all tools, up to which an unknown tool's refusal lists them."""
_MIN_SIMILARITY = 0.8
"""Similarity of names, from 0 to 1, where `TodoWrite` must not suggest `write`."""


ALL_OF_IT: dict[Effect, tuple[Access, ...]] = {
    effect: (Access(effect, EVERYTHING),) for effect in Effect
}
"""The accesses of a tool without ``touches``, by its effect."""


def check(call: Call, turn: Turn[Any], view: View, nth: int = 1) -> CheckedCall | Result:
    """Return a call with its tool, arguments and accesses, or the result that refuses it."""
    tool, registry = turn.tools.find(call.name), view.registry
    if tool is None and call.name == view.reader_name:
        tool, registry = view.reader, None
    if tool is None or tool.spec.exposure is _HIDDEN:
        return _refuse_unknown(call, turn)
    checked = _read(call, tool, turn, nth)
    if registry is not None and registry.generation != turn.generation:
        if _is_stale(tool.spec, view, registry):
            return Result.fail(call.id, FailureKind.STALE, _STALE.format(call.name))
        if isinstance(checked, CheckedCall) and _is_stale(checked.spec, view, registry):
            return Result.fail(call.id, FailureKind.STALE, _STALE.format(checked.name))
    return checked


def _is_stale(spec: Spec, view: View, registry: Registry) -> bool:
    """Return whether a tool has changed or was removed since the model received it.

    No registry has the reader.
    """
    current = registry.snapshot().find(spec.name)
    return spec.name != view.reader_name and (current is None or current.spec != spec)


def _read(call: Call, tool: AnyTool, turn: Turn[Any], nth: int) -> CheckedCall | Result:
    try:
        args = tool.parse(call.args)
    except Exception as error:  # noqa: BLE001  a validator of the tool's author
        return _report_broken_tool(call, tool, error, _UNREADABLE)
    if isinstance(args, Failure):
        return Result(call.id, args.message, failure=args)
    if tool._target is not None:
        checked = _read_target(call, tool, args, turn)
        return checked._replace(nth=nth) if isinstance(checked, CheckedCall) else checked
    if call.args is not args.text:  # the policy decides on the arguments that will run
        call = Call(call.name, args.text, call.id)
    accesses = (
        ALL_OF_IT[tool.spec.effect] if tool.touches is None else _collect_accesses(call, tool, args)
    )
    if type(accesses) is Result:
        return accesses
    fields = (call, tool.spec, accesses, turn, None, "", nth, tool, args)
    made: CheckedCall = _new(CheckedCall, fields)
    return made


def _read_target(call: Call, proxy: AnyTool, args: Args, turn: Turn[Any]) -> CheckedCall | Result:
    """Return the call that a proxy means, checked as if the model had made it."""
    try:
        target: Any = proxy._target
        wanted = replace(target(args.values), id=call.id)
        tool = turn.tools.find(wanted.name)
    except Exception as error:  # noqa: BLE001  the author's own code
        return _report_broken_tool(call, proxy, error, _UNREADABLE)
    if tool is None or tool._target is not None or tool.spec.exposure is _HIDDEN:
        return _refuse_unknown(wanted, turn)
    checked = _read(wanted, tool, turn, 1)
    return checked._replace(via=proxy.spec.name) if type(checked) is CheckedCall else checked


def _collect_accesses(call: Call, tool: AnyTool, args: Args) -> tuple[Access, ...] | Result:
    try:
        accesses = tool.accesses(args)
        for access in accesses:
            _check_access(access, tool)
    except Exception as error:  # noqa: BLE001  a tool's own code, which must not end the turn
        return _report_broken_tool(call, tool, error, _UNDECLARED)
    return accesses


def _check_access(access: object, tool: AnyTool) -> None:
    effect = tool.spec.effect
    if type(access) is not Access or access.verb > effect:
        raise TypeError(f"{tool.origin} is a {effect.name} tool, but declares {access!s}.")


def _report_broken_tool(call: Call, tool: AnyTool, error: Exception, message: str) -> Result:
    log.error("the tool %r (%s) is broken", tool.spec.name, tool.origin, exc_info=error)
    return Result.fail(call.id, FailureKind.BUG, message.format(call.name), describe_error(error))


def _refuse_unknown(call: Call, turn: Turn[Any]) -> Result:
    suggestion = _suggest(call.name, turn.tools, turn.owner.view.reader_name)
    message = f"There is no tool {clip(call.name)!r}. {suggestion}"
    return Result.fail(call.id, FailureKind.UNKNOWN_TOOL, message)


def _suggest(name: str, tools: Toolset, reader_name: str) -> str:
    """Name the tool that was meant. Few tools are all listed: a close name may be a wrong guess."""
    if known := _advise(name, tools):
        return known
    shown = [spec.name for spec in tools.specs if spec.name != name]
    listed = ", ".join(tool for tool in shown if tool != reader_name)
    if len(listed) <= MAX_LISTED_CHARS:
        near = closest(name, shown, most=1, cutoff=_MIN_SIMILARITY)
        if not near:
            return f"Available tools: {listed or 'none'}."
    else:
        near = tuple(close for close in tools.closest(name) if close in shown)
    return f"Did you mean {join_or(near)}?" if near else "Use one of the tools you were given."


def _advise(name: str, tools: Toolset) -> str:
    """Name the tool whose name differs in case only, or the tools that declare to be used instead.

    Returns nothing if there is none.
    """
    sent, name = name, name.strip().casefold()
    same = [spec.name for spec in tools.specs if spec.name.casefold() == name != sent]
    if len(same) == 1:
        return f"Did you mean {same[0]}?"
    return " ".join(
        f"To {purpose}, use {spec.name}."
        for spec in tools.specs
        for foreign, purpose in spec.instead_of.items()
        if foreign.casefold() == name
    )


_STALE = (
    "Not run: the tool {!r} has changed since you received it. Read its new definition and call "
    "again."
)
_UNREADABLE = (
    "Not run: the tool {!r} is broken: it failed to read its arguments. Calling again will not "
    "help; tell the user."
)
_UNDECLARED = (
    "Not run: the tool {!r} is broken: it failed to declare what it would touch. Calling again "
    "will not help; tell the user."
)
