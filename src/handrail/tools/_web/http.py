"""Makes one HTTP request within limits; the only module that imports httpcore2.

httpcore2 is the lower layer of httpx2. It keeps no cookies, follows no redirects, decodes nothing,
and does not search for proxies or passwords, so none of that has to be switched off.
"""

from __future__ import annotations

import ssl
import zlib
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import anyio
import httpcore2
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream
from typing_extensions import override

from handrail import Refused, ToolFailed, Transient
from handrail.net import Guard, Url

Connect: TypeAlias = Callable[[str, int], Awaitable[ByteStream]]
"""Connects to a literal address and a port."""

_MAX_HEAD_BYTES = 262_144
"""Bytes of a response in addition to the body."""
_MAX_ADDRESSES = 4
_GOOD = 2
_MAX_CONNECT_SECONDS = 8.0
_HEADERS = [
    (b"User-Agent", b"handrail-web-fetch"),
    (b"Accept", b"text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.1"),
    (b"Accept-Encoding", b"gzip, identity"),
    (b"Connection", b"close"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """The options of requests."""

    guard: Guard
    trust: ssl.SSLContext | None
    """The trusted certificates; None for those of the system."""
    connect: Connect
    max_bytes: int
    """Bytes of a decoded body."""


@dataclass(frozen=True, slots=True)
class Response:
    """The response to a request."""

    status: int
    headers: dict[str, str]
    """By lower-case name; values of the same name are joined."""
    body: bytes
    cut: str
    """Why the end of the body is missing, as a clause; empty if the body is complete."""


@cache
def system_trust() -> ssl.SSLContext:
    """Return the system's certificates, loaded once because that is slow."""
    return httpcore2.default_ssl_context()


async def dial(address: str, port: int) -> ByteStream:
    """Connect to an address."""
    return await anyio.connect_tcp(address, port)


async def get(url: Url, options: FetchOptions) -> Response:
    """Request a page once. Raises Refused, ToolFailed or Transient with a text for the model."""
    try:
        return await _request(url, options)
    except ssl.SSLCertVerificationError as error:
        raise Refused(
            f"Not fetched: the certificate of {url.host} is not trusted: "
            f"{error.verify_message.rstrip('.')}. Do not use http instead. Tell the user."
        ) from error
    except ssl.SSLError as error:
        raise ToolFailed(f"The TLS connection to {url.host} failed.") from error
    except (OSError, anyio.BrokenResourceError, anyio.EndOfStream, httpcore2.NetworkError) as error:
        raise Transient(f"{url.host} did not respond, or closed the connection.") from error
    except httpcore2.ProtocolError as error:
        raise ToolFailed(f"{url.host} sent an invalid HTTP response.") from error


async def _request(url: Url, options: FetchOptions) -> Response:
    trust = (options.trust or system_trust()) if url.scheme == "https" else None
    where = httpcore2.URL(
        scheme=url.scheme.encode(),
        host=url.host.encode(),
        port=url.port,
        target=url.target.encode(),
    )
    headers = [(b"Host", url.authority.encode()), *_HEADERS]
    async with (
        httpcore2.AsyncConnectionPool(
            ssl_context=trust, network_backend=_GuardedBackend(options), max_connections=1
        ) as pool,
        pool.stream("GET", where, headers=headers) as response,
    ):
        found: dict[str, str] = {}
        for name, value in response.headers:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            found[key] = f"{found[key]}, {text}" if key in found else text
        body, cut = b"", ""
        if response.status // 100 == _GOOD:
            async with aclosing(response.aiter_stream()) as pieces:
                body, cut = await _read_body(pieces, found, options.max_bytes)
        return Response(response.status, found, body, cut)


async def _read_body(
    pieces: AsyncIterable[bytes], headers: dict[str, str], max_bytes: int
) -> tuple[bytes, str]:
    """Return the decoded body, and why its end is missing."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise ToolFailed(f"The response has an unsupported encoding: {encoding[:40]!a}.")
    unpack = zlib.decompressobj(16 + zlib.MAX_WBITS) if "gzip" in encoding else None
    got = bytearray()
    async for piece in pieces:
        room = max_bytes + 1 - len(got)
        try:
            got += unpack.decompress(piece, room) if unpack else piece[:room]
        except zlib.error:
            raise ToolFailed("The response claims to be gzip, but cannot be unpacked.") from None
        if len(got) > max_bytes:
            return bytes(got[:max_bytes]), "it is too long"
    whole = unpack is None or not got or (unpack.eof and not unpack.unused_data)
    return bytes(got), "" if whole else "its gzip data is incomplete"


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects only to addresses the guard has checked."""

    def __init__(self, options: FetchOptions) -> None:
        self._options = options

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Resolve the name once, and connect to one of its addresses."""
        addresses = await self._options.guard.resolve(host, port)
        failed: Exception = OSError("No address.")
        for address in addresses[:_MAX_ADDRESSES]:
            try:
                with anyio.fail_after(_MAX_CONNECT_SECONDS):
                    stream = await self._options.connect(address, port)
            except OSError as error:
                failed = error
            else:
                return _BoundedStream(stream, self._options.max_bytes + _MAX_HEAD_BYTES)
        raise failed


class _BoundedStream(httpcore2.AsyncNetworkStream):
    """A connection that fails after a number of bytes."""

    def __init__(self, stream: ByteStream, left: int) -> None:
        self._stream = stream
        self._left = left

    @override
    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return some bytes; none at the end."""
        if self._left <= 0:
            raise ToolFailed("The response is too long to read.")
        try:
            got = await self._stream.receive(max_bytes)
        except anyio.EndOfStream:
            return b""
        self._left -= len(got)
        return got

    @override
    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all bytes."""
        try:
            await self._stream.send(buffer)
        except anyio.BrokenResourceError as error:  # there may be a response nevertheless
            raise httpcore2.WriteError(str(error)) from error

    @override
    async def aclose(self) -> None:
        """Close without waiting for the other side."""
        await anyio.aclose_forcefully(self._stream)

    @override
    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Start TLS for the host's name, not for its address."""
        try:
            secured = await TLSStream.wrap(
                self._stream,
                hostname=server_hostname,
                ssl_context=ssl_context,
                standard_compatible=False,
            )
        except BaseException:
            await self.aclose()
            raise
        return _BoundedStream(secured, self._left)

    @override
    def get_extra_info(self, info: str) -> Any:
        """Return None: the pool asks about idle connections, and none is kept."""
        return None
