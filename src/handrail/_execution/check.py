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
from handrail._search.signature import write_signature
from handrail._turn.turn import Turn
from handrail._values.access import EVERYTHING, Access
from handrail._values.call import Args, Call
from handrail._values.effect import Effect, Exposure
from handrail._values.errors import describe_error
from handrail._values.names import api_name, closest, join_or
from handrail._values.result import Failure, FailureKind, Result
from handrail._values.spec import Spec
from handrail._values.strict_json import clip

log = logging.getLogger("handrail")
_new: Callable[..., Any] = vars(tuple)["__new__"]
_DIRECT, _DEFERRED, _SEARCH = Exposure.DIRECT, Exposure.DEFERRED, Exposure.SEARCH
"""Looking up an enum's member takes longer than comparing it."""
MAX_LISTED_CHARS = 200
"""Unknown-tool refusals list all names up to this many characters."""
_MAX_LISTED = 50
"""Tools, up to which all may be listed. The policy checks each."""
_MIN_SIMILARITY = 0.8
"""Similarity of names, from 0 to 1, where `TodoWrite` must not suggest `write`."""


ALL_OF_IT: dict[Effect, tuple[Access, ...]] = {
    effect: (Access(effect, EVERYTHING),) for effect in Effect
}
"""The accesses of a tool without ``touches``, by its effect."""


def check(call: Call, turn: Turn[Any], view: View, nth: int = 1) -> CheckedCall | Result:
    """Return a call with its tool, arguments and accesses, or its refusal."""
    tool, registry = turn.tools.find(call.name), view.registry
    if tool is None or tool.spec.exposure is not _DIRECT:
        if tool is None:
            tool, registry = view.find_own(call.name, turn.tools), None
        tool = tool and _find_offered(tool, turn, view)
        if tool is None:
            return _refuse_unknown(call, turn, view)
    checked = _read(call, tool, turn, view)
    if nth != 1 and isinstance(checked, CheckedCall):
        checked = checked._replace(nth=nth)
    is_old = registry is not None and registry.generation != turn.generation
    if registry is not None and is_old and tool.spec.name not in turn.options.lent:
        if _is_stale(tool.spec, view, registry):
            return Result.fail(call.id, FailureKind.STALE, _STALE.format(call.name))
        if isinstance(checked, CheckedCall) and _is_stale(checked.spec, view, registry):
            return Result.fail(call.id, FailureKind.STALE, _STALE.format(checked.name))
    return checked


def _is_stale(spec: Spec, view: View, registry: Registry) -> bool:
    """Return whether a tool has changed or was removed since the model received it.

    No registry has the tools a view adds.
    """
    current = registry.snapshot().find(spec.name)
    return not view.is_own(spec.name) and (current is None or current.spec != spec)


def _find_offered(tool: AnyTool, turn: Turn[Any], view: View) -> AnyTool | None:
    """Return a tool as a model can call it, or None. An always denied deferred one is none.

    One sent in every request or found before exists, so its calls are denied.
    """
    exposure = tool.spec.exposure
    if exposure is _DIRECT:
        return tool
    if exposure is _SEARCH:
        return view.bind_search(tool, turn)
    options = turn.options
    is_found = (exposure is _DEFERRED or options.outer) and tool.spec.name in options.loaded
    return tool if is_found or view.may_show(tool) else None


def _read(call: Call, tool: AnyTool, turn: Turn[Any], view: View) -> CheckedCall | Result:
    try:
        args = tool.parse(call.args)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  the tool author's validator
        return _report_broken_tool(call, tool, error, _UNREADABLE)
    if type(args) is Failure:
        args = _with_signature(args, tool, turn, view)
        return Result(call.id, args.message, failure=args)
    if tool._target is not None:  # rules must see the name it calls: decision 058
        return _read_target(call, tool, args, turn, view=view)
    if call.args is not args.text:  # the policy decides on the final arguments
        call = Call(call.name, args.text, call.id, call.via)
    accesses = (
        ALL_OF_IT[tool.spec.effect] if tool.touches is None else _collect_accesses(call, tool, args)
    )
    if type(accesses) is Result:
        return accesses
    fields = (call, tool.spec, accesses, turn, None, call.via, 1, tool, args)
    made: CheckedCall = _new(CheckedCall, fields)
    return made


def _read_target(
    call: Call, proxy: AnyTool, args: Args, turn: Turn[Any], *, view: View
) -> CheckedCall | Result:
    """Return the call a proxy means, checked as if the model had made it."""
    try:
        wanted, tool = _take_apart(call, proxy, args, turn, view=view)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  the author's own code
        return _report_broken_tool(call, proxy, error, _UNREADABLE)
    if tool is not None:
        tool = None if tool._target is not None else _find_offered(tool, turn, view)
    if tool is None:
        return _refuse_unknown(wanted, turn, view)
    checked = _read(wanted, tool, turn, view)
    return checked._replace(via=proxy.spec.name) if type(checked) is CheckedCall else checked


def _take_apart(
    call: Call, proxy: AnyTool, args: Args, turn: Turn[Any], *, view: View
) -> tuple[Call, AnyTool | None]:
    """Return the call a proxy means, and its tool. Its name can be the one in an API."""
    target: Any = proxy._target
    wanted = replace(target(args.values), id=call.id, via=call.via)
    tools: Toolset = turn.tools
    tool = tools.find(wanted.name) or view.find_own(wanted.name, tools)
    if tool is None and (own := tools.api_names.get(wanted.name)) is not None:
        return replace(wanted, name=own), tools.find(own)
    return wanted, tool


def find_meant(call: Call, turn: Turn[Any], view: View) -> Call:
    """Return the call a proxy means, if its arguments say so, or else the call itself."""
    proxy = turn.tools.find(call.name) or view.find_own(call.name, turn.tools)
    if proxy is None or proxy._target is None:
        return call
    try:
        args = proxy.parse(call.args)
        return (
            call
            if isinstance(args, Failure)
            else _take_apart(call, proxy, args, turn, view=view)[0]
        )
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  the check has reported it
        return call


def _collect_accesses(call: Call, tool: AnyTool, args: Args) -> tuple[Access, ...] | Result:
    try:
        accesses = tool.accesses(args)
        for access in accesses:
            check_access(access, tool)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  a tool's own code, which must not end the turn
        return _report_broken_tool(call, tool, error, _UNDECLARED)
    return accesses


def check_access(access: object, tool: AnyTool) -> None:
    """Raise TypeError for anything but an access permitted by the tool's effect."""
    effect = tool.spec.effect
    if type(access) is not Access or access.verb > effect:
        raise TypeError(f"{tool.origin} is a {effect.name} tool, but declares {access!s}.")


def _report_broken_tool(call: Call, tool: AnyTool, error: BaseException, message: str) -> Result:
    log.error("the tool %r (%s) is broken", tool.spec.name, tool.origin, exc_info=error)
    return Result.fail(call.id, FailureKind.BUG, message.format(call.name), describe_error(error))


def _refuse_unknown(call: Call, turn: Turn[Any], view: View) -> Result:
    suggestion = _suggest(call.name, turn.tools, view)
    message = f"There is no tool {clip(call.name)!r}. {suggestion}"
    return Result.fail(call.id, FailureKind.UNKNOWN_TOOL, message)


def _suggest(name: str, tools: Toolset, view: View) -> str:
    """Name the likely tool. Few tools are all listed: a close name may be a wrong guess.

    A tool the policy always denies is not named.
    """
    if advice := _advise(name, tools, view):
        return advice
    if len(tools.specs) > _MAX_LISTED:
        return _suggest_close(name, tools, view)
    shown, chars = list[str](), 0
    others = (tool for tool in tools if tool.spec.name not in (name, view.reader_name))
    for tool in filter(view.may_show, others):
        shown.append(tool.spec.name)
        chars += len(tool.spec.name) + 2
        if chars - 2 > MAX_LISTED_CHARS:
            return _suggest_close(name, tools, view)
    known = [*shown, *([view.reader_name] if view.reader_name in tools else [])]
    near = closest(name, known, most=1, cutoff=_MIN_SIMILARITY)
    listed = ", ".join(shown) or "none"
    return f"Did you mean {near[0]}?" if near else f"Available tools: {listed}."


def _suggest_close(name: str, tools: Toolset, view: View) -> str:
    """Name the tools with the closest names. The policy checks only these."""
    near = [close for close in tools.closest(name, visible=view.may_show) if close != name]
    return f"Did you mean {join_or(near)}?" if near else _use_others(view)


def _use_others(view: View) -> str:
    if view.finder is None:
        return "Use one of the tools you were given."
    return f"Use one of the tools you were given, or find others with {view.finder.name}."


def _advise(name: str, tools: Toolset, view: View) -> str:
    """Name the tool whose name differs in case only, or the tools that declare to be used instead.

    Returns nothing if there is none.
    """
    sent, name = name, name.strip().casefold()
    same = [tool for tool in tools if tool.spec.name.casefold() == name != sent]
    same = [tool for tool in same if view.may_show(tool)]
    if len(same) == 1:
        return f"Did you mean {same[0].spec.name}?"
    return " ".join(
        f"To {purpose}, use {tool.spec.name}."
        for tool in tools
        for foreign, purpose in tool.spec.instead_of.items()
        if foreign.casefold() == name and view.may_show(tool)
    )


def _with_signature(failure: Failure, tool: AnyTool, turn: Turn[Any], view: View) -> Failure:
    """Add its signature to the refusal of a tool the model has not found yet."""
    if tool.spec.exposure is not _DEFERRED or tool.spec.name in turn.options.loaded:
        return failure
    signature, finder = write_signature(tool.spec), view.finder
    if finder is not None and finder.by_call:  # then its own name is used
        signature = tool.spec.name + signature.removeprefix(api_name(tool.spec.name))
    return replace(failure, message=f"{failure.message}\nThe tool is {signature}.")


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
