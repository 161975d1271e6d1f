"""`clients.py NAME URL`: a client of another framework lists the tools of a server, and calls two.

It runs in the environment of its framework, without handrail, and prints what it got as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

HEADERS = {"Authorization": "Bearer t-alice"}


async def use_fastmcp(url: str) -> dict[str, Any]:
    from fastmcp import Client
    from fastmcp.client.elicitation import ElicitResult
    from fastmcp.client.transports import StreamableHttpTransport

    async def accept(*_: object) -> Any:
        return ElicitResult(action="accept", content={})

    progress: list[Any] = []

    async def hear(*fact: Any) -> None:
        progress.append(fact)

    transport = StreamableHttpTransport(url, headers=HEADERS)
    async with Client(transport, elicitation_handler=accept, progress_handler=hear) as client:
        names = sorted(tool.name for tool in await client.list_tools())
        read = await client.call_tool("read_note", {"key": "b"})
        added = await client.call_tool("add_note", {"text": "x"})
        waited = await client.call_tool("wait_here", {})
        denied = await client.call_tool("drop_notes", {}, raise_on_error=False)
    return {
        "names": names,
        "read": read.content[0].text,
        "added": added.structured_content,
        "denied": denied.is_error,
        "waited": waited.content[0].text,
        "progress": progress[:1],
    }


async def use_pydantic_ai(url: str) -> dict[str, Any]:
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    seen: dict[str, Any] = {}

    async def reply(messages: list[Any], info: Any) -> ModelResponse:
        returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if not returned:
            seen["names"] = sorted(tool.name for tool in info.function_tools)
            return ModelResponse(parts=[ToolCallPart("read_note", {"key": "b"})])
        seen["read"] = returned[0].content
        return ModelResponse(parts=[TextPart("done")])

    agent = Agent(FunctionModel(reply), toolsets=[MCPToolset(url, headers=HEADERS)])
    async with agent:
        await agent.run("Read b.")
    return seen


async def use_langchain(url: str) -> dict[str, Any]:
    from langchain_mcp_adapters.client import MultiServerMCPClient

    where: Any = {"transport": "streamable_http", "url": url, "headers": HEADERS}
    client = MultiServerMCPClient({"ours": where})
    tools = {tool.name: tool for tool in await client.get_tools()}
    call = {"type": "tool_call", "id": "1", "args": {"key": "b"}, "name": "read_note"}
    read = await tools["read_note"].ainvoke(call)
    denied = await tools["drop_notes"].ainvoke({**call, "name": "drop_notes", "args": {}})
    [block] = read.content
    return {"names": sorted(tools), "read": block["text"], "denied": denied.status == "error"}


CLIENTS = {"fastmcp": use_fastmcp, "pydantic_ai": use_pydantic_ai, "langchain": use_langchain}

if __name__ == "__main__":
    print("\n" + json.dumps(asyncio.run(CLIENTS[sys.argv[1]](sys.argv[2]))))  # noqa: T201
