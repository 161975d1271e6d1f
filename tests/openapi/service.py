"""A service to call: it keeps what it receives, and answers as a test says."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import httpx2

from handrail import Call, Executor, Result, Toolset
from handrail.net import Guard
from handrail.openapi import guarded_client, tools
from unframed import UNFRAMED

SERVER = "https://api.test/v1"


class Received(NamedTuple):
    """A request as it arrived."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Answer(NamedTuple):
    """What a service answers."""

    status: int = 200
    body: bytes = b'{"ok":true}'
    headers: Mapping[str, str] = {"Content-Type": "application/json"}


class Service:
    """Answers in this process, through httpx2's own door for tests."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.received: list[Received] = []
        self.hosts: list[str] = []
        self.client = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        target = request.url.raw_path.decode()
        self.hosts.append(request.url.host)
        self.received.append(
            Received(request.method, target, dict(request.headers), request.content)
        )
        answer = self.answers.pop(0) if self.answers else Answer()
        if isinstance(answer, Exception):
            raise answer
        return httpx2.Response(answer.status, headers=dict(answer.headers), content=answer.body)


def document(
    path: str = "/pets",
    method: str = "get",
    *,
    server: str = SERVER,
    version: str = "3.1.0",
    components: Mapping[str, Any] | None = None,
    **operation: Any,
) -> dict[str, Any]:
    """A document with one operation, called ``call_it``."""
    return {
        "openapi": version,
        "info": {"title": "Pets"},
        "servers": [{"url": server}],
        "paths": {path: {method: {"operationId": "callIt", **operation}}},
        "components": components or {},
    }


def parameter(name: str, place: str, schema: Mapping[str, Any] | None = None, **more: Any) -> Any:
    return {"name": name, "in": place, "schema": schema or {"type": "string"}, **more}


def body(schema: Mapping[str, Any], kind: str = "application/json", **more: Any) -> Any:
    return {"required": True, "content": {kind: {"schema": schema}}, **more}


async def call(made: Toolset, args: Mapping[str, Any], name: str = "call_it") -> Result:
    async with Executor(made, hooks=UNFRAMED) as executor:
        return await executor.run(Call(name, dict(args), "c1"))


async def sent(given: Mapping[str, Any], args: Mapping[str, Any], **options: Any) -> Received:
    """The one request that a call makes."""
    service = Service()
    result = await call(tools(given, service.client, **options), args)
    assert (result.failure, len(service.received)) == (None, 1), result
    return service.received[0]


@contextmanager
def on_loopback(*answers: Answer) -> Iterator[tuple[str, list[Received], Any]]:
    """A real server: its URL, what it receives, and a client that may reach it."""
    left, received = list(answers), list[Received]()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            received.append(Received(self.command, self.path, dict(self.headers), content))
            answer = left.pop(0) if left else Answer()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _serve  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    port = server.server_address[1]
    guard = Guard(
        ports=frozenset({port}),
        networks=("127.0.0.0/8",),
        names=("pets.internal",),
        resolver=lambda _host, _port: ["127.0.0.1"],
    )
    try:
        yield f"http://pets.internal:{port}", received, guarded_client(guard)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
