"""`readers.py`: everything that reads from outside gets small bodies that are huge when unpacked.

It prints, as JSON, how many megabytes each reader needed, and which encodings it got.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import struct
import tempfile
import threading
import time
import zlib
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2

from handrail import READ, Ask, Call, Executor, Registry, Toolset, tool
from handrail.approvals import defer
from handrail.cli._base.local_servers import models_at
from handrail.hooks import notify
from handrail.mcp import HttpServer, Login, McpSource, TokenFile
from handrail.mcp.server import http_app, make_server
from handrail.messages import Prompt, Request
from handrail.models import anthropic, gemini, openai_chat, openai_responses
from handrail.net import Guard
from handrail.net._oidc import LoginProof, OidcClient
from handrail.net.forms import read_form
from handrail.openapi import guarded_client, tools
from handrail.tools import web_fetch
from mcp_served.test_server_http import running

Reader = Callable[[str], Awaitable[Any]]
"""Reads from an address; it may fail, but not take much memory."""

UNPACKED = 160 << 20
"""Bytes of each body, but for those that no package here unpacks."""


def _pack(header: bytes, window: int) -> tuple[bytes, int]:
    """A megabyte of spaces, packed once and repeated: nothing huge is made here."""
    block = b" " * (1 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    first = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    count, check = UNPACKED >> 20, window
    for _ in range(count):
        check = (zlib.crc32 if window == 0 else zlib.adler32)(block, check)
    return header + first + again * (count - 1) + packer.flush(), check


def _gzip() -> bytes:
    body, check = _pack(b"\x1f\x8b\x08\0\0\0\0\0\2\xff", 0)
    return body + struct.pack("<II", check, UNPACKED & 0xFFFFFFFF)


def _deflate() -> bytes:
    body, check = _pack(b"\x78\xda", 1)
    return body + struct.pack(">I", check)


def _zstd() -> bytes:
    """Blocks that each repeat one byte."""
    head = b"\x28\xb5\x2f\xfd" + b"\x00" + b"\x38"
    size = 128 << 10
    block = struct.pack("<I", size << 3 | 1 << 1)[:3] + b" "
    last = struct.pack("<I", size << 3 | 1 << 1 | 1)[:3] + b" "
    return head + block * ((UNPACKED // size) - 1) + last


BROTLI = b64decode(
    "z///fwAkQOKxQHLv//n//w+ABEAcFoDu/T////8BkACIwwLQvf/n//8/ABIAcVgAuvf//P//B0ACIA4LQPf+n////wBIAMRh"
    "Aeje//P//x8ACYA4LADd+3/+//8DIAEQhwWge//P//9/ACQA4rAAdO//+f//D4AEQBwWgO79P////wGQAIjDAtC9/+f//z8A"
    "EgBxWAC69//8//8HQAIgDgtA9/6f////AEgAxGEB6N7/8///HwAJgDgsAN37f/7//wMgARCHBaB7/8///38AJADisAB07//5"
    "//8PgARAHBaA7v0/////AZAAiMMC0L3/z///fwASAHFYALr3/w=="
)
BODIES = {"gzip": _gzip(), "deflate": _deflate(), "zstd": _zstd(), "br": BROTLI}
BODIES["gzip,gzip"] = gzip.compress(BODIES["gzip"])
BODIES["chunked"] = BODIES["gzip"]
sent: list[str] = []
"""The encodings of the bodies that were sent: a reader that gets none proves nothing."""
turns = cycle(BODIES)
KINDS = {"json": "application/json", "events": "text/event-stream", "page": "text/html"}


class Site(BaseHTTPRequestHandler):
    """`/ENCODING/KIND/STATUS/...` answers with a body; what comes first in a login, with JSON."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        # some readers put a well-known path before the path that they were given
        found = re.findall(r"/([a-z,]+)/(\w+)/(\w+)(?:/|$)", self.path)
        [(encoding, kind, status)] = found or [("gzip", "json", "404")]
        base = f"http://{self.headers['Host']}/{encoding}"
        good = _say(base, kind, status, self.path)
        with suppress(OSError):
            if encoding == "each":
                encoding = next(turns)
            if good is None:
                self._send_packed(encoding, KINDS[kind], int(status))
            else:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(good)))
                self.end_headers()
                self.wfile.write(good)

    do_POST = do_GET  # noqa: N815  the name that the class looks for

    def _send_packed(self, encoding: str, kind: str, status: int) -> None:
        body = BODIES[encoding]
        sent.append(encoding)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Encoding", "gzip" if encoding == "chunked" else encoding)
        self.send_header("Location", "/")
        if encoding != "chunked":
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for at in range(0, len(body), 5_000):
            piece = body[at : at + 5_000]
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")


def _say(base: str, kind: str, step: str, rest: str) -> bytes | None:
    """What is said before the body: a provider of logins answers one step after the other."""
    if kind != "oidc":
        return None
    bomb = f"{base}/json/200"
    issuer = f"{base}/oidc/{step}"
    if rest.endswith("openid-configuration"):
        about = dict.fromkeys(("authorization_endpoint", "token_endpoint", "jwks_uri"), bomb)
        about["token_endpoint"] = bomb if step == "token" else f"{issuer}/token"
        return json.dumps({"issuer": issuer, **about}).encode()
    return b'{"id_token": "e30.e30.e30"}'


def _model(make: Any, kind: str, *, stream: bool) -> Reader:
    """A reader that makes its client once: the encodings of its answers take turns."""
    made: list[Any] = []

    async def read(url: str) -> None:
        if not made:
            base_url = f"{url.rpartition('/')[0]}/each/{kind}"
            made.append(make("m", base_url=base_url, key="k", stream=stream))
        answer = made[0](Request([Prompt.of("hi")], tools=Toolset()))
        await (answer if isinstance(answer, Awaitable) else anext(answer))

    return read


async def _connect(url: str, kind: str) -> None:
    server = HttpServer(name="x", url=f"{url}/{kind}")
    async with Registry().connect(McpSource(server, start_seconds=20)):
        pass


async def _log_in(url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        await Login(TokenFile(Path(folder) / "t")).start(f"{url}/json/200")


def _oidc(kind: str) -> Reader:
    async def read(url: str) -> None:
        client = OidcClient(
            issuer=f"{url}/{kind}", client_id="c", client_secret="", scopes=(), clock=time.time
        )
        answer = {"code": "c", "state": "s"}
        await client.finish(LoginProof("s", "n", "v"), "http://127.0.0.1/", answer)

    return read


def _guard(url: str) -> Guard:
    port = int(re.findall(r":([0-9]+)", url)[0])
    return Guard(ports=frozenset({port}), networks=("127.0.0.0/8",))


async def _run(made: Any, call: Call, **options: Any) -> None:
    async with Executor(made, **options) as executor:
        await executor.run(call)


def _operation(kind: str) -> Reader:
    async def read(url: str) -> None:
        paths = {f"/{kind}/x": {"get": {"operationId": "get"}}}
        document = {"openapi": "3.1.0", "info": {"title": "t"}, "paths": paths}
        made = tools(document, guarded_client(_guard(url)), server=url)
        await _run(made, Call(*(each.spec.name for each in made), {}))

    return read


async def _fetch(url: str) -> None:
    call = Call("web_fetch", {"url": f"{url}/page/200/x"})
    await _run(Toolset(web_fetch(guard=_guard(url))), call)


@tool(effect=READ)
def look() -> str:
    """Look."""
    return ""


async def _notify(url: str) -> None:
    hook = notify(f"{url}/json/200", link=lambda _: "x")
    await _run(
        Toolset(look), Call("look", {}), policy=lambda _: Ask("?"), approvals=defer, hooks=[hook]
    )


async def _serve(url: str) -> None:
    """The server of tools gets a body that is packed."""
    encoding = url.rpartition("/")[2]
    app = http_app(make_server(Executor(Toolset(look))), tokens=None)
    transport = httpx2.ASGITransport(app=app)
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Encoding": "gzip" if encoding == "chunked" else encoding,
    }
    async with (
        running(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        response = await client.post("/mcp", content=BODIES[encoding], headers=headers)
        sent.append(encoding)
        assert response.status_code == 400, response


async def _read_form(url: str) -> None:
    encoding = url.rpartition("/")[2]
    body = BODIES[encoding]

    async def receive() -> dict[str, Any]:
        sent.append(encoding)
        return {"type": "http.request", "body": body}

    kind = "application/x-www-form-urlencoded"
    assert isinstance(await read_form(kind, receive, most=4 << 20, seconds=5), int)


async def _trust(url: str) -> None:
    """The control: a reader without a bound."""
    async with httpx2.AsyncClient() as client:
        await client.get(f"{url}/json/200")


READERS: dict[str, Reader] = {
    "MCP: JSON": lambda url: _connect(url, "json/200"),
    "MCP: events": lambda url: _connect(url, "events/200"),
    "MCP: error": lambda url: _connect(url, "json/500"),
    "MCP: login": _log_in,
    "MCP: served": _serve,
    "OIDC: discovery": _oidc("json/200"),
    "OIDC: token": _oidc("oidc/token"),
    "OIDC: keys": _oidc("oidc/keys"),
    "OpenAPI: JSON": _operation("json/200"),
    "OpenAPI: error": _operation("json/400"),
    "web_fetch": _fetch,
    "notify": _notify,
    "console: form": _read_form,
    "models: list": lambda url: anyio.to_thread.run_sync(models_at, f"{url}/json/200"),
    "OpenAI chat: events": _model(openai_chat, "events/200", stream=True),
    "OpenAI chat: JSON": _model(openai_chat, "json/200", stream=False),
    "OpenAI chat: error": _model(openai_chat, "json/400", stream=True),
    "OpenAI responses: events": _model(openai_responses, "events/200", stream=True),
    "Anthropic: events": _model(anthropic, "events/200", stream=True),
    "Anthropic: JSON": _model(anthropic, "json/200", stream=False),
    "Anthropic: error": _model(anthropic, "json/400", stream=True),
    "Gemini: events": _model(gemini, "events/200", stream=True),
    "Gemini: JSON": _model(gemini, "json/200", stream=False),
    "Gemini: error": _model(gemini, "json/400", stream=True),
}


def _memory(field: str) -> int:
    """Megabytes of this process: now, or at most since the last reset."""
    [found] = re.findall(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text("utf-8"))
    return int(found) >> 10


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", "utf-8")


async def _read(read: Reader, url: str) -> None:
    with anyio.fail_after(60), suppress(Exception):
        await read(url)


async def _measure(read: Reader, url: str, encodings: Iterable[str]) -> tuple[int, list[str]]:
    """Return the megabytes that a reader took for all of them at once, and which it got."""
    await _read(read, f"{url}/br")  # loads what it needs
    sent.clear()
    _forget_peak()
    before = _memory("VmRSS")
    async with anyio.create_task_group() as group:
        for encoding in encodings:
            group.start_soon(_read, read, f"{url}/{encoding}")
    return _memory("VmHWM") - before, sorted(set(sent))


async def main() -> None:
    """Measure all of them."""
    site = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{site.server_address[1]}"
    found = {name: await _measure(read, url, BODIES) for name, read in READERS.items()}
    found["control"] = await _measure(_trust, url, ["gzip"])
    print(json.dumps(found), flush=True)  # noqa: T201  for the test that started it
    os._exit(0)  # connections that readers gave up may still be open


if __name__ == "__main__":
    anyio.run(main)
