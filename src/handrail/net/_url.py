"""Strict URL parser: the URL checked is exactly the URL requested."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from handrail import Refused, ToolFailed
from handrail.net._hosts import display_host, normalize_host

MAX_URL_CHARS = 8_192
_PARTS = re.compile(r"(?i:(https?))://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?")
_PLACE = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?")
_ODD = re.compile(r"[\x00-\x20\x7f-\xa0\\\ud800-\udfff\u2028\u2029]")
_UNRESERVED = re.compile(r"%(2[dDeE]|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF]|7[eE])")
_SAFE = "/:@!$&'()*+,;=~%-._"
_PORTS = {"http": 80, "https": 443}


class Url(NamedTuple):
    """A request's target, in normal form."""

    scheme: str
    host: str
    """Normalized by ``normalize_host``."""
    port: int
    path: str
    """Starts with a slash, is percent-encoded, and has no dot segments."""
    query: str
    """Includes the question mark. Empty if there is none."""

    @property
    def authority(self) -> str:
        """Host and port, as in a ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def target(self) -> str:
        """Path and query, as in a request's first line."""
        return self.path + self.query

    @property
    def resource(self) -> str:
        """For an ``Access``: host, port and path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"net:{host}:{self.port}{self.path}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(text: str) -> Url:
    """Parse an ``http`` or ``https`` URL. Raises ToolFailed or Refused, for the model to read."""
    if len(text) > MAX_URL_CHARS:
        raise ToolFailed(f"The URL is longer than {MAX_URL_CHARS} characters.")
    odd = _ODD.search(text)
    if odd:
        raise ToolFailed(f"The URL contains {odd[0]!a}. Percent-encode or remove it.")
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise ToolFailed("The URL must start with http:// or https://.")
    scheme, place, path, query = parts[1].lower(), parts[2], parts[3], parts[4] or ""
    if "@" in place:
        raise Refused("Not run: the URL contains a user name (before @). Remove it.")
    split = _PLACE.fullmatch(place)
    port = int((split and split[2]) or _PORTS[scheme])
    if split is None or not 0 < port < 1 << 16:
        raise ToolFailed(f"{display_host(place)} is not a valid host and port.")
    quoted_query = quote(query, safe=_SAFE + "?")
    return Url(scheme, normalize_host(split[1]), port, _canonical_path(path), quoted_query)


def _canonical_path(path: str) -> str:
    """Return a path's normal form, to keep other spellings from avoiding its rules."""
    path = _UNRESERVED.sub(lambda match: unquote(match[0]), quote(path, safe=_SAFE))
    segments: list[str] = []
    *folders, last = path.split("/")[1:] or [""]
    for segment in folders:
        _apply_segment(segments, segment)
    if last in (".", ".."):
        _apply_segment(segments, last)
        last = ""
    canonical_path = "/" + "/".join([*segments, last])
    # a server decoding a second time must not leave the path allowed by a rule
    if ".." in re.split(r"[/\\]", unquote(unquote(canonical_path))):
        raise Refused("Not run: the path of the URL contains an encoded '..'. Remove it.")
    return canonical_path


def _apply_segment(segments: list[str], segment: str) -> None:
    if segment == "..":
        del segments[-1:]
    elif segment != ".":
        segments.append(segment)
