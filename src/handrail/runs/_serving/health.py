"""Answer an orchestrator that asks whether a worker lives and is ready."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import anyio
from anyio.abc import SocketStream, TaskStatus

_MAX_REQUEST = 4096


async def answer_health(
    host: str,
    port: int,
    is_ready: Callable[[], bool],
    *,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Answer ``/healthz`` and ``/readyz`` until it is cancelled. Starts with the port."""

    async def answer(stream: SocketStream) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            async with stream:
                with anyio.move_on_after(5):
                    request = await stream.receive(_MAX_REQUEST)
                    await stream.send(_respond(request, is_ready))

    listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    async with listener:
        port_of = anyio.abc.SocketAttribute.local_port
        task_status.started(listener.extra(port_of))  # noqa: S610  no Django here
        await listener.serve(answer)


def _respond(request: bytes, is_ready: Callable[[], bool]) -> bytes:
    path = request.partition(b"\r\n")[0].split(b" ")[1:2]
    if path == [b"/healthz"]:
        status, text = "200 OK", "alive"
    elif path != [b"/readyz"]:
        status, text = "404 Not Found", "not found"
    elif is_ready():
        status, text = "200 OK", "ready"
    else:
        status, text = "503 Service Unavailable", "not ready"
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
    return f"{head}Connection: close\r\n\r\n{text}".encode()
