"""Answers a monitoring system's requests for usage metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import sha256
from typing import Any

from handrail.mcp._gateway.health import Application, respond
from handrail.mcp._gateway.upstreams import Upstreams
from handrail.mcp._server.metrics import CallMetrics


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
