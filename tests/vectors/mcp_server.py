"""Hostile and broken clients of our MCP server: each is refused, and the server goes on."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.server import Server
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, ElicitResult, ListToolsResult, TextContent

from handrail import Allow, Call, Executor
from handrail.mcp._server import gate
from handrail.mcp.server import bind, http_app, make_server
from mcp_served.served import TOKENS, Notes, executor, text_of

LOG = logging.getLogger("naive")
LOG.addHandler(logging.NullHandler())
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}


class Ours:
    """Our server. The control replaces each part by a naive one."""

    session_header = "mcp-session-id"

    def make(self, notes: Notes, **options: Any) -> Any:
        return make_server(self.executor(notes), **options)

    def executor(self, notes: Notes) -> Executor:
        return executor(notes)

    def app(self, server: Any, **options: Any) -> Any:
        return http_app(server, **{"tokens": TOKENS, **options})

    def host(self) -> str:
        with bind() as bound:
            return str(bound.getsockname()[0])


class Fragile:
    """The control of the transport: an application that trusts what it reads, and ends if it may not."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._is_broken = False
        self._sessions = 0
        self._running: dict[int, str] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: C901  one branch for each weakness
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        body = [await receive()]
        while body[-1].get("more_body"):
            body.append(await receive())
        try:
            self._read(b"".join(one.get("body", b"") for one in body))
        except (ValueError, KeyError):
            self._is_broken = True
        if self._is_broken:
            await send({"type": "http.response.start", "status": 500, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return

        async def again() -> Any:
            return body.pop(0) if body else await receive()

        async def mark(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._sessions += 1
                message["headers"] = [
                    *message["headers"],
                    (b"access-control-allow-origin", b"*"),
                    (b"x-session", b"s-%d" % self._sessions),
                ]
            await send(message)

        await self._app(scope, again, mark)

    def _read(self, content: bytes) -> None:
        message = json.loads(content) if content.strip() else {}
        if message.get("method") == "tools/call":
            self._running[message["id"]] = message["params"]["name"]
        if message.get("method") == "notifications/cancelled":
            del self._running[message["params"]["requestId"]]


class Naive(Ours):
    """The control: the SDK without checks, an executor that allows everything."""

    session_header = "x-session"

    def make(self, notes: Notes, **_: Any) -> Any:
        executor = self.executor(notes)

        async def list_tools(*_: Any) -> Any:
            return ListToolsResult(tools=[])

        async def call_tool(_request: Any, params: Any) -> Any:
            LOG.warning("a call of %s", params.name)
            result = await executor.run(Call(params.name, params.arguments or {}))
            why = "" if result.failure is None else result.failure.detail
            return CallToolResult(
                content=[TextContent(text=f"{result.text}\n{why}")], is_error=bool(result.failure)
            )

        return Server("naive", on_list_tools=list_tools, on_call_tool=call_tool)

    def executor(self, notes: Notes) -> Executor:
        async def yes(_pending: Any) -> Allow:
            return Allow()

        return Executor(notes.tools(), approvals=yes)

    def app(self, server: Any, **_: Any) -> Any:
        unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        return Fragile(
            server.streamable_http_app(transport_security=unchecked, max_request_body_size=1 << 40)
        )

    def host(self) -> str:
        return "0.0.0.0"  # noqa: S104  the control


@asynccontextmanager
async def served(world: Ours, **options: Any) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """A function that posts to a running application."""
    app = world.app(world.make(Notes()), **options)
    to_app, of_app = anyio.create_memory_object_stream[Any](2)
    answers, told = anyio.create_memory_object_stream[Any](2)

    async def post(body: Any = HELLO, token: str | None = "t-alice", **headers: str) -> Any:  # noqa: S107
        sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent |= {"Authorization": f"Bearer {token}"} if token else {}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.post("/mcp", content=content, headers=sent)

    async with to_app, of_app, answers, told, anyio.create_task_group() as group:
        group.start_soon(app, {"type": "lifespan"}, of_app.receive, answers.send)
        await to_app.send({"type": "lifespan.startup"})
        await told.receive()
        yield post
        await to_app.send({"type": "lifespan.shutdown"})
        await told.receive()


def answers(status: int, body: Any = HELLO, token: str | None = "t-alice", **headers: str) -> Any:  # noqa: S107
    """A check: a request gets this status, and the next good one is served."""

    async def check(world: Ours) -> bool:
        async with served(world) as post:
            got = await post(body, token, **headers)
            after = await post()
        return bool(got.status_code == status and after.status_code == 200)

    return check


async def no_websocket(world: Ours) -> bool:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    app: Any = world.app(world.make(Notes()))
    scope = {"type": "websocket", "path": "/mcp", "headers": [], "query_string": b""}
    await app(scope, receive, send)
    return [message["type"] for message in sent] == ["websocket.close"]


async def on_loopback(world: Ours) -> bool:
    return world.host() == "127.0.0.1"


async def own_sessions(world: Ours) -> bool:
    async with served(world) as post:
        session = (await post()).headers["mcp-session-id"]
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        other = await post(ping, "t-bob", mcp_session_id=session)
    return other.status_code in (403, 404)


async def random_sessions(world: Ours) -> bool:
    async with served(world) as post:
        ids = [(await post()).headers[world.session_header] for _ in range(50)]
    return len(set(ids)) == 50 and all(len(set(one)) > 4 and len(one) >= 32 for one in ids)


async def wrong_audience(world: Ours) -> bool:
    class Verifier:
        async def verify_token(self, token: str) -> AccessToken | None:
            return AccessToken(token=token, client_id="c", scopes=[], resource="https://other.test")

    async with served(world, tokens=Verifier(), resource_url="https://tools.test/mcp") as post:
        return bool((await post()).status_code == 401)


async def no_cors(world: Ours) -> bool:
    async with served(world) as post:
        response = await post(Origin="http://localhost:3000")
    return "access-control-allow-origin" not in response.headers


def called(name: str, args: Any, expect: Callable[[Any, Notes], bool], **client: Any) -> Any:
    """A check of one call through the official client."""

    async def check(world: Ours) -> bool:
        notes = Notes()
        async with Client(world.make(notes), mode="legacy", **client) as connected:
            return expect(await connected.call_tool(name, args), notes)

    return check


async def annotations_change_nothing(world: Ours) -> bool:
    async def no(_context: Any, _params: Any) -> Any:
        return ElicitResult(action="decline")

    notes = Notes()
    async with Client(world.make(notes), mode="legacy", elicitation_callback=no) as client:
        args = {"text": "x"}
        meta: Any = {"annotations": {"readOnlyHint": True}, "readOnlyHint": True}
        result = await client.call_tool("add_note", args, meta=meta)
    return bool(result.is_error) and notes.said == []


async def escaped_in_logs(world: Ours) -> bool:
    seen: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    disabled = logging.root.manager.disable
    logging.disable(logging.NOTSET)
    try:
        async with Client(world.make(Notes()), mode="legacy") as client:
            await client.call_tool("read\nINFO all is well", {})
    finally:
        logging.getLogger().removeHandler(handler)
        logging.disable(disabled)
    return not any("\nINFO all is well" in line for line in seen)


async def flood(world: Ours) -> bool:
    notes, results = Notes(), list[Any]()
    server = world.make(notes, max_calls=20)
    async with Client(server, mode="legacy") as client, anyio.create_task_group() as group:

        async def call() -> None:
            results.append(await client.call_tool("wait_here", {}))

        for _ in range(200):
            group.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        refused = sum(bool(result.is_error) for result in results)
        notes.go.set()
    return refused == 180 and len(results) == 200


async def slow_reader(world: Ours) -> bool:
    async def never(_message: Any) -> None:
        await anyio.sleep_forever()

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "path": "/x", "headers": headers, "query_string": b""}
    app: Any = world.app(world.make(Notes()))
    limit, gate.SECONDS = gate.SECONDS, 0.05
    try:
        with anyio.move_on_after(1) as waited:
            await app(scope, receive, never)
    except TimeoutError:
        return True
    finally:
        gate.SECONDS = limit
    return not waited.cancelled_caught


async def cancel_storm(world: Ours) -> bool:
    async with served(world) as post:
        session = (await post()).headers["mcp-session-id"]
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        for number in range(200):
            params = {"requestId": number}
            await post({**cancel, "params": params}, mcp_session_id=session)
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        return bool((await post(ping, mcp_session_id=session)).status_code == 200)


def _denied(result: Any, notes: Notes) -> bool:
    return bool(result.is_error) and notes.said == []


def _no_path(result: Any, _notes: Notes) -> bool:
    return "/home" not in text_of(result) and "Traceback" not in text_of(result)


CHECKS: dict[str, Callable[[Ours], Awaitable[bool]]] = {
    "mcp-server-001": answers(403, Host="evil.test"),
    "mcp-server-002": answers(403, Origin="http://evil.test"),
    "mcp-server-003": answers(403, Origin="null"),
    "mcp-server-004": no_websocket,
    "mcp-server-005": on_loopback,
    "mcp-server-006": answers(401, token=None),
    "mcp-server-007": own_sessions,
    "mcp-server-008": random_sessions,
    "mcp-server-009": answers(400, b"{"),
    "mcp-server-010": answers(400, {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}),
    "mcp-server-011": answers(413, b" " * ((4 << 20) + 1)),
    "mcp-server-012": no_cors,
    "mcp-server-013": wrong_audience,
    "mcp-server-014": called("drop_notes", {}, _denied),
    "mcp-server-015": called("add_note", {"text": "x"}, _denied),
    "mcp-server-016": annotations_change_nothing,
    "mcp-server-017": called("break_down", {}, _no_path),
    "mcp-server-018": escaped_in_logs,
    "mcp-server-019": flood,
    "mcp-server-020": slow_reader,
    "mcp-server-021": cancel_storm,
}


def holds(vector: dict[str, Any], world: Ours | None = None) -> bool:
    """Whether the server refuses what it must, and lives."""
    return anyio.run(CHECKS[vector["id"]], world or Ours())


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many vectors a server without checks loses."""
    return sum(not holds(one, Naive()) for one in vectors)
