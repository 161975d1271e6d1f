"""Many requests at once, clients that do not read, and uploads that do not end."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import httpx2
import pytest

from handrail import Text
from handrail.messages import Delta, Reply, Request
from handrail.web import ChatApp
from web.chats import (
    ORIGIN,
    as_person,
    client_of,
    identify,
    post_chat,
    serving,
    shop_agent,
    text_of,
)

LONG = "x" * 8_000_000
"""More than all buffers between a server and a client hold."""


async def talk_long(_request: Request) -> AsyncGenerator[Any]:
    yield Delta(LONG)
    yield Reply((Text(LONG),))


def open_stream(url: str) -> socket.socket:
    """Ask for a long answer, and read nothing yet."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    host, _, port = url.removeprefix("http://").partition(":")
    client.connect((host, int(port)))
    body = json.dumps({"text": "Talk.", "conversation": "k"})
    kind = "application/json"
    headers = {"host": host, **as_person("ada"), "content-type": kind, "content-length": len(body)}
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    client.sendall(f"POST /chat HTTP/1.0\r\n{''.join(lines)}\r\n{body}".encode())
    return client


async def wait_for_conversation(client: httpx2.AsyncClient) -> None:
    """Return once the conversation is there."""
    while not (await client.get("/conversations")).json()["conversations"]:  # noqa: ASYNC110
        await anyio.sleep(0.02)


def read_all(client: socket.socket) -> str:
    with client:
        return b"".join(iter(lambda: client.recv(1_000_000), b"")).decode()


async def test_requests_at_once_have_no_more_streams_than_one_after_the_other(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.web._application.MAX_STREAMS_EACH", 2)
    go, codes = anyio.Event(), list[int]()

    async def model(_request: Request) -> AsyncGenerator[Any]:
        await go.wait()
        yield Reply((Text("Yes."),))

    app = ChatApp(shop_agent(model), identify, origins=[ORIGIN], database=sqlite)
    async with client_of(app) as client:

        async def ask() -> None:
            async with client.stream("POST", "/chat", json={"text": "a"}) as response:
                codes.append(response.status_code)
                if len(codes) == 6:
                    go.set()
                await response.aread()

        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(ask)
        after = (await client.post("/chat", json={"text": "b"})).status_code
        shown = (await client.get("/conversations")).json()["conversations"]

    assert sorted(codes) == [200, 200, 429, 429, 429, 429]
    assert (after, len(shown)) == (200, 3)


async def test_a_client_that_does_not_read_loses_its_stream(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.web._application.MAX_STREAMS_EACH", 1)
    for name, seconds in {"BEAT_SECONDS": 0.2, "STALL_SECONDS": 2.0}.items():
        monkeypatch.setattr(f"handrail.web._streams.{name}", seconds)
    app = ChatApp(shop_agent(talk_long), identify, origins=[ORIGIN], database=sqlite)
    async with serving(app) as url, client_of(app) as client:
        stalled = await anyio.to_thread.run_sync(open_stream, url)
        with anyio.fail_after(60):
            await wait_for_conversation(client)
            first = (await client.get("/conversations/k/events")).status_code
            while (again := await client.get("/conversations/k/events")).status_code == 429:  # noqa: ASYNC110
                await anyio.sleep(0.02)
        cut = await anyio.to_thread.run_sync(read_all, stalled)

    assert (first, again.status_code) == (429, 200)
    assert "event: end" not in cut
    assert "event: end" in again.text


async def test_no_comment_follows_the_end_of_a_stream(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server holds back two messages while a client does not read, and then takes both."""
    monkeypatch.setattr("handrail.web._streams.BEAT_SECONDS", 0.01)
    app = ChatApp(shop_agent(), identify, origins=[ORIGIN], database=sqlite)
    asked = [{"type": "http.request", "body": b'{"text": "hello"}', "more_body": False}]
    bodies, held, go = list[bytes](), list[bytes](), anyio.Event()

    async def receive() -> Any:
        if not asked:
            await anyio.sleep_forever()
        return asked.pop()

    async def send(message: Any) -> None:
        body = message.get("body", b"start")
        if (b"event: end" in body or held) and not go.is_set():
            held.append(body)
            await go.wait()
        bodies.append(body)

    headers = {**as_person("ada"), "content-type": "application/json"}
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/chat", "headers": lines}
    async with anyio.create_task_group() as group:
        group.start_soon(app, {**scope, "query_string": b"", "root_path": ""}, receive, send)
        while len(held) < 2:  # noqa: ASYNC110  the second one comes by itself
            await anyio.sleep(0.01)
        go.set()

    assert held[1] == b":\n\n"
    assert bodies[-1] == b""


async def test_one_person_sends_few_files_at_once(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.web._files.MAX_ARRIVING_EACH", 1)
    began, go = anyio.Event(), anyio.Event()

    async def arrive() -> AsyncGenerator[bytes]:
        yield b"a"
        began.set()
        await go.wait()

    found = dict[str, int]()
    app = ChatApp(shop_agent(), identify, origins=[ORIGIN], database=sqlite)
    async with client_of(app) as client:
        kind = {"content-type": "text/plain"}

        async def send(name: str, content: Any, **headers: str) -> None:
            answer = await client.post("/files", content=content, headers={**kind, **headers})
            found[name] = answer.status_code

        async with anyio.create_task_group() as group:
            group.start_soon(send, "slow", arrive())
            await began.wait()
            while found.get("second") != 429:
                await send("second", b"b")
            await send("another's", b"c", **as_person("bob"))
            go.set()
        await send("later", b"d")
        said = text_of(await post_chat(client, {"text": "hello"}))

    assert found == {"second": 429, "another's": 201, "slow": 201, "later": 201}
    assert said == "1: hello "
