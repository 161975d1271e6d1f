"""Other frameworks' tools as handrail tools: the parts their modules share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

from handrail import DESTROY, Context, Effect, Spec, Tool, ToolFailed

Effects: TypeAlias = Mapping[str, Effect]
"""Each tool's effect, by name or by a pattern such as ``get_*``. The first match is used."""
NO_EFFECTS: Effects = {}
AnyTool: TypeAlias = Tool[..., Any]
Send: TypeAlias = Callable[[dict[str, Any], Context[Any]], Awaitable[Any]]
"""Runs one call with checked arguments."""


class Foreign(NamedTuple):
    """Another framework's tool."""

    name: str
    description: str
    schema: Mapping[str, Any]
    send: Send
    """Runs one call."""
    failures: tuple[type[Exception], ...] = ()
    """What the framework raises for the model to read. Other exceptions are internal errors."""


def find_effect(name: str, effects: Effects) -> Effect:
    """Return a tool's effect. An unnamed one can do the worst."""
    if name in effects:
        return effects[name]
    return next((effects[one] for one in effects if fnmatchcase(name, one)), DESTROY)


def adopt_tools(found: Sequence[Foreign], effects: Effects, origin: str) -> list[AnyTool]:
    """Return tools running another framework's tools under the executor's rules."""
    return [_adopt(one, find_effect(one.name, effects), origin) for one in found]


def _adopt(theirs: Foreign, effect: Effect, origin: str) -> AnyTool:
    async def send(args: dict[str, Any], context: Context[Any]) -> Any:
        try:
            return await theirs.send(args, context)
        except theirs.failures as error:
            raise ToolFailed(str(error)) from error

    spec = Spec(
        name=theirs.name,
        description=theirs.description,
        input_schema=dict(theirs.schema),
        effect=effect,
    )
    return Tool.remote(spec, send, origin=origin)
