"""One request to the proxy, read strictly: a tunnel, or a request for plain HTTP, made anew."""

from __future__ import annotations

import re
import socket
import time
from typing import NamedTuple

from handrail import Refused, ToolFailed
from handrail.net._hosts import canonical
from handrail.net._url import read_url

MOST_HEAD = 65_536
_END = b"\r\n\r\n"
_FIRST = re.compile(r"([A-Z]{1,16}) ([\x21-\x7e]+) HTTP/1\.[01]")
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\t\x80-\xff]*?)[ \t]*")
_TUNNEL = re.compile(r"(\[[^\]]*\]|[^:\[\]]+):([0-9]{1,5})")
_HOP = frozenset(
    """
    connection expect host http2-settings keep-alive proxy-authorization proxy-connection te
    trailer upgrade
    """.split()
)
"""What is between a client and its proxy, and goes no further."""


class Bad(Exception):
    """A request that cannot be served: a status, and words for whoever made it."""

    def __init__(self, status: str, words: str) -> None:
        super().__init__(words)
        self.status = status


class Request(NamedTuple):
    """Where a request goes, and what is sent there first."""

    host: str
    port: int
    head: bytes
    """Empty for a tunnel, which sends nothing itself."""
    body: int
    """How many bytes of a body follow."""


def read_head(client: socket.socket, within: float) -> tuple[bytes, bytes]:
    """The head of a request, and what came with it of the rest."""
    until = time.monotonic() + within
    got = b""
    while _END not in got:
        client.settimeout(max(until - time.monotonic(), 0.001))
        piece = client.recv(MOST_HEAD)
        got += piece
        if not piece or len(got) > MOST_HEAD:
            raise Bad("400 Bad Request", "no head of a request, or too much of one")
    head, _, rest = got.partition(_END)
    return head, rest


def read_request(head: bytes) -> Request:
    """Read a head. Raises Bad."""
    first, *lines = head.decode("latin-1").split("\r\n")
    line = _FIRST.fullmatch(first)
    if line is None:
        raise Bad("400 Bad Request", "not a request that a proxy understands")
    fields = [_field(one) for one in lines]
    try:
        if line[1] == "CONNECT":
            return _tunnel(line[2])
        return _plain(line[1], line[2], fields)
    except (ToolFailed, Refused) as error:
        raise Bad("400 Bad Request", str(error)) from None


def _field(line: str) -> tuple[str, str]:
    found = _FIELD.fullmatch(line)
    if found is None:
        raise Bad("400 Bad Request", "a malformed header")
    return found[1], found[2]


def _tunnel(target: str) -> Request:
    place = _TUNNEL.fullmatch(target)
    if place is None:
        raise Bad("400 Bad Request", "CONNECT takes a host and a port")
    return Request(canonical(place[1]), int(place[2]), b"", 0)


def _plain(method: str, target: str, fields: list[tuple[str, str]]) -> Request:
    """The request as the host gets it: for that host, with one length, and the last one there."""
    url = read_url(target)
    if url.scheme != "http":
        raise Bad("400 Bad Request", "https goes through CONNECT")
    names = [name.lower() for name, _ in fields]
    lengths = [value for name, value in fields if name.lower() == "content-length"]
    if "transfer-encoding" in names:
        raise Bad("411 Length Required", "send a Content-Length")
    if len(lengths) > 1 or not all(re.fullmatch("[0-9]{1,18}", one) for one in lengths):
        raise Bad("400 Bad Request", "one Content-Length at most, a number")
    named = {
        one.strip().lower()
        for name, value in fields
        if name.lower() == "connection"
        for one in value.split(",")
    }
    kept = [one for one in fields if one[0].lower() not in _HOP | (named - {"content-length"})]
    told = [("Host", url.authority), *kept, ("Connection", "close")]
    text = "".join(f"{name}: {value}\r\n" for name, value in told)
    head = f"{method} {url.target} HTTP/1.1\r\n{text}\r\n".encode("latin-1")
    return Request(url.host, url.port, head, int(lengths[0]) if lengths else 0)
