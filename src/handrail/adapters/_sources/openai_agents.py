"""OpenAI Agents SDK function tools as handrail tools."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable
from typing import Any

from agents import FunctionTool
from agents.exceptions import ModelBehaviorError
from agents.tool import ToolOutputImage, ToolOutputText
from agents.tool_context import ToolContext

from handrail import Context, Image, Text, Toolset
from handrail.adapters._sources import NO_EFFECTS, Effects, Foreign, adopt_tools


def source(tools: Iterable[FunctionTool], *, effects: Effects = NO_EFFECTS) -> Toolset:
    """Return SDK function tools as tools for an executor.

    Their context is the turn's deps. The executor decides about approval: the SDK's
    ``needs_approval`` and guardrails do not run. Pass only function tools: the API runs the others
    itself.

    Args:
        tools: The tools.
        effects: Each tool's effect, by name or pattern. Others can do the worst.
    """
    return Toolset(*adopt_tools([_read(one) for one in tools], effects, "OpenAI Agents SDK"))


def _read(theirs: FunctionTool) -> Foreign:
    async def send(args: dict[str, Any], context: Context[Any]) -> Any:
        text = json.dumps(args)
        ctx: ToolContext[Any] = ToolContext(
            context=context.deps,
            tool_name=theirs.name,
            tool_call_id=context.call_id,
            tool_arguments=text,
        )
        value = await theirs.on_invoke_tool(ctx, text)
        return [_read_part(one) for one in value] if isinstance(value, list) else _read_part(value)

    schema = theirs.params_json_schema
    return Foreign(theirs.name, theirs.description, schema, send, (ModelBehaviorError,))


def _read_part(value: Any) -> Any:
    if isinstance(value, ToolOutputText):
        return Text(value.text)
    if isinstance(value, ToolOutputImage) and (value.image_url or "").startswith("data:"):
        kind, _, data = str(value.image_url).removeprefix("data:").partition(";base64,")
        return Image(b64decode(data), kind)
    return value
