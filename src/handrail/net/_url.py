"""An address on the web, read strictly: what is judged is, letter for letter, what is sent."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from handrail import Refused, ToolFailed
from handrail.net._hosts import canonical, shown

MOST_CHARS = 8_192
_PARTS = re.compile(r"(?i:(https?))://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?")
_PLACE = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?")
_ODD = re.compile(r"[\x00-\x20\x7f-\xa0\\\ud800-\udfff\u2028\u2029]")
_UNRESERVED = re.compile(r"%(2[dDeE]|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF]|7[eE])")
_SAFE = "/:@!$&'()*+,;=~%-._"
_PORTS = {"http": 80, "https": 443}


class Url(NamedTuple):
    """Where a request goes, in canonical form."""

    scheme: str
    host: str
    """As ``canonical`` gives it."""
    port: int
    path: str
    """Begins with a slash; percent-encoded; without dot segments."""
    query: str
    """With its question mark; empty if there is none."""

    @property
    def authority(self) -> str:
        """Host and port, as a ``Host`` header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def target(self) -> str:
        """What stands in the first line of a request."""
        return self.path + self.query

    @property
    def resource(self) -> str:
        """For an ``Access``: host, port and path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"net:{host}:{self.port}{self.path}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def read_url(text: str) -> Url:
    """Read an ``http`` or ``https`` address. Raises ToolFailed or Refused, in words for a model."""
    if len(text) > MOST_CHARS:
        raise ToolFailed(f"The URL is too long: at most {MOST_CHARS} characters can be used.")
    odd = _ODD.search(text)
    if odd:
        raise ToolFailed(f"The URL has {odd[0]!a} in it. Percent-encode it, or leave it out.")
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise ToolFailed("Only a full URL that begins with http:// or https:// can be used.")
    scheme, place, path, query = parts[1].lower(), parts[2], parts[3], parts[4] or ""
    if "@" in place:
        raise Refused("The URL has a user name in it (before @). Leave it out.")
    split = _PLACE.fullmatch(place)
    port = int((split and split[2]) or _PORTS[scheme])
    if split is None or not 0 < port < 1 << 16:
        raise ToolFailed(f"{shown(place)} is no host with a port.")
    asked = quote(query, safe=_SAFE + "?")
    return Url(scheme, canonical(split[1]), port, _path(path), asked)


def _path(path: str) -> str:
    """One spelling of a path, so that a rule for one path is not met by another way to write it."""
    path = _UNRESERVED.sub(lambda one: unquote(one[0]), quote(path, safe=_SAFE))
    kept: list[str] = []
    *folders, last = path.split("/")[1:] or [""]
    for segment in folders:
        _step(kept, segment)
    if last in (".", ".."):
        _step(kept, last)
        last = ""
    made = "/" + "/".join([*kept, last])
    # what a rule allows below one path, a server that decodes once more must not find elsewhere
    if ".." in re.split(r"[/\\]", unquote(unquote(made))):
        raise Refused("The path of the URL has '..' in it, encoded. Write the path as it is.")
    return made


def _step(kept: list[str], segment: str) -> None:
    if segment == "..":
        del kept[-1:]
    elif segment != ".":
        kept.append(segment)
