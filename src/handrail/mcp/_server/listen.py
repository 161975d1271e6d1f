"""Runs an ASGI application; the only module that imports uvicorn."""

from __future__ import annotations

import socket

import anyio
import uvicorn
from starlette.types import ASGIApp

_MAX_CONNECTIONS = 1_000
_KEEP_ALIVE_SECONDS = 5
_SHUTDOWN_SECONDS = 5


async def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Serve an application on a bound socket. More connections than a limit are refused."""
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    server = uvicorn.Server(config)

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
