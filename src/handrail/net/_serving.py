"""Runs an ASGI application; the only module that imports uvicorn."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import anyio
import uvicorn

from handrail.net._files import allow_files, count_files

MAX_CONNECTIONS = 1_200
"""More are rejected, and fewer are accepted if the process cannot have as many files open."""
_WANTED_FILES = 2_000
_KEEP_ALIVE_SECONDS = 5
_SHUTDOWN_SECONDS = 5


async def serve_app(
    app: Any,
    listening: socket.socket,
    *,
    before_shutdown: Callable[[], object] | None = None,
    max_header_bytes: int | None = None,
) -> None:
    """Serve an ASGI application until the task is cancelled, or the process gets SIGINT or SIGTERM.

    Args:
        app: The application.
        listening: A bound socket.
        before_shutdown: Called when the server stops, before it waits for open responses.
        max_header_bytes: Larger headers are rejected.
    """
    allow_files(_WANTED_FILES)
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a header does not say where a request comes from
        h11_max_incomplete_event_size=max_header_bytes,
        limit_concurrency=min(MAX_CONNECTIONS, count_files() * 5 // 6),
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            if before_shutdown is not None:
                before_shutdown()
            await super().shutdown(sockets)

    server = Server(config)

    async def stop() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            server.should_exit = True

    async with anyio.create_task_group() as group:
        group.start_soon(stop)
        with anyio.CancelScope(shield=True):  # it must close its connections itself
            await server.serve(sockets=[listening])
        group.cancel_scope.cancel()
