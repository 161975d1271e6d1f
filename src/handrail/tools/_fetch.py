"""One request to the web and its answer, bounded; the only module that knows httpcore2.

httpcore2 is the lower half of httpx2. It keeps no cookies, follows no redirects, decodes nothing,
and looks neither for proxies nor for passwords: what is not there need not be switched off.
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

MOST_HEAD = 262_144
"""Bytes on the wire besides the body."""
_TRIES = 4
_GOOD = 2
_EACH_WITHIN = 8.0
_HEADERS = [
    (b"User-Agent", b"handrail-web-fetch"),
    (b"Accept", b"text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.1"),
    (b"Accept-Encoding", b"gzip, identity"),
    (b"Connection", b"close"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How requests go out."""

    guard: Guard
    trust: ssl.SSLContext | None
    """Whose certificates count; those that this machine trusts, if nothing is said."""
    connect: Connect
    most: int
    """Bytes of a body, once it is decoded."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    """By lower-case name; several of one name are joined."""
    body: bytes
    cut: bool
    """Whether there was more."""


@cache
def system_trust() -> ssl.SSLContext:
    """The certificates that this machine trusts. Made once: that takes a while."""
    return httpcore2.default_ssl_context()


async def dial(address: str, port: int) -> ByteStream:
    """Connect to an address."""
    return await anyio.connect_tcp(address, port)


async def get(url: Url, way: Way) -> Answer:
    """Ask for a page, once. Raises Refused, ToolFailed or Transient in words for a model."""
    try:
        return await _asked(url, way)
    except ssl.SSLCertVerificationError as error:
        raise Refused(
            f"The certificate of {url.host} cannot be trusted: {error.verify_message.rstrip('.')}. "
            "Do not try it without https; tell the user."
        ) from error
    except ssl.SSLError as error:
        raise ToolFailed(f"There is no secure connection to {url.host}.") from error
    except (OSError, anyio.BrokenResourceError, anyio.EndOfStream, httpcore2.NetworkError) as error:
        raise Transient(f"{url.host} does not answer, or broke off.") from error
    except httpcore2.ProtocolError as error:
        raise ToolFailed(f"{url.host} does not answer as a web server should.") from error


async def _asked(url: Url, way: Way) -> Answer:
    trust = (way.trust or system_trust()) if url.scheme == "https" else None
    where = httpcore2.URL(
        scheme=url.scheme.encode(),
        host=url.host.encode(),
        port=url.port,
        target=url.target.encode(),
    )
    headers = [(b"Host", url.authority.encode()), *_HEADERS]
    async with (
        httpcore2.AsyncConnectionPool(
            ssl_context=trust, network_backend=_Pinned(way), max_connections=1
        ) as pool,
        pool.stream("GET", where, headers=headers) as response,
    ):
        found: dict[str, str] = {}
        for name, value in response.headers:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            found[key] = f"{found[key]}, {text}" if key in found else text
        body, cut = b"", False
        if response.status // 100 == _GOOD:
            async with aclosing(response.aiter_stream()) as pieces:
                body, cut = await _body(pieces, found, way.most)
        return Answer(response.status, found, body, cut)


async def _body(
    pieces: AsyncIterable[bytes], headers: dict[str, str], most: int
) -> tuple[bytes, bool]:
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise ToolFailed(f"The answer is encoded as {encoding[:40]!a}, which is not read.")
    unpack = zlib.decompressobj(16 + zlib.MAX_WBITS) if "gzip" in encoding else None
    got = bytearray()
    async for piece in pieces:
        room = most + 1 - len(got)
        try:
            got += unpack.decompress(piece, room) if unpack else piece[:room]
        except zlib.error:
            raise ToolFailed("The answer says that it is packed, but cannot be unpacked.") from None
        if len(got) > most:
            return bytes(got[:most]), True
    return bytes(got), False


class _Pinned(httpcore2.AsyncNetworkBackend):
    """Connects to addresses that the guard has judged, and to nothing else."""

    def __init__(self, way: Way) -> None:
        self._way = way

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Look the name up once; then only addresses count."""
        addresses = await self._way.guard.resolve(host, port)
        failed: Exception = OSError("no address")
        for address in addresses[:_TRIES]:
            try:
                with anyio.fail_after(_EACH_WITHIN):
                    stream = await self._way.connect(address, port)
            except OSError as error:
                failed = error
            else:
                return _Counted(stream, self._way.most + MOST_HEAD)
        raise failed


class _Counted(httpcore2.AsyncNetworkStream):
    """A connection that ends after so many bytes, whatever they claim to be."""

    def __init__(self, stream: ByteStream, left: int) -> None:
        self._stream = stream
        self._left = left

    @override
    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Some bytes; none at the end."""
        if self._left <= 0:
            raise ToolFailed("The answer is far too long; nothing of it is of use.")
        try:
            got = await self._stream.receive(max_bytes)
        except anyio.EndOfStream:
            return b""
        self._left -= len(got)
        return got

    @override
    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """All of it."""
        try:
            await self._stream.send(buffer)
        except anyio.BrokenResourceError as error:  # it may have answered all the same
            raise httpcore2.WriteError(str(error)) from error

    @override
    async def aclose(self) -> None:
        """Close, without waiting for the other side to agree."""
        await anyio.aclose_forcefully(self._stream)

    @override
    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Secure the connection, for the host's name and not for its address."""
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
        return _Counted(secured, self._left)

    @override
    def get_extra_info(self, info: str) -> Any:
        """Nothing: the pool asks whether an idle connection is readable, and none is kept."""
        return None
