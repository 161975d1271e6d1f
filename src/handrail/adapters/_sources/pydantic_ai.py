"""Pydantic AI toolsets as handrail tools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic_ai import BinaryContent, RunContext, ToolFailed, ToolReturn
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_ai.usage import RunUsage

from handrail import Context, File, Image, Text, Toolset
from handrail.adapters._sources import NO_EFFECTS, Effects, Foreign, adopt_tools


async def source(toolset: AbstractToolset[Any], *, effects: Effects = NO_EFFECTS) -> Toolset:
    """Return a Pydantic AI toolset's tools as tools for an executor.

    Their ``RunContext`` has the turn's deps, and no messages. If the toolset has to be entered, do
    it yourself.

    Args:
        toolset: The toolset.
        effects: Each tool's effect, by name or pattern. Others can do the worst.
    """
    ctx: RunContext[Any] = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    found = [_read(toolset, one, ctx) for one in (await toolset.get_tools(ctx)).values()]
    return Toolset(*adopt_tools(found, effects, "Pydantic AI"))


def _read(toolset: AbstractToolset[Any], theirs: ToolsetTool[Any], ctx: RunContext[Any]) -> Foreign:
    listed = theirs.tool_def

    async def send(args: dict[str, Any], context: Context[Any]) -> Any:
        run = replace(
            ctx,
            deps=context.deps,
            tool_name=listed.name,
            tool_call_id=context.call_id,
            tool_call_approved=True,
        )
        checked = theirs.args_validator.validate_python(args, context=run.validation_context)
        return _read_value(await toolset.call_tool(listed.name, checked, run, theirs))

    about, schema = listed.description or "", listed.parameters_json_schema
    return Foreign(listed.name, about, schema, send, (ModelRetry, ToolFailed))


def _read_value(value: Any) -> Any:
    if isinstance(value, ToolReturn):
        value = value.return_value
    if not isinstance(value, list) or not any(isinstance(one, BinaryContent) for one in value):
        return _read_part(value) if isinstance(value, BinaryContent) else value
    return [_read_part(one) for one in value]


def _read_part(value: Any) -> Text | Image | File:
    if not isinstance(value, BinaryContent):
        return Text(str(value))
    if value.is_image:
        return Image(value.data, value.media_type)
    return File(value.data, value.media_type, value.identifier)
