"""What a request of web_fetch costs beside the same one of a plain client, which is shared.

Both open a connection for each request, to a server on the loopback in a thread of this process.
Sides take turns in one run, and the best turn of each counts.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator

import anyio
import httpx2

from definition import Row
from handrail.net import Guard, Url
from handrail.tools._web.http import FetchOptions, dial, get

TURNS = 15
MANY = 40
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"


def serve(listener: socket.socket) -> None:
    while True:
        client, _ = listener.accept()
        with client:
            if client.recv(65_536):
                client.sendall(ANSWER)


async def best(*sides: Callable[[], Awaitable[object]]) -> list[float]:
    """Seconds of one request, in each side's best turn."""
    found = [float("inf")] * len(sides)
    for _ in range(TURNS):
        for place, side in enumerate(sides):
            started = time.perf_counter()
            for _ in range(MANY):
                await side()
            found[place] = min(found[place], (time.perf_counter() - started) / MANY)
    return found


async def measured() -> tuple[float, float]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    port: int = listener.getsockname()[1]
    guard = Guard(
        ports=frozenset({port}), networks=("127.0.0.0/8",), resolver=lambda *_: ["127.0.0.1"]
    )
    options = FetchOptions(guard=guard, trust=None, connect=dial, max_bytes=5 << 20)
    url = Url("http", "pub.test", port, "/", "")
    limits = httpx2.Limits(max_keepalive_connections=0)
    async with httpx2.AsyncClient(limits=limits, trust_env=False) as client:
        ours, plain = await best(
            lambda: get(url, options), lambda: client.get(f"http://127.0.0.1:{port}/")
        )
    return ours, plain


def rows() -> Iterator[Row]:
    ours, plain = anyio.run(measured)
    more = (ours - plain) * 1e3
    beside = f"httpx2: {plain * 1e3:.2f} ms, ours {ours * 1e3:.2f} ms"
    yield Row("web_fetch, guard and request, more", more, 1, "ms", beside, more <= 1)
