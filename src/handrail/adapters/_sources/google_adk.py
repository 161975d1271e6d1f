"""Google ADK tools as handrail tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext

from handrail import Context, ToolFailed, Toolset
from handrail.adapters._sources import NO_EFFECTS, Effects, Foreign, adopt_tools


def source(tools: Iterable[Any], *, effects: Effects = NO_EFFECTS) -> Toolset:
    """Return ADK tools, or functions, as tools for an executor.

    If the turn's deps are a dict, they are their session's state. The executor decides about
    approval: a confirmation needed by a tool is granted. A tool without a declaration, such as one
    run by the API, cannot be used.

    Args:
        tools: The tools.
        effects: Each tool's effect, by name or pattern. Others can do the worst.
    """
    made = [one if isinstance(one, BaseTool) else FunctionTool(one) for one in tools]
    return Toolset(*adopt_tools([_read(one) for one in made], effects, "Google ADK"))


def _read(theirs: BaseTool) -> Foreign:
    async def send(args: dict[str, Any], context: Context[Any]) -> Any:
        value = await theirs.run_async(args=args, tool_context=_make_context(context))
        if isinstance(value, Mapping) and set(value) == {"error"}:
            raise ToolFailed(str(value["error"]))
        return value

    declared = theirs._get_declaration()  # noqa: SLF001  ADK has no other way
    if declared is None:
        raise ValueError(f"{theirs.name!r} has no declaration, so only the API can run it.")
    schema = declared.parameters_json_schema
    if schema is None:
        schema = {"type": "object", "properties": {}}
        if declared.parameters is not None:
            schema = declared.parameters.json_schema.model_dump(exclude_none=True, mode="json")
    return Foreign(theirs.name, theirs.description, schema, send)


def _make_context(context: Context[Any]) -> ToolContext:
    state = context.deps if isinstance(context.deps, dict) else {}
    user = context.principal or "user"
    session = Session(id=context.run_id or "run", app_name="handrail", user_id=user)
    session.state = state
    run = InvocationContext(
        session_service=InMemorySessionService(),
        invocation_id=context.turn_id or "turn",
        session=session,
    )
    confirmed = ToolConfirmation(confirmed=True)
    return ToolContext(run, function_call_id=context.call_id, tool_confirmation=confirmed)
