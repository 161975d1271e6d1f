"""Each library's own search over one catalogue: `SEARCHERS[name](tools)` gives `search(query, limit)`.

A function imports its library, since each library lives in an environment of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

Search = Callable[[str, int], list[str]]


def handrail(tools: list[dict[str, Any]]) -> Search:
    from ours import index

    made = index(tools)
    return lambda query, limit: list(made.search(query, limit=limit).names)


def ratel(tools: list[dict[str, Any]]) -> Search:
    from ratel_ai import Tool, ToolRegistry

    registry = ToolRegistry()

    async def fill() -> None:
        await registry.register(
            [
                Tool(tool["name"], tool["name"], tool["description"], tool["parameters"])
                for tool in tools
            ]
        )

    asyncio.run(fill())
    return lambda query, limit: [hit.tool_id for hit in registry.search(query, limit)]


def fastmcp(tools: list[dict[str, Any]]) -> Search:
    from fastmcp.server.transforms.search import BM25SearchTransform
    from fastmcp.tools.base import Tool

    made = [
        Tool(name=tool["name"], description=tool["description"], parameters=tool["parameters"])
        for tool in tools
    ]
    transform = BM25SearchTransform()
    loop = asyncio.new_event_loop()

    def search(query: str, limit: int) -> list[str]:
        transform._max_results = limit
        return [tool.name for tool in loop.run_until_complete(transform._search(made, query))]

    return search


def toolregistry(tools: list[dict[str, Any]]) -> Search:
    from toolregistry import ToolRegistry
    from toolregistry.llm.discovery import ToolDiscoveryTool
    from toolregistry.tool import Tool

    registry = ToolRegistry()
    for tool in tools:
        registry._tools[tool["name"]] = Tool(
            name=tool["name"],
            description=tool["description"],
            parameters=tool["parameters"],
            callable=print,
        )
    discovery = ToolDiscoveryTool(registry)
    return lambda query, limit: [hit["name"] for hit in discovery.discover(query, limit)]


def pydantic_ai(tools: list[dict[str, Any]]) -> Search:
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets._tool_search import keywords_search_fn

    made = [ToolDefinition(name=tool["name"], description=tool["description"]) for tool in tools]
    return lambda query, limit: keywords_search_fn(None, [query], made)[:limit]


SEARCHERS: dict[str, Callable[[list[dict[str, Any]]], Search]] = {
    "handrail": handrail,
    "ratel": ratel,
    "fastmcp": fastmcp,
    "toolregistry": toolregistry,
    "pydantic-ai": pydantic_ai,
}
