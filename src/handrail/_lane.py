"""The fast lane: what is constant about a tool whose calls need no special care, worked out once.

An async tool that takes nothing but a model's arguments and says no more of what it touches than
its effect. Most tools are such, most of their calls are sent correctly, and many end without ever
waiting; those go through the same stages with nothing looked up twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from handrail._access import Access
from handrail._compact import subschemas
from handrail._effect import READ
from handrail._preflight import ALL_OF_IT
from handrail._spec import Spec
from handrail._tool import AnyTool


class Lane(NamedTuple):
    """One tool's constants, in the order in which a call needs them."""

    validate: Callable[..., dict[str, Any]]
    pairs: Callable[[Any], int]
    words: bool
    """Whether there is text among the arguments, which might hide something."""
    fn: Callable[..., Any]
    exact: type | None
    """The class of a result that needs no closer look, and what writes it."""
    dump: Callable[[Any], bytes]
    most: int
    """Characters of a result that are shown."""
    spec: Spec
    accesses: tuple[Access, ...]
    tool: AnyTool
    reads: bool


def at_once(tool: AnyTool, args: Mapping[str, Any] | str) -> dict[str, Any] | None:
    """The values of arguments that are beyond doubt."""
    values: dict[str, Any] | None = tool.parse.__self__.at_once(args)  # type: ignore[attr-defined]
    return values


def _may_be_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") not in ("integer", "number", "boolean", "null", "array", "object")


def lane(tool: AnyTool, max_chars: int) -> Lane | None:
    """A tool's lane, if it can have one."""
    spec = tool.spec
    plain = tool._signature.plain and tool.touches is None
    arguments: Any = tool.parse.__self__  # type: ignore[attr-defined]
    if tool._way != "async" or not plain or arguments._pairs is None:
        return None
    promise = tool._promise
    return Lane(
        arguments._run,
        arguments._pairs,
        any(_may_be_text(one) for _, one in subschemas(spec.input_schema)),
        tool.fn,
        promise.exact if promise else None,
        promise.dump if promise else bytes,
        spec.max_chars or max_chars,
        spec,
        ALL_OF_IT[spec.effect],
        tool,
        spec.effect == READ,
    )
