"""What one call of an MCP tool costs beside the SDK alone: function calls of all processes and threads.

Our client is held to a bare session, our gateway (50 rules, pins, a journal, credentials by principal over HTTP) to a pass-through of ten lines. FastMCP's client and
proxy run in turn with them, in an environment that is made as for `bench/peers.py`. Each side runs with few and with many calls, so
that starting and stopping are subtracted. Counts do not depend on the load of the machine. Processor time stands beside them, of the
calls alone: the start of a process costs more than a hundred calls, and varies by more than they cost. `python bench/mcp_calls.py
[SIDE ...]` prints both for each side.
"""

from __future__ import annotations

import cProfile
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from definition import Row

FEW, MANY = 20, 120
LIMIT = 1.12
GATEWAY_LIMIT = 1.15
RULES = 50
TOKEN = "bench-token-of-alice"
START_SECONDS = 300.0
"""How long a counted server has to start: counting makes it several times slower."""
HERE = str(Path(__file__))


def counted(folder: str) -> None:
    """Write the number of function calls of this process to a folder, at SIGUSR1; now, its id."""
    profile, others = cProfile.Profile(), list[cProfile.Profile]()

    def follow(*_: object) -> None:
        others.append(cProfile.Profile())
        others[-1].enable()  # from here on, in this thread

    def write(*_: object) -> None:
        profile.disable()
        total = sum(entry.callcount for one in (profile, *others) for entry in one.getstats())
        made = Path(folder, f"{os.getpid()}.calls")
        made.with_suffix(".part").write_text(str(total), encoding="utf-8")
        made.with_suffix(".part").rename(made)
        if name := os.environ.get("MCP_PROFILE"):
            profile.dump_stats(f"{name}.{sys.argv[1]}")

    signal.signal(signal.SIGUSR1, write)
    Path(folder, f"{os.getpid()}.began").touch()
    threading.setprofile(follow)
    profile.enable()


def count_all(folder: str) -> None:
    """Let all processes write their numbers. At their end, some would be killed before they do."""
    began = list(Path(folder).glob("*.began"))
    for file in began:
        os.kill(int(file.stem), signal.SIGUSR1)
    while not all(file.with_suffix(".calls").exists() for file in began):
        time.sleep(0.05)


def serve(transport: str) -> None:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("bench", log_level="CRITICAL")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    if transport == "stdio":
        server.run()
        return
    anyio.run(listen, server.streamable_http_app())


async def listen(app: Any) -> None:
    """Serve an application on a free port until SIGTERM, and print the port."""
    import socket

    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    running = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    running.capture_signals = nullcontext  # its own handler would end the process uncounted
    signal.signal(signal.SIGTERM, lambda *_: setattr(running, "should_exit", True))
    await running.serve(sockets=[listening])


async def pass_through(where: Any) -> None:
    """A gateway without anything."""
    from mcp import Client
    from mcp.server import Server

    async with Client(sdk_target(where)) as client:
        listed = await client.session.list_tools()
        schemas = {tool.name: tool.input_schema for tool in listed.tools}
        server = Server(
            "bare",
            on_list_tools=lambda *_: client.session.list_tools(),
            on_call_tool=lambda _, params: client.session.call_tool(params.name, params.arguments),
            get_tool_input_schema=schemas.get,  # else the SDK lists the tools for each call
        )
        await serve_gateway(server, where)


async def our_gateway(where: Any) -> None:
    """Our gateway, with rules, pins and a journal."""
    from handrail import Executor
    from handrail.credentials import Credentials
    from handrail.mcp import Effects, McpSource, Offer, Pins
    from handrail.mcp.gateway import Upstreams
    from handrail.mcp.server import http_app, make_server
    from handrail.policy import Rulebook
    from handrail.runs import open_runs
    from handrail.runs.audit import CallAudit
    from handrail.runs.record import RunRecord

    rules = "".join(
        f'[[rule]]\ndecide = "deny"\ntools = "mcp__other{number}__*"\n' for number in range(RULES)
    )
    with tempfile.TemporaryDirectory() as folder:
        audit = CallAudit(RunRecord(open_runs(Path(folder, "journal.db")), "bench"))
        offer, pins = (
            Offer(effects=Effects(reads=("add",))),
            Pins(Path(folder, "pins"), first_use=True),
        )
        upstreams = Upstreams(
            [
                McpSource(
                    our_target(where, personal="bench"),
                    offer=offer,
                    pins=pins,
                    start_seconds=START_SECONDS,
                )
            ]
        )
        executor = Executor(
            upstreams.registry,
            policy=Rulebook.from_toml(rules),
            hooks=[audit.hook],
            call_found_by="call_tool",
            credentials=Credentials({"bench": {"alice": "bench-credential-of-alice"}}),
        )
        async with executor, audit.writing(), upstreams.connect(executor):
            await upstreams.wait_tried(START_SECONDS)
            server = make_server(executor)
            await serve_gateway(server, where, lambda: http_app(server, tokens={TOKEN: "alice"}))


async def fastmcp_proxy(where: Any) -> None:
    """The proxy of FastMCP."""
    os.environ["FASTMCP_LOG_LEVEL"] = "CRITICAL"
    from fastmcp.server import create_proxy

    named = (
        {"url": where}
        if isinstance(where, str)
        else {"command": where[0], "args": where[1:], "env": dict(os.environ)}
    )
    server = create_proxy({"mcpServers": {"bench": named}})
    if isinstance(where, str):
        await listen(server.http_app())
    else:
        await server.run_stdio_async(show_banner=False)


async def serve_gateway(server: Any, where: Any, app: Any = None) -> None:
    from mcp.server.stdio import stdio_server

    if isinstance(where, str):
        await listen(server.streamable_http_app() if app is None else app())
        return
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


GATEWAYS = {"pass-through": pass_through, "gateway": our_gateway, "FastMCP's proxy": fastmcp_proxy}


@asynccontextmanager
async def as_alice() -> Any:
    """A client of HTTP with a token, which our gateway checks, and others ignore."""
    import httpx2

    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(headers=headers, timeout=START_SECONDS) as http:
        yield http


def sdk_target(where: Any, http: Any = None) -> Any:
    from mcp import StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client

    if isinstance(where, str):
        return where if http is None else streamable_http_client(where, http_client=http)
    return StdioServerParameters(command=where[0], args=where[1:], env=dict(os.environ))


def our_target(where: Any, personal: str = "") -> Any:
    from handrail.mcp import HttpServer, StdioServer

    if isinstance(where, str):
        return HttpServer(name="bench", url=where, personal=personal)
    command, *args = where
    return StdioServer(
        name="bench", command=command, args=tuple(args), env=dict(os.environ), sandbox=False
    )


@asynccontextmanager
async def target(transport: str, *words: str) -> Any:
    """The words of a server that is to be started, or the address of one that runs."""
    words = [sys.executable, HERE, *words]
    if transport == "stdio":
        yield words
        return
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        process.send_signal(signal.SIGTERM)


def read_clock(folder: str) -> float:
    """Processor seconds of all processes so far."""
    stats = [
        Path("/proc", file.stem, "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        for file in Path(folder).glob("*.began")
    ]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


async def repeat(call: Any, calls: int, folder: str) -> None:
    """Call so often, and note the processor seconds of one call, without the first few."""
    before = 0.0
    for number in range(calls):
        if number == FEW:
            before = read_clock(folder)
        await call()
    if calls > FEW:
        spent = (read_clock(folder) - before) / (calls - FEW)
        Path(folder, "seconds").write_text(str(spent), encoding="utf-8")  # noqa: ASYNC240
    count_all(folder)


async def bare(where: Any, calls: int, folder: str) -> None:
    from mcp import Client
    from mcp.client import session

    session.DISCOVER_TIMEOUT_SECONDS = START_SECONDS
    async with as_alice() as http, Client(sdk_target(where, http)) as client:
        listed = (await client.list_tools()).tools
        named = next(one.name for one in listed if one.name.endswith("add"))

        async def call() -> None:
            result = await client.session.call_tool(named, {"a": 1, "b": 2})
            assert result.content[0].text == "3", result

        await repeat(call, calls, folder)


async def ours(where: Any, calls: int, folder: str) -> None:
    from handrail import Allow, Call, Executor, Registry
    from handrail.mcp import McpSource

    registry = Registry()
    async with (
        registry.connect(McpSource(our_target(where), start_seconds=START_SECONDS)),
        Executor(registry, policy=lambda _: Allow()) as executor,
    ):

        async def call() -> None:
            result = await executor.run(Call("mcp__bench__add", {"a": 1, "b": 2}))
            assert "3" in result.text.splitlines(), result  # in its frame

        await repeat(call, calls, folder)


async def fastmcp_client(where: Any, calls: int, folder: str) -> None:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    target = (
        where
        if isinstance(where, str)
        else StdioTransport(where[0], where[1:], env=dict(os.environ), keep_alive=False)
    )
    async with Client(target) as client:

        async def call() -> None:
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert result.content[0].text == "3", result

        await repeat(call, calls, folder)


CLIENTS = {"bare": bare, "ours": ours, "FastMCP's client": fastmcp_client}


async def drive(side: str, transport: str, calls: int, folder: str) -> None:
    async with target(transport, "serve", transport, folder) as where:
        if side not in GATEWAYS:
            await CLIENTS[side](where, calls, folder)
            return
        told = where if isinstance(where, str) else json.dumps(where)
        async with target(transport, "gateway", side, told, folder) as front:
            await bare(front, calls, folder)


def python_of(side: str) -> str:
    """The interpreter of a side."""
    if not side.startswith("FastMCP"):
        return sys.executable
    import peers  # needs packages that FastMCP's environment has not

    return peers.python_of("fastmcp")


def measure(side: str, transport: str, calls: int) -> tuple[int, float]:
    """Function calls of all processes, and processor seconds of one call if there are many."""
    with tempfile.TemporaryDirectory() as folder:
        words = [python_of(side), HERE, "drive", side, transport, str(calls), folder]
        subprocess.run(words, check=True)
        counts = [int(file.read_text(encoding="utf-8")) for file in Path(folder).glob("*.calls")]
        assert len(counts) == (3 if side in GATEWAYS else 2), "a process was not counted"
        noted = Path(folder, "seconds")
        return sum(counts), float(noted.read_text(encoding="utf-8")) if noted.exists() else 0.0


def cost(side: str, transport: str) -> tuple[float, float]:
    """Function calls and microseconds of one call."""
    (few, _), (many, seconds) = measure(side, transport, FEW), measure(side, transport, MANY)
    return (many - few) / (MANY - FEW), seconds * 1e6


def rows() -> Iterator[Row]:
    """What is held to. The sides of a row run in turn."""
    from definition import Row

    for what, sides, limit in (
        ("an MCP call", list(CLIENTS), LIMIT),
        ("the gateway", list(GATEWAYS), GATEWAY_LIMIT),
    ):
        for transport in ("stdio", "http"):
            costs = {side: cost(side, transport) for side in sides}
            (theirs, _), (our, _), _ = costs.values()
            held = "; ".join(
                f"{side}: {calls:.0f} function calls, {micros:.0f} us of processor time"
                for side, (calls, micros) in costs.items()
            )
            ratio = our / theirs
            yield Row(f"{what} over {transport}", ratio, limit, "times", held, ratio <= limit)


def main() -> None:
    match sys.argv[1:]:
        case ["serve", transport, folder]:
            counted(folder)
            serve(transport)
        case ["gateway", side, told, folder]:
            counted(folder)
            anyio.run(GATEWAYS[side], json.loads(told) if told.startswith("[") else told)
        case ["drive", side, transport, calls, folder]:
            counted(folder)
            anyio.run(drive, side, transport, int(calls), folder)
        case chosen:
            for transport in ("stdio", "http"):
                for side in chosen or (*CLIENTS, *GATEWAYS):
                    calls, micros = cost(side, transport)
                    print(f"{transport:6} {side:16} {calls:7.0f} function calls {micros:7.0f} us")


if __name__ == "__main__":
    main()
