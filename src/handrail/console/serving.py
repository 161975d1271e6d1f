"""Make the console, and run it in uvicorn on a socket that is already bound."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import anyio

from handrail import HandrailError
from handrail.console.config import ConsoleConfig

if TYPE_CHECKING:
    from handrail.console.application import Console

MAX_CONNECTIONS = 1_000
_KEEP_ALIVE_SECONDS = 5
_SHUTDOWN_SECONDS = 2


def app(config: ConsoleConfig | None = None, *, runs: str) -> Console:
    """Return the console as an ASGI application.

    Args:
        config: How it is set up. Default: a local console.
        runs: Where the runs are: the file of a journal, or the database of durable runs (a file,
            or ``postgresql://...``).
    """
    try:
        from handrail.console.application import Console
    except ModuleNotFoundError as error:
        raise HandrailError(
            f"The console needs {error.name}. Install it: `pip install 'handrail[console]'`."
        ) from error
    from handrail.console.store import open_store

    return Console(config or ConsoleConfig(), open_store(runs))


async def serve(console: Console, listening: socket.socket) -> None:
    """Serve the console until the task is cancelled, or the process gets SIGINT or SIGTERM.

    Args:
        console: The console.
        listening: A socket that is bound: on loopback, or a Unix socket.
    """
    import uvicorn

    from handrail.console.guard import MAX_HEADER_BYTES

    config = uvicorn.Config(
        console,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a header does not say where a request comes from
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            console.end_streams()
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
