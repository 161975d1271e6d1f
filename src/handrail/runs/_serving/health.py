"""Answer an orchestrator asking whether a worker lives and is ready."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress

import anyio
from anyio.abc import SocketStream, TaskStatus

from handrail.runs._serving.handle import DurableWorker

_MAX_REQUEST = 4096


async def answer_health(
    host: str,
    port: int,
    worker: DurableWorker,
    *,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Answer ``/healthz``, ``/readyz`` and ``/metrics``. Starts with the port."""

    async def answer(stream: SocketStream) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            async with stream:
                with anyio.move_on_after(5):
                    request = await stream.receive(_MAX_REQUEST)
                    await stream.send(await _respond(request, worker))

    listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    async with listener:
        port_of = anyio.abc.SocketAttribute.local_port
        task_status.started(listener.extra(port_of))  # noqa: S610  no Django here
        await listener.serve(answer)


async def _respond(request: bytes, worker: DurableWorker) -> bytes:
    path = request.partition(b"\r\n")[0].split(b" ")[1:2]
    if path == [b"/healthz"]:
        status, text = "200 OK", "alive"
    elif path == [b"/metrics"]:
        status, text = "200 OK", await worker.render_metrics()
    elif path != [b"/readyz"]:
        status, text = "404 Not Found", "not found"
    elif worker.is_ready:
        status, text = "200 OK", "ready"
    else:
        status, text = "503 Service Unavailable", "not ready"
    body, form = text.encode(), "text/plain; version=0.0.4; charset=utf-8"
    head = f"HTTP/1.1 {status}\r\nContent-Type: {form}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


async def serve_until_signal(
    worker: DurableWorker,
    health: tuple[str, int] | None,
    on_start: Callable[[DurableWorker, int], None] | None,
) -> None:
    """Answer an orchestrator until the process gets SIGTERM or SIGINT."""
    async with anyio.create_task_group() as group:
        port = 0
        if health is not None:
            port = await group.start(answer_health, *health, worker)
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            if on_start is not None:
                on_start(worker, port)
            await anext(aiter(signals))
        group.cancel_scope.cancel()
