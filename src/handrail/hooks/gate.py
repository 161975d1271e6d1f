"""A gate: calls of tools that may do more than a ceiling allows are refused."""

from __future__ import annotations

from handrail import READ, Call, Effect, Kind, Registry, Result, Toolset
from handrail.hooks._hook import Hook, find, named, refuse

_MOST = {
    Effect.READ: "only tools that read are",
    Effect.WRITE: "only tools that read or write are",
}


def gate(tools: Toolset | Registry, *, ceiling: Effect = READ) -> Hook:
    """Refuse calls of tools whose effect is above the ceiling. Give it the executor's own tools.

    Use its ``before``.
    """

    async def before(call: Call) -> Call | Result:
        tool = find(tools, call)
        if tool is None or tool.spec.effect <= ceiling:
            return call
        message = (
            f"The tool {named(call)} can {tool.spec.effect.name.lower()}, and {_MOST[ceiling]} "
            "allowed here; nothing was run. Go on without it, or tell the user what you would do."
        )
        return refuse(call, Kind.DENIED, message, by="gate")

    return Hook(before=before)
