"""Read the body of a request to an ASGI application, neither long nor slow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

import anyio


async def read_body(
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]], *, most: int, seconds: float
) -> bytes | HTTPStatus:
    """Return the body of a request, or the status to refuse it with.

    Args:
        receive: The function of the application.
        most: How many bytes it may have.
        seconds: How long it may take.
    """
    body = bytearray()
    with anyio.move_on_after(seconds):
        while True:
            message = await receive()
            if message["type"] != "http.request":  # broken off: the rest may change its meaning
                return HTTPStatus.BAD_REQUEST
            body += message.get("body", b"")
            if len(body) > most:
                return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            if not message.get("more_body"):
                return bytes(body)
    return HTTPStatus.REQUEST_TIMEOUT
