"""What an HTTP client cannot do to our server; each check has a control that passes."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from mcp.server.auth.provider import AccessToken
from mcp_types import ElicitResult

from handrail.mcp._server import gate
from handrail.mcp.server import bind, http_app, make_server
from mcp_served.served import (
    MODERN,
    TOKENS,
    Notes,
    answering,
    connect,
    executor,
    over_http,
    text_of,
)

pytestmark = pytest.mark.anyio
JSON = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
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


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Our application in this process, without a network."""
    notes = Notes()
    async with executor(notes) as made:
        app: Any = http_app(make_server(made), **{"tokens": TOKENS, **options})
        async with running(app):
            transport = httpx2.ASGITransport(app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
                yield http


@asynccontextmanager
async def running(app: Any) -> AsyncIterator[None]:
    """The life of an application, as a server drives it."""
    to_app, from_app = (
        anyio.create_memory_object_stream[Any](2),
        anyio.create_memory_object_stream[Any](2),
    )
    async with to_app[0], to_app[1], from_app[0], from_app[1], anyio.create_task_group() as group:
        group.start_soon(app, {"type": "lifespan"}, to_app[1].receive, from_app[0].send)
        await to_app[0].send({"type": "lifespan.startup"})
        await from_app[1].receive()
        yield
        await to_app[0].send({"type": "lifespan.shutdown"})
        await from_app[1].receive()


async def post(
    http: httpx2.AsyncClient, body: Any = HELLO, token: str | None = "t-alice", **headers: str
) -> httpx2.Response:
    sent = {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await http.post("/mcp", content=content, headers=sent)


def session_of(response: httpx2.Response) -> str:
    return str(response.headers["mcp-session-id"])


async def test_a_request_with_a_token_from_this_machine_is_served() -> None:
    async with served() as http:
        response = await post(http, Origin="http://localhost:3000")

    assert response.status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.test"}, 403),
        ({"Host": "localhost.evil.test"}, 403),
        ({"Host": "localhost:80:evil"}, 403),
        ({"Origin": "http://evil.test"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost.evil.test"}, 403),
        ({"Host": "tools.example.org", "Origin": "https://app.example.org"}, 200),
    ],
)
async def test_hosts_and_origins_of_others_are_refused(
    headers: Mapping[str, str], status: int
) -> None:
    async with served(hosts=["tools.example.org"], origins=["https://app.example.org"]) as http:
        response = await post(http, **headers)

    assert response.status_code == status


@pytest.mark.parametrize(
    ("token", "status"), [(None, 401), ("", 401), ("t-mallory", 401), ("t-bob", 200)]
)
async def test_a_token_is_required(token: str | None, status: int) -> None:
    async with served() as http:
        response = await post(http, token=token)

    assert response.status_code == status


async def test_without_tokens_only_if_you_say_so() -> None:
    async with served(tokens=None) as http:
        assert (await post(http, token=None)).status_code == 200
    with pytest.raises(TypeError):
        http_app(make_server(executor(Notes())))  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="must not be empty"):
        http_app(make_server(executor(Notes())), tokens={"": "alice"})
    with pytest.raises(ValueError, match="must not be empty"):
        http_app(make_server(executor(Notes())), tokens={"t": ""})


@pytest.mark.parametrize(
    ("audience", "status"), [("https://tools.test/mcp", 200), ("https://other.test", 401)]
)
async def test_a_token_for_another_audience_is_refused(audience: str, status: int) -> None:
    class Verifier:
        async def verify_token(self, token: str) -> AccessToken | None:
            return AccessToken(
                token=token, client_id="c", scopes=[], resource=audience, subject="eve"
            )

    async with served(tokens=Verifier(), resource_url="https://tools.test/mcp") as http:
        assert (await post(http)).status_code == status


async def test_a_session_belongs_to_its_principal_and_its_id_is_random() -> None:
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    async with served() as http:
        ids = [session_of(await post(http)) for _ in range(20)]
        own = await post(http, ping, mcp_session_id=ids[0])
        other = await post(http, ping, token="t-bob", mcp_session_id=ids[0])

    assert (own.status_code, other.status_code) == (200, 404)
    assert (len(set(ids)), min(map(len, ids))) == (20, 32)


async def test_large_deep_and_malformed_requests_are_refused_and_the_server_lives() -> None:
    deep, level = b"[" * 65 + b"]" * 65, b"[" * 64 + b"]" * 64
    flat = b'{"a":[' + b",".join([b"[],{}"] * 400_000) + b"]}"
    quoted = json.dumps({**HELLO, "x": "[" * 1000 + '\\"' + "{" * 500}).encode()
    async with served() as http:
        got = [
            await post(http, b" " * (gate.MAX_BODY_BYTES + 1)),
            await post(http, deep),
            await post(http, b"{"),
            await post(http, {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}),
            await post(http, quoted),
            await post(http, b'{"a": "' + b"\\" * 99_999),
            await post(http, Content_Length="1e3"),
            await post(http, b"[" * 99_999),
            await post(http, level),
            await post(http, flat),
            await post(http, ('{"a\\"": ' + "[" * 65 + "]" * 65 + "}").encode("utf-16-le")),
            await post(http),
        ]

    statuses = [response.status_code for response in got]
    assert statuses == [413, 400, 400, 400, 200, 400, 400, 413, 400, 413, 400, 200]
    said = [response.text for response in got]
    assert said[1] == "The JSON is nested too deeply."
    assert said[10] == "The JSON is not UTF-8."
    assert said[7] == said[9] == "The JSON has more than 50,000 values."


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # what the parser does is the same on trio
async def test_a_full_request_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, anyio_backend: str
) -> None:
    """The most CPU time between two moments at which others could run; without the bound, too."""
    many = [b'{"a":[1]}', b"[]", b'""', b'"k":1']
    full = [b'{"a":{"b":[' + b",".join([one] * (4_000_000 // (len(one) + 1))) for one in many]
    gaps = list[float]()

    async def tick() -> None:
        last = time.process_time()
        while True:
            await anyio.lowlevel.checkpoint()
            now = time.process_time()
            gaps.append(now - last)
            last = now

    async def longest(*bodies: bytes) -> float:
        gaps.clear()
        for body in bodies:
            await post(http, body + b"]}}", mcp_protocol_version=MODERN)
            await anyio.lowlevel.checkpoint()
        return max(gaps)

    async with served() as http, anyio.create_task_group() as group:
        group.start_soon(tick)
        bounded = await longest(*full)
        monkeypatch.setattr(gate, "MAX_JSON_VALUES", 1 << 30)
        unbounded = await longest(full[0])
        group.cancel_scope.cancel()

    assert bounded * 4 < unbounded


async def test_without_a_token_no_body_is_read() -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep_forever()

    async with served() as http:
        with anyio.fail_after(20):
            response = await http.post("/mcp", content=endless(), headers=JSON)

    assert response.status_code == 401


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the client leaves a generator to trio
async def test_a_large_request_in_pieces_and_a_slow_one_are_refused(
    monkeypatch: pytest.MonkeyPatch, anyio_backend: str
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b" " * (1 << 20)

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep_forever()

    headers = {**JSON, "Authorization": "Bearer t-alice"}
    async with served() as http:
        large = await http.post("/mcp", content=pieces(), headers=headers)
        monkeypatch.setattr(gate, "SECONDS", 0.05)
        slow = await http.post("/mcp", content=endless(), headers=headers)

    assert (large.status_code, slow.status_code) == (413, 408)


async def test_a_client_that_never_reads_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "SECONDS", 0.05)

    async def answer(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def never(_message: Any) -> None:
        await anyio.sleep_forever()

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    tried = gate.Gate(answer, answer, hosts=("localhost",), origins=())
    scope = {"type": "http", "headers": [(b"host", b"localhost")]}
    with pytest.raises(TimeoutError):
        await tried(scope, receive, never)


async def test_there_is_no_websocket() -> None:
    told: list[Any] = []

    async def send(message: Any) -> None:
        told.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    app: Any = http_app(make_server(executor(Notes())), tokens=TOKENS)
    await app({"type": "websocket", "headers": []}, receive, send)

    assert told == [{"type": "websocket.close", "code": 1008}]


async def test_no_answer_allows_other_sites() -> None:
    headers = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST"}
    async with served() as http:
        response = await http.options("/mcp", headers=headers)

    assert "access-control-allow-origin" not in response.headers


def test_a_socket_is_bound_to_this_machine_by_default() -> None:
    with bind() as here, bind("::1") as six:
        assert (here.getsockname()[0], six.getsockname()[0]) == ("127.0.0.1", "::1")
        here.listen()
        with pytest.raises(OSError, match="in use"):
            bind("127.0.0.1", here.getsockname()[1])


async def test_a_broken_connection_leaves_the_server_alive() -> None:
    notes = Notes()
    async with over_http(executor(notes)) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        body = json.dumps(HELLO).encode()
        head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer t-alice\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"

        def cut(text: bytes) -> None:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(text)

        for text in (head.encode() + body, head.encode(), b"nonsense\r\n\r\n"):
            await anyio.to_thread.run_sync(cut, text)
        async with connect(url) as client:
            result = await client.call_tool("read_note", {})

    assert text_of(result) == "a: "


async def test_names_with_line_breaks_do_not_reach_the_log_as_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notes = Notes()
    async with over_http(executor(notes)) as url, connect(url) as client:
        result = await client.call_tool("read\nnote\x1b[31m", {})

    assert result.is_error
    assert not any("\x1b" in record.getMessage() for record in caplog.records)
    assert not any("read\nnote" in record.getMessage() for record in caplog.records)


async def test_a_client_of_the_newer_era_cannot_leave_its_session() -> None:
    """A call waits behind a question of its principal, whatever session its headers name."""
    notes, order = Notes(), list[str]()
    ask: Any = {"mode": MODERN, "elicitation_callback": answering("accept")}
    elsewhere = {"mcp-session-id": "elsewhere"}
    yes = {"approval": ElicitResult(action="accept")}
    async with (
        over_http(executor(notes)) as url,
        connect(url, **ask) as client,
        connect(url, sent=elsewhere, **ask) as other,
        anyio.create_task_group() as tasks,
    ):

        async def read() -> None:
            order.append(text_of(await other.call_tool("read_note", {"key": "a"})))

        call: Any = {"name": "add_note", "arguments": {"text": "x"}}
        asked: Any = await client.session.call_tool(**call, allow_input_required=True)
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        state = {"request_state": asked.request_state, "input_responses": yes}
        with anyio.fail_after(30):
            await client.session.call_tool(**call, **state)

    assert order == ["a: x"]
