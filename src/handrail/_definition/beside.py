"""Check a tool's companion functions, such as ``touches`` and ``preview``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from inspect import Parameter
from types import MethodType
from typing import Any

from handrail._definition.signature import REQUIRED, Signature, refuse, takes_self


def check_beside(
    function: Callable[..., Any], taken: Signature, option: str, fn: Callable[..., Any]
) -> None:
    """Reject a function that cannot be called with a tool's arguments, each by its name.

    A function without a readable signature is accepted.
    """
    parameters = _read_parameters(fn)
    if takes_self(fn) and (taken.method or isinstance(function, MethodType)):
        parameters = parameters[1:]
    names = [parameter.name for parameter in taken.parameters]
    names += [KEY] if option == "verify" else []
    filled = [*names, KEY] if option == "preview" else names
    for parameter in parameters:
        why = "" if _is_optional(parameter) else _why_not_filled(parameter, filled, taken.context)
        if why:
            refuse(function, f"`{option}` {why}")
    accepted = {parameter.name for parameter in parameters if parameter.kind in _NAMED}
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        return
    for name in names:
        if name not in accepted:
            refuse(
                function,
                f"`{option}` does not accept the parameter {name!r}. Add it, or add `**_`",
            )


def takes_key(fn: Callable[..., Any]) -> bool:
    """Return whether a function has a parameter for the call's key."""
    return any(one.name == KEY and one.kind in _NAMED for one in _read_parameters(fn))


KEY = "idempotency_key"
"""What ``verify`` gets besides the arguments, and ``preview`` if it wants to: the call's key."""
_ANYTHING = (Parameter("_", Parameter.VAR_KEYWORD),)
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _read_parameters(fn: Callable[..., Any]) -> Sequence[Parameter]:
    try:
        # a decorator may pass on other arguments than it takes
        return tuple(inspect.signature(fn, follow_wrapped=False).parameters.values())
    except Exception:  # noqa: BLE001  not every callable has one, and its types may be undefined
        return _ANYTHING


def _is_optional(parameter: Parameter) -> bool:
    return parameter.kind in _VARIADIC or parameter.default is not REQUIRED


def _why_not_filled(parameter: Parameter, names: Sequence[str], context: str | None) -> str:
    """Return why no argument fills a required parameter; empty if one does."""
    name = parameter.name
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        return (
            f"takes {name!r} by position, but gets each argument by name. "
            "Remove the `/`, or use a lambda"
        )
    if name in names:
        return ""
    why = "only the tool itself gets" if name == context else "is not a parameter of the tool"
    return f"needs {name!r}, which {why}. Remove it, or give it a default"
