"""The provocations of the conformance kit: our server, and by our client a server of the SDK.

The control of each is the SDK alone.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from inspect import isasyncgenfunction
from typing import Any

import anyio
import pytest
import uvicorn
from mcp import Client, MCPError
from mcp.server.mcpserver import MCPServer
from mcp_types import ElicitResult

from conformance import PROVOCATIONS, Conversation, Read, Setup, Skipped, check
from handrail import (
    Allow,
    Approvals,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    Hook,
    Image,
    LongResults,
    Registry,
)
from handrail.mcp import HttpServer, McpSource
from handrail.mcp.server import make_server
from mcp_served.served import MODERN, require_asyncio

pytestmark = pytest.mark.anyio
Run = Callable[[Conversation], Awaitable[None]]
ORDER = "trio starts tasks in any order, and with them the requests of one reply"


async def converse(conversation: Conversation, call: Callable[[Call], Awaitable[Read]]) -> None:
    """Run the calls of each reply at the same time."""
    read: list[Read] = []
    while calls := conversation.reply(read):
        found: dict[int, Read] = {}

        async def run(number: int, one: Call, into: dict[int, Read]) -> None:
            into[number] = await call(one)

        async with anyio.create_task_group() as tasks:
            for number, one in enumerate(calls):
                tasks.start_soon(run, number, one, found)
        read = [found[number] for number in range(len(calls))]


@asynccontextmanager
async def connect(
    setup: Setup, server: Any, era: str = "legacy"
) -> AsyncIterator[Callable[[Call], Awaitable[Read]]]:
    """The official client, with a person who answers."""

    async def answer(_context: Any, params: Any) -> Any:
        word = setup.ask("", params.message)
        return ElicitResult(action="accept" if word else "decline", content={} if word else None)

    async with Client(server, mode=era, elicitation_callback=answer) as client:
        await client.session.list_tools()

        async def call(one: Call) -> Read:
            args: Any = one.args if isinstance(one.args, dict) else {"?": one.args}
            try:
                sent: Any = await client.call_tool(one.name, args)
            except (MCPError, RuntimeError) as error:
                return Read(one.id, str(error))
            texts = [part.text for part in sent.content if part.type == "text"]
            images = sum(part.type == "image" for part in sent.content)
            return Read(one.id, "".join(texts), images)

        yield call


def check_words(setup: Setup) -> None:
    if not all(isinstance(word, bool) for word in setup.words.values()):
        raise Skipped("edited approvals")


def our_server(setup: Setup, era: str = "legacy") -> Run:
    check_words(setup)
    server = make_server(setup.executor())

    async def run(conversation: Conversation) -> None:
        async with connect(setup, server, era) as call:
            await converse(conversation, call)

    return run


def their_tools(setup: Setup) -> MCPServer:
    server = MCPServer("theirs", log_level="CRITICAL")
    for function in setup.world.functions():
        if function.__name__ != "draw" and not isasyncgenfunction(function):
            server.add_tool(function)
    return server


def their_server(setup: Setup) -> Run:
    """The control: the tools on a server of the SDK, and its client."""
    setup.require()
    check_words(setup)
    server = their_tools(setup)

    async def run(conversation: Conversation) -> None:
        async with connect(setup, server) as call:
            await converse(conversation, call)

    return run


@asynccontextmanager
async def on_a_port(server: MCPServer) -> AsyncIterator[str]:
    """Serve until the block ends. A cancellation does not reach the server, as in another process."""
    config = uvicorn.Config(
        server.streamable_http_app(), log_level="critical", timeout_graceful_shutdown=1
    )
    made = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        async def serve() -> None:
            with anyio.CancelScope(shield=True):
                await made.serve([listening])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
            finally:
                made.should_exit = True


def by_our_client(setup: Setup) -> Run:
    """The same tools on the same server, by our client."""
    setup.require("approvals")
    check_words(setup)
    late: list[float] = [0.0]

    async def person(pending: Any) -> Any:
        word = setup.ask(pending.call.id, pending.question)
        late[0] += 7200.0 if setup.is_late else 0.0
        return Allow() if word else Deny.by_user()

    def policy(call: CheckedCall) -> Decision:
        return (
            Ask("May it?")
            if call.spec.metadata.get("mcp_tool") in setup.needs_approval
            else Allow()
        )

    async def run(conversation: Conversation) -> None:
        registry = Registry()
        async with (
            on_a_port(their_tools(setup)) as url,
            registry.connect(McpSource(HttpServer(name="theirs", url=url))),
            Executor(
                registry,
                policy=policy,
                approvals=Approvals(approver=person, timeout=3600.0),
                limits=CallLimits(timeout=setup.tool_timeout),
                long_results=LongResults(reader="always"),
                hooks=[Hook(frames=False)],  # the judges compare whole texts
                clock=lambda: 1_000_000.0 + late[0],
            ) as executor,
        ):
            results: list[Read] = []
            while calls := conversation.reply(results):
                named = [
                    one
                    if one.name == "read_result"
                    else Call(f"mcp__theirs__{one.name}", one.args, one.id)
                    for one in calls
                ]
                results = [
                    Read(one.call_id, one.text, sum(isinstance(part, Image) for part in one.parts))
                    for one in await executor.run_all(named)
                ]

    return run


async def observe(host: Any, **options: Any) -> dict[str, str]:
    """What a host does, without the provocations that it survives."""
    observed = await check(host, **options)
    assert list(observed) == [one.name for one in PROVOCATIONS]
    return {name: one.word for name, one in observed.items() if one.word != "ok"}


OURS: dict[str, str] = {"approval edited": "n/a"}
THEIRS = {
    "two writers": "lost update",
    "a long result": "whole",
    "approval given": "n/a",
    "approval refused": "n/a",
    "approval expired": "n/a",
    "approval edited": "n/a",
    "a read behind a question": "n/a",
    "a hang": "hangs",
    "two turns at once": "lost update",
    "an image": "n/a",
    "a stream": "n/a",
    "the rest of a long result": "whole",
    "a stale tool": "n/a",
    "an unknown outcome": "not said",
}
BY_OURS = {
    "approval edited": "n/a",
    "two turns at once": "lost update",  # each conversation has another executor here
    "an image": "n/a",
    "a stream": "n/a",
    "a stale tool": "n/a",
    "an unknown outcome": "not said",  # the server says only that its tool failed
}


async def test_our_server_survives_every_provocation() -> None:
    require_asyncio(ORDER)
    assert await observe(our_server) == OURS


@pytest.mark.soak
async def test_our_server_survives_every_provocation_in_the_newer_era() -> None:
    require_asyncio(ORDER)
    assert await observe(partial(our_server, era=MODERN)) == OURS


@pytest.mark.soak
async def test_the_server_of_the_sdk_alone_is_the_control() -> None:
    assert await observe(their_server) == THEIRS


@pytest.mark.soak
@pytest.mark.timeout(600)  # each provocation begins a server
async def test_our_client_makes_a_server_of_others_survive_more() -> None:
    require_asyncio()
    assert await observe(by_our_client, patience=60.0) == BY_OURS
