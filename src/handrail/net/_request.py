"""Strict parser for proxy requests: tunnels, and plain HTTP requests to rebuild."""

from __future__ import annotations

import re
import socket
import time
from typing import NamedTuple

from handrail import Refused, ToolFailed
from handrail.net._hosts import normalize_host
from handrail.net._url import parse_url

MAX_HEAD_BYTES = 65_536
_END = b"\r\n\r\n"
_FIRST = re.compile(r"([A-Z]{1,16}) ([\x21-\x7e]+) HTTP/1\.[01]")
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]++):[ \t]*+([\x20-\x7e\t\x80-\xff]*+)")
_TUNNEL = re.compile(r"(\[[^\]]*\]|[^:\[\]]+):([0-9]{1,5})")
_HOP = frozenset(
    """
    connection expect host http2-settings keep-alive proxy-authorization proxy-connection te
    trailer upgrade
    """.split()
)
"""Headers between a client and its proxy, which are not forwarded."""


class BadRequest(Exception):
    """An invalid or unsupported request: a status, and a message for the client."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class ProxyRequest(NamedTuple):
    """A request's target, and the first bytes to send."""

    host: str
    port: int
    head: bytes
    """Empty for a tunnel, where the client sends everything."""
    body: int
    """Bytes in the body that follows."""


def read_head(client: socket.socket, within: float) -> tuple[bytes, bytes]:
    """Read a request's head, and return it with the bytes received after it."""
    until = time.monotonic() + within
    received = b""
    while _END not in received:
        client.settimeout(max(until - time.monotonic(), 0.001))
        piece = client.recv(MAX_HEAD_BYTES)
        received += piece
        if not piece or len(received) > MAX_HEAD_BYTES:
            raise BadRequest("400 Bad Request", "the request head is incomplete or too long")
    head, _, rest = received.partition(_END)
    return head, rest


def read_request(head: bytes) -> ProxyRequest:
    """Parse a request's head. Raises BadRequest."""
    first, *lines = head.decode("latin-1").split("\r\n")
    line = _FIRST.fullmatch(first)
    if line is None:
        raise BadRequest("400 Bad Request", "this is not a request for a proxy")
    fields = [_parse_field(text) for text in lines]
    try:
        if line[1] == "CONNECT":
            return _parse_tunnel(line[2])
        return _parse_plain(line[1], line[2], fields)
    except (ToolFailed, Refused) as error:
        raise BadRequest("400 Bad Request", str(error)) from None


def _parse_field(line: str) -> tuple[str, str]:
    field = _FIELD.fullmatch(line)
    if field is None:
        raise BadRequest("400 Bad Request", "a header is malformed")
    return field[1], field[2].rstrip(" \t")


def _parse_tunnel(target: str) -> ProxyRequest:
    place = _TUNNEL.fullmatch(target)
    if place is None:
        raise BadRequest("400 Bad Request", "CONNECT takes a host and a port")
    return ProxyRequest(normalize_host(place[1]), int(place[2]), b"", 0)


def _parse_plain(method: str, target: str, fields: list[tuple[str, str]]) -> ProxyRequest:
    """Return the request to forward: for one host, with one length, and closing the connection."""
    url = parse_url(target)
    if url.scheme != "http":
        raise BadRequest("400 Bad Request", "https requires CONNECT")
    names = [name.lower() for name, _ in fields]
    lengths = [value for name, value in fields if name.lower() == "content-length"]
    if "transfer-encoding" in names:
        raise BadRequest("411 Length Required", "send a Content-Length")
    if len(lengths) > 1 or not all(re.fullmatch("[0-9]{1,18}", length) for length in lengths):
        raise BadRequest("400 Bad Request", "Content-Length must be a single number")
    hop_by_hop = {
        option.strip().lower()
        for name, value in fields
        if name.lower() == "connection"
        for option in value.split(",")
    }
    dropped = _HOP | (hop_by_hop - {"content-length"})
    end_to_end = [field for field in fields if field[0].lower() not in dropped]
    sent = [("Host", url.authority), *end_to_end, ("Connection", "close")]
    text = "".join(f"{name}: {value}\r\n" for name, value in sent)
    head = f"{method} {url.target} HTTP/1.1\r\n{text}\r\n".encode("latin-1")
    return ProxyRequest(url.host, url.port, head, int(lengths[0]) if lengths else 0)
