"""Gateways in this process, in front of servers that start at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import Client

from handrail import Allow, Executor, Toolset
from handrail.mcp import McpSource, Offer, StdioServer
from handrail.mcp.gateway import Upstreams
from handrail.mcp.server import make_server
from mcp_client.stage import KNOWN, raw

PATIENCE = 60
DEAD = StdioServer(name="dead", command="/bin/false", sandbox=False)


def source(server: Any, **options: Any) -> McpSource:
    return McpSource(server, **{"offer": Offer(effects=KNOWN), **options})


def sources(*names: str) -> list[McpSource]:
    return [source(raw(name=name)) for name in names]


@asynccontextmanager
async def gateway(
    given: Sequence[McpSource], *, own: Toolset | None = None, defer_over: int = 10_000, **more: Any
) -> AsyncIterator[tuple[Upstreams, Executor]]:
    """Servers behind an executor that allows everything."""
    upstreams = Upstreams(given, own=own, defer_over=defer_over)
    options = {"policy": lambda _: Allow(), **more}
    async with (
        Executor(upstreams.registry, call_found_by="call_tool", **options) as executor,
        upstreams.connect(executor),
    ):
        yield upstreams, executor


@asynccontextmanager
async def client_of(executor: Executor, **options: Any) -> AsyncIterator[Client]:
    async with Client(make_server(executor), **{"mode": "legacy", **options}) as client:
        yield client


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, which no event tells of."""
    with anyio.fail_after(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def names_of(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


def text_of(result: Any) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")
