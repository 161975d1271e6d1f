"""The transport to an address: the SDK's, with bounds and with eyes for what a status means."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from handrail.mcp._client.servers import HttpServer
from handrail.mcp._client.watch import Watch
from handrail.mcp._login.flow import Login

MAX_BODY_BYTES = 16 << 20
"""Bytes of one answer. A longer one ends the connection."""
_REFUSED = frozenset({401, 403})
_GONE = 404


@asynccontextmanager
async def connect_address(server: HttpServer, watch: Watch) -> AsyncGenerator[tuple[Any, Any]]:
    """Exchange messages with a server at an address until the block ends."""
    auth = server.auth.make_auth(server.url) if isinstance(server.auth, Login) else server.auth
    client = create_mcp_http_client(headers=dict(server.headers), auth=auth)
    client.event_hooks = {"response": [partial(_look_at, watch)]}
    async with (
        client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_BODY_BYTES
        ) as streams,
    ):
        yield streams


async def _look_at(watch: Watch, response: httpx2.Response) -> None:
    status = response.status_code
    if status in _REFUSED:
        watch.needs_login = True
        watch.challenge = response.headers.get("www-authenticate", "")
        watch.end("it asks for a login")
    elif status == _GONE and "mcp-session-id" in response.request.headers:
        watch.expired = True
        watch.end("its session has expired")
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends in an error if it is too long."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_BODY_BYTES
        async for piece in self._stream:
            left -= len(piece)
            if left < 0:
                raise httpx2.ReadError(f"the answer has more than {MAX_BODY_BYTES} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
