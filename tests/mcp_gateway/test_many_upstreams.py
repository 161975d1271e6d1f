"""A hundred servers and ten thousand tools behind one gateway; the whole number in the soak profile."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from handrail import READ, Access, Spec, Tool, Toolset
from handrail.mcp import McpSource
from mcp_client.raw_server import TOOLS
from mcp_client.stage import raw
from mcp_gateway.gateways import DEAD, client_of, gateway, names_of, source, text_of, until

pytestmark = pytest.mark.anyio
SOAK = os.environ.get("HANDRAIL_PROFILE") == "soak"
LIGHT, PROCESSES, EACH = (90, 8, 111) if SOAK else (7, 1, 20)
"""Servers in this process, servers that are programs, and the tools of each of the former."""


class Light(McpSource):
    """A server in this process, which answers at once."""

    @asynccontextmanager
    async def open(self, _changed: Callable[[Toolset], None]) -> AsyncGenerator[Toolset]:
        await anyio.lowlevel.checkpoint()
        yield Toolset(*(self._make(number) for number in range(EACH)))

    def _make(self, number: int) -> Tool[..., Any]:
        name = f"mcp__{self.name}__get_{number}"
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        about = f"Get the {number}th thing of {self.name}, with a text that says what it is for."
        spec = Spec(name=name, description=about, input_schema=schema, effect=READ)

        async def send(args: dict[str, Any], _context: Any) -> str:
            await anyio.lowlevel.checkpoint()
            return f"{name}: {args['text']}"

        resource = f"mcp:{self.name}/{number}"
        return Tool.remote(spec, send, touches=lambda **_: Access("read", resource))


async def test_many_servers_and_tools() -> None:
    light: list[McpSource] = [Light(raw(name=f"light{number}")) for number in range(LIGHT)]
    programs = [source(raw(name=f"program{number}")) for number in range(PROCESSES)]
    bad = [source(DEAD), source(raw("silent", name="silent"))]
    async with gateway([*bad, *light, *programs], defer_over=1_000) as (upstreams, made):
        await until(lambda: len(made.tools) >= LIGHT * EACH + PROCESSES * len(TOOLS))
        await until(lambda: upstreams.health()[0].state == "failed")
        async with client_of(made) as client:
            listed = await names_of(client)
            found = await client.call_tool("search_tools", {"queries": ["3rd thing of light5"]})

            async def call(name: str, words: str) -> str:
                wanted = {"name": name, "arguments": {"text": words}}
                return text_of(await client.call_tool("call_tool", wanted))

            told = [await call(f"mcp__light{n}__get_{EACH - 1}", "x") for n in range(LIGHT)]
            processes = [await call(f"mcp__program{n}__get_it", f"p{n}") for n in range(PROCESSES)]
        states = {one.name: one.state for one in upstreams.health()}

    assert listed == ["call_tool", "search_tools"]
    assert "mcp__light5__get_3" in text_of(found)
    assert told == [f"mcp__light{n}__get_{EACH - 1}: x" for n in range(LIGHT)]
    assert processes == [f"p{n}" for n in range(PROCESSES)]
    assert (states["dead"], states["silent"]) == ("failed", "connecting")
