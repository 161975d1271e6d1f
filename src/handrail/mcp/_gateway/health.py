"""Answers an orchestrator's checks, and a monitoring system's requests for metrics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from hashlib import sha256
from typing import Any, TypeAlias

from handrail.mcp._gateway.upstreams import Upstreams
from handrail.mcp._server.metrics import CallMetrics

Application: TypeAlias = Callable[..., Any]
"""An ASGI application."""


def with_health(app: Application, is_ready: Callable[[], bool]) -> Application:
    """Return an application with ``/healthz`` and ``/readyz``, both without a token.

    The answers contain nothing about servers or tools.
    """

    async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
        path = scope.get("path") if scope["type"] == "http" else None
        if path not in ("/healthz", "/readyz"):
            await app(scope, receive, send)
            return
        is_fine = path == "/healthz" or is_ready()
        text = "alive" if path == "/healthz" else "ready" if is_fine else "not ready"
        await respond(send, 200 if is_fine else 503, text)

    return answer


async def respond(send: Any, status: int, text: str) -> None:
    """Send a whole response."""
    body = text.encode()
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def with_metrics(
    app: Application,
    metrics: CallMetrics,
    *,
    tokens: Collection[str],
    upstreams: Upstreams | None = None,
) -> Application:
    """Return an application with ``/metrics``, in the Prometheus text format.

    A request needs one of the bearer ``tokens``, which are read for each request. The answer has
    the names of all servers and tools, so give a token only to those who may know them.
    """

    async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope.get("path") != "/metrics":
            await app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"authorization", b"")
        allowed = {sha256(f"Bearer {token}".encode()).digest() for token in tokens}
        if sha256(given).digest() not in allowed:
            await respond(send, 401, "This needs a token that may read metrics.\n")
            return
        lines = [*metrics.render(), *(() if upstreams is None else _render(upstreams))]
        await respond(send, 200, "".join(f"{line}\n" for line in lines))

    return answer


def _render(upstreams: Upstreams) -> Iterator[str]:
    health = upstreams.health()
    yield "# HELP handrail_upstream_up Whether the gateway is connected to a server."
    yield "# TYPE handrail_upstream_up gauge"
    for one in health:
        yield f'handrail_upstream_up{{server="{one.name}"}} {int(one.state == "open")}'
    yield "# HELP handrail_upstream_tools Tools of a server that are offered."
    yield "# TYPE handrail_upstream_tools gauge"
    for one in health:
        yield f'handrail_upstream_tools{{server="{one.name}"}} {one.tools}'
