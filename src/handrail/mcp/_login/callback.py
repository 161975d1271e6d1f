"""Browser callback: one request to a local port."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream
from mcp.shared.auth import AuthorizationCodeResult

PATH = "/callback"
_MAX_REQUEST_BYTES = 16 << 10
_READ_SECONDS = 10.0
_PAGE = "<!doctype html><title>handrail</title><p>{}</p>"
_DONE = "You can close this window."
_UNKNOWN = "This is not the login that was begun."
_HEADERS = (
    "HTTP/1.1 {}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n"
    "Content-Security-Policy: default-src 'none'\r\nCache-Control: no-store\r\n"
    "Connection: close\r\n\r\n"
)


class Callback:
    """Waits for the browser. Only a request with this login's state is accepted."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener
        self._scope = anyio.CancelScope()
        self._state = ""
        self._arrived = anyio.Event()
        self._fields: dict[str, str] = {}

    @classmethod
    async def bind(cls, port: int = 0) -> Callback:
        """Listen on this machine only. With port 0, use a free port."""
        bound = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
        return cls(bound.listeners[0])  # the only one

    @property
    def url(self) -> str:
        """The browser's return address."""
        port = self._listener.extra(SocketAttribute.local_port)  # noqa: S610 not a database
        return f"http://127.0.0.1:{port}{PATH}"

    def expect(self, state: str) -> None:
        """Accept only the request with this state."""
        self._state = state

    async def serve(self) -> None:
        """Answer requests until ``close``.

        Never raises: on an error, the login runs out of time.
        """
        with self._scope, suppress(Exception):
            await self._listener.serve(self._answer)

    async def wait(self) -> AuthorizationCodeResult:
        """Wait for the browser. Returns what it brought."""
        await self._arrived.wait()
        fields = self._fields
        return AuthorizationCodeResult(
            code=fields.get("code", ""), state=fields.get("state"), iss=fields.get("iss")
        )

    async def close(self) -> None:
        """Stop listening."""
        self._scope.cancel()
        await self._listener.aclose()

    async def _answer(self, stream: SocketStream) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, TimeoutError):
            async with stream:
                with anyio.fail_after(_READ_SECONDS):
                    known = self._read(await _receive_target(stream))
                    page = _PAGE.format(_DONE if known else _UNKNOWN)
                    head = _HEADERS.format("200 OK" if known else "400 Bad Request", len(page))
                    await stream.send(f"{head}{page}".encode())

    def _read(self, target: str) -> bool:
        """Take what a request brings. Returns whether it belongs to this login."""
        try:
            parts = urlsplit(target)
            fields = {name: values[0] for name, values in parse_qs(parts.query).items()}
        except ValueError:  # not an address
            return False
        fits = parts.path == PATH and bool(self._state) and fields.get("state") == self._state
        if fits:
            self._fields = fields
            self._arrived.set()
        return fits


async def _receive_target(stream: SocketStream) -> str:
    """Return a request's target: the second word in its first line."""
    received = b""
    while b"\r\n\r\n" not in received and len(received) < _MAX_REQUEST_BYTES:
        received += await stream.receive()
    words = received.partition(b"\r\n")[0].decode("latin-1").split(" ")
    return words[1] if words[0] == "GET" and len(words) > 1 else ""
