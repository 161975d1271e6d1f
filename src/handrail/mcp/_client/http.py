"""The transport to an address: the SDK's, with bounds and with eyes for what a status means."""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from handrail.mcp._client.servers import HttpServer
from handrail.mcp._client.watch import Watch
from handrail.mcp._login.flow import Login
from handrail.net import ask_plain, bound_answer

MAX_BODY_BYTES = 16 << 20
"""Bytes in one answer. A longer one ends the connection."""
_TIMEOUT = httpx2.Timeout(30.0, read=300.0)
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=2.0)
"""No bound: each call holds a connection, and would wait for slower ones. An idle connection
is closed before a server closes it (most do after 5 s), when a request could get lost."""
_REFUSED = frozenset({401, 403})
_GONE = 404


@asynccontextmanager
async def connect_address(server: HttpServer, watch: Watch) -> AsyncGenerator[tuple[Any, Any]]:
    """Exchange messages with a server at an address until the block ends."""
    async with (
        _make_client(server, watch) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_BODY_BYTES
        ) as streams,
    ):
        yield streams


def _make_client(server: HttpServer, watch: Watch) -> httpx2.AsyncClient:
    auth = server.auth.make_auth(server.url) if isinstance(server.auth, Login) else server.auth
    return httpx2.AsyncClient(
        headers=dict(server.headers),
        auth=auth,
        verify=_read_certificates(),
        timeout=_TIMEOUT,
        limits=_LIMITS,
        event_hooks={"request": [ask_plain], "response": [partial(_look_at, watch)]},
    )


@cache
def _read_certificates() -> ssl.SSLContext:
    """Return this machine's trusted certificates, read once: they take 0.8 MB and 50 ms."""
    return httpx2.create_ssl_context()


async def _look_at(watch: Watch, response: httpx2.Response) -> None:
    status = response.status_code
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    # a stream may last for days, with each event bounded by the SDK
    await bound_answer(response, most=math.inf if is_stream else MAX_BODY_BYTES)
    if status in _REFUSED:
        watch.needs_login = True
        watch.challenge = response.headers.get("www-authenticate", "")
        watch.end("it asks for a login")
    elif status == _GONE and "mcp-session-id" in response.request.headers:
        await response.aread()  # ends the request before the connection
        watch.expired = True
        watch.end("its session has expired")
