"""LangChain tools as handrail tools."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable
from typing import Any

from langchain_core.tools import BaseTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool

from handrail import Context, Image, Text, ToolFailed, Toolset
from handrail.adapters._sources import NO_EFFECTS, Effects, Foreign, adopt_tools


def source(tools: Iterable[BaseTool], *, effects: Effects = NO_EFFECTS) -> Toolset:
    """Return LangChain tools as tools for an executor.

    Args:
        tools: The tools.
        effects: Each tool's effect, by name or pattern. Others can do the worst.
    """
    return Toolset(*adopt_tools([_read(one) for one in tools], effects, "LangChain"))


def _read(theirs: BaseTool) -> Foreign:
    async def send(args: dict[str, Any], context: Context[Any]) -> Any:
        call = {"type": "tool_call", "name": theirs.name, "args": args, "id": context.call_id}
        message: Any = await theirs.ainvoke(call)
        parts = _read_content(message.content)
        if message.status == "error":
            raise ToolFailed("\n".join([one.text for one in parts if isinstance(one, Text)]))
        return parts

    listed = convert_to_openai_tool(theirs)["function"]
    schema = listed.get("parameters") or {"type": "object", "properties": {}}
    return Foreign(theirs.name, listed.get("description", ""), schema, send, (ToolException,))


def _read_content(content: Any) -> list[Text | Image]:
    return [_read_block(one) for one in ([content] if isinstance(content, str) else content)]


def _read_block(block: Any) -> Text | Image:
    if isinstance(block, str):
        return Text(block)
    if block.get("type") == "image" and "base64" in block:
        return Image(b64decode(block["base64"]), block["mime_type"])
    return Text(block["text"] if block.get("type") == "text" else json.dumps(block))
