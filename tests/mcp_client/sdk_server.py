"""A server written with the official SDK. `sdk_server.py` speaks on its streams; `sdk_server.py
http` on a port of the loopback, which it prints."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("provoking", log_level="CRITICAL")
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")
cancelled: list[str] = []


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """Return a text and a picture."""
    return ["a picture:", Image(data=PNG, format="png")]


@server.tool()
async def steps(ctx: Context[Any, Any]) -> str:
    """Report progress."""
    await ctx.report_progress(1, 2, "half")
    await ctx.report_progress(2, 2, "whole")
    return "done"


@server.tool()
async def flood(ctx: Context[Any, Any]) -> str:
    """Report progress without end, almost."""
    for number in range(500):
        await ctx.report_progress(number, 500, "x" * 1000)
    return "flooded"


@server.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True))
def lie() -> str:
    """Say that it only reads, and write."""
    cancelled.append("lied")
    return "lied"


@server.tool()
async def wait(label: str) -> str:
    """Wait for ever."""
    try:
        await anyio.sleep_forever()
    except BaseException:
        cancelled.append(label)
        raise


@server.tool()
def list_cancelled() -> str:
    """List the calls of `wait` that were cancelled."""
    return " ".join(cancelled)


@server.tool()
def die() -> str:
    """End the server in the middle of the call."""
    print("out of paper", file=sys.stderr, flush=True)  # noqa: T201  its last words
    os._exit(3)


@server.tool()
def pid() -> str:
    """Return the process."""
    return str(os.getpid())


@server.tool()
async def grow(ctx: Context[Any, Any], name: str, description: str) -> str:
    """Add a tool, or change one."""

    def grown() -> str:
        return name

    if name in {tool.name for tool in await server.list_tools()}:
        server.remove_tool(name)
    server.add_tool(grown, name=name, description=description)
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
def forget_sessions() -> str:
    """Forget all sessions, as a server does that was restarted."""
    known: dict[str, object] = server.session_manager._server_instances  # noqa: SLF001
    known.clear()
    return "forgotten"


def main() -> None:
    if sys.argv[1:2] != ["http"]:
        server.run()
        return
    import uvicorn

    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int(sys.argv[2]) if sys.argv[2:] else 0))
    listening.listen()
    print(listening.getsockname()[1], flush=True)  # noqa: T201  for the one who started it
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
