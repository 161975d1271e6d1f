"""A web to test with: names and addresses are scripted, servers and connections are real.

Whatever would be a public address leads to a server on the loopback; whatever would be an internal
one leads to a canary there, which counts. Nothing leaves the machine.
"""

from __future__ import annotations

import contextlib
import gzip
import ipaddress
import socket
import ssl
import threading
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Self

import anyio
import trustme
from anyio.abc import ByteStream

from handrail.net import Guard

PUBLIC, OTHER = "93.184.215.14", "2606:4700::6810:84e5"
INSIDE = "what is known inside"
NAMES: Mapping[str, Sequence[str]] = {
    "pub.test": [PUBLIC],
    "other.test": [OTHER],
    "int.test": ["127.0.0.1"],
    "multi.test": [PUBLIC, "127.0.0.1"],
    "localhost": ["127.0.0.1"],
    "localhost.": ["127.0.0.1"],
    "metadata.google.internal": ["169.254.169.254"],
    "internal-host-without-dot": ["10.0.0.5"],
}

Script = Callable[[socket.socket], None]
"""Answers a request whose head has been read."""


def names(host: str, _port: int) -> list[str]:
    """Resolve as machines do: odd numbers are addresses, other spellings are folded."""
    with contextlib.suppress(ValueError):
        return [str(ipaddress.ip_address(host.strip("[]").partition("%")[0]))]
    with contextlib.suppress(OSError):
        return [socket.inet_ntoa(socket.inet_aton(host))]
    folded = unicodedata.normalize("NFKC", host).replace("\u3002", ".")
    if folded != host:
        return names(folded, _port)
    if host not in NAMES:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")
    return list(NAMES[host])


def reply(
    body: bytes = b"hello", kind: str = "text/plain", status: str = "200 OK", **headers: str
) -> Script:
    """A whole answer."""
    told = {"Content-Type": kind, "Content-Length": str(len(body))} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in told.items() if value)
    return lambda client: client.sendall(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)


def redirect(target: str, status: str = "302 Found", **headers: str) -> Script:
    return reply(b"", status=status, Location=target, **headers)


def packed(body: bytes, times: int = 1) -> bytes:
    """A gzip body that says the same many times, made fast."""
    if times == 1:
        return gzip.compress(body)
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    head = packer.compress(body) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(body) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * (times - 1)


class Site:
    """A server on the loopback that does what its scripts say, and notes what it was asked."""

    def __init__(
        self, scripts: Mapping[str, Script] | None = None, secure: ssl.SSLContext | None = None
    ) -> None:
        self.scripts = dict(scripts or {})
        self.asked: list[str] = []
        """The heads of all requests."""
        self.connections = 0
        self._secure = secure
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as kept:
            kept.enter_context(client)
            if self._secure is not None:
                client = kept.enter_context(self._secure.wrap_socket(client, server_side=True))
            head = b""
            while not head.endswith(b"\r\n\r\n"):  # and not a byte further: scripts may read on
                piece = client.recv(1)
                if not piece:
                    return
                head += piece
            text = head.decode("latin-1")
            self.asked.append(text)
            path = text.split(" ")[1].partition("?")[0]
            self.scripts.get(path, self.scripts.get("*", reply()))(client)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65_536):  # so that what was sent is not lost
                pass


@cache
def authority() -> trustme.CA:
    """Whom the tests trust; made anew in each run."""
    return trustme.CA()


def server_side(*hosts: str, by: trustme.CA | None = None) -> ssl.SSLContext:
    """What a server needs that is called so."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (by or authority()).issue_cert(*hosts).configure_cert(context)
    return context


@cache
def client_side() -> ssl.SSLContext:
    """Trusts the tests' authority, and nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority().configure_trust(context)
    return context


class Web:
    """All that a test needs: a public site, the same with TLS, and a canary for all that is not."""

    def __init__(
        self, scripts: Mapping[str, Script] | None = None, *, secure: ssl.SSLContext | None = None
    ) -> None:
        self.site = Site(scripts)
        self.secure = Site(scripts, secure) if secure is not None else self.site
        self.canary = Site({"*": reply(INSIDE.encode())})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self.site, self.secure, self.canary):
            one.close()

    async def connect(self, address: str, port: int) -> ByteStream:
        """To the stand-in for an address."""
        if address not in (PUBLIC, OTHER):
            place = self.canary
        else:
            place = self.secure if port == 443 else self.site
        return await anyio.connect_tcp("127.0.0.1", place.port)

    def options(self, resolver: Any = names, **others: Any) -> dict[str, Any]:
        """For ``web_fetch``, or for whatever takes the same."""
        guard = Guard(resolver=resolver)
        return {"guard": guard, "connect": self.connect, "trust": client_side(), **others}


def alternating(*answers: str) -> Callable[[str, int], list[str]]:
    """A name that is somewhere else each time it is looked up."""
    turns: Iterator[str] = _round(answers)
    return lambda _host, _port: [next(turns)]


def _round(answers: Sequence[str]) -> Iterator[str]:
    while True:
        yield from answers
