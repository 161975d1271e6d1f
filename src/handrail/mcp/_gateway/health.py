"""Answers an orchestrator's health and readiness checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

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
