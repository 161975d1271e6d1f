"""Servers: how each is started or reached. Values, without any connection."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from handrail import DefinitionError, HandrailError
from handrail.mcp._client.naming import check_server_name


class NotConnected(HandrailError):
    """A server could not be started or reached, or did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioServer:
    """A server running as a local program, reached through its standard streams.

    It runs in the sandbox: it can write only to its folder, and reach only the hosts you name.
    """

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The program's variables, in addition to a short safe list. No other variable is passed."""
    cwd: str = ""
    """Its writable folder. Default: the current one."""
    hosts: tuple[str, ...] = ()
    """Hosts it can reach."""
    readable: tuple[str, ...] = ()
    """Readable paths in the home folder, in addition to programs and caches."""
    writable: tuple[str, ...] = ()
    """Other writable folders."""
    sandbox: bool = True
    """Whether it runs in the sandbox. Without it, the program can do everything you can."""
    before_start: Callable[[], Mapping[str, str] | None] | None = field(
        default=None, repr=False, compare=False
    )
    """Called in a thread before each start. If it raises, the program does not start.

    It may return variables for the program, in addition to ``env``.
    """

    def __post_init__(self) -> None:
        check_server_name(self.name)
        if not self.command or any("\0" in word for word in (self.command, *self.args)):
            raise DefinitionError(f"The server {self.name!r} has no valid command.")

    @property
    def folder(self) -> str:
        """The program's working folder."""
        return os.path.realpath(os.path.expanduser(self.cwd or "."))  # noqa: PTH111  text

    @property
    def words(self) -> list[str]:
        """The whole command line."""
        return [self.command, *self.args]

    @property
    def identity(self) -> dict[str, Any]:
        """Identifies this server: the command, and the names of its variables."""
        return {"command": self.words, "env": sorted(self.env), "cwd": self.cwd}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServer:
    """A server at an address, reached by streamable HTTP."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Headers for each request, such as an authorization. They go to this address only."""
    auth: Any = field(default=None, repr=False)
    """A ``Login``, or an ``httpx2.Auth`` for each request."""

    def __post_init__(self) -> None:
        check_server_name(self.name)
        _check_url(self.name, self.url)

    @property
    def identity(self) -> dict[str, Any]:
        """Identifies this server: the address, and its header names."""
        return {"url": self.url, "headers": sorted(name.lower() for name in self.headers)}


Server: TypeAlias = StdioServer | HttpServer


def _check_url(name: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        fine = bool(host) and parts.scheme in {"http", "https"} and not parts.username
    except ValueError:
        host, fine = "", False
    if not fine:
        raise DefinitionError(
            f"The server {name!r} has no valid address. Use https://HOST/PATH, without a user."
        )
    if url.lower().startswith("http:") and not _is_loopback(host):
        raise DefinitionError(
            f"The server {name!r} has an address without encryption. Use https, or a server on "
            "this machine."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
