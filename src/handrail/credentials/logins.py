"""Login requests: to public addresses and encrypted, except to the service itself."""

from __future__ import annotations

import ssl
from dataclasses import replace
from functools import cache

from typing_extensions import override

from handrail._support.lazy import name_extra

try:
    import httpx2
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "credentials") from error

from handrail import Refused, ToolFailed
from handrail.net import Guard, is_loopback

MAX_BYTES = 1 << 20
"""Bytes in one answer."""
_SECONDS = 30.0
_KEPT = ("content-type", "www-authenticate")


def make_client(url: str, guard: Guard) -> httpx2.AsyncClient:
    """Return a client for a login at a service."""
    return httpx2.AsyncClient(transport=_Guarded(httpx2.URL(url), guard), timeout=_SECONDS)


async def receive(client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
    """Send a request, and return the whole answer. No redirect is followed."""
    response = await client.send(request, stream=True, follow_redirects=False)
    body = bytearray()
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MAX_BYTES:
                raise ToolFailed(f"{request.url.host} sent more than {MAX_BYTES} bytes")
    finally:
        await response.aclose()
    headers = {name: response.headers.get(name, "") for name in _KEPT}
    return httpx2.Response(
        response.status_code, headers=headers, content=bytes(body), request=request
    )


def check_encrypted(url: str) -> None:
    """Raise Refused for an unencrypted address of another machine."""
    try:
        parts = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError):
        raise Refused("the address of the login is not valid") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.host)):
        raise Refused(f"{parts.host or 'the address of the login'} is not encrypted")


@cache
def _read_certificates() -> ssl.SSLContext:
    """Return the trusted certificates, read once: that takes 50 ms, and each login has a client."""
    return httpx2.create_ssl_context(trust_env=False)


class _Guarded(httpx2.AsyncBaseTransport):
    """Resolves each other host once, and connects to an address checked by the guard.

    A local server may send a login to another local port.
    """

    def __init__(self, server: httpx2.URL, guard: Guard) -> None:
        self._server = server
        self._guard = guard
        self._inner = httpx2.AsyncHTTPTransport(verify=_read_certificates())

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url, server = request.url, self._server
        own = (url.scheme, url.host, url.port) == (server.scheme, server.host, server.port)
        if own or (is_loopback(server.host) and is_loopback(url.host)):
            return await self._inner.handle_async_request(request)
        if url.scheme != "https":
            raise Refused(f"{url.host} is not encrypted")
        port = url.port or 443
        host = f"[{url.host}]" if ":" in url.host else url.host
        guard = replace(self._guard, ports=self._guard.ports | {port})
        [address, *_] = await guard.resolve(host, port)
        sent = httpx2.Request(
            request.method,
            url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": url.host},
        )
        return await self._inner.handle_async_request(sent)

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()
