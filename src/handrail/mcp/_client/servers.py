"""Servers: their names, and how each is started or reached. Values, without any connection."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from handrail import Context, DefinitionError, HandrailError
from handrail.net import is_loopback

MAX_SERVER_NAME = 40
"""Characters in a server's name."""

_SERVER = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")
_TOOL = re.compile(r"[A-Za-z0-9_.-]{1,128}")

FindHeaders: TypeAlias = Callable[[Context[Any]], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""Returns the headers for a call."""


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
    personal: str | FindHeaders = field(default="", repr=False)
    """What each person's calls are sent with: the name of a credential, as in
    ``context.credential``, which is sent as a bearer token; or a function from a call's Context to
    headers. ``headers`` and ``auth`` then only list the tools."""

    def __post_init__(self) -> None:
        check_server_name(self.name)
        _check_url(self.name, self.url)

    @property
    def identity(self) -> dict[str, Any]:
        """Identifies this server: the address, and its header names."""
        named = sorted(name.lower() for name in self.headers)
        return {"url": self.url, "headers": named, **({"personal": True} if self.personal else {})}


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
    if url.lower().startswith("http:") and not is_loopback(host):
        raise DefinitionError(
            f"The server {name!r} has an address without encryption. Use https, or a server on "
            "this machine."
        )


def check_server_name(name: str) -> str:
    """Return a server's name. Raises DefinitionError if it is not valid."""
    if len(name) <= MAX_SERVER_NAME and _SERVER.fullmatch(name):
        return name
    raise DefinitionError(
        f"{name[:80]!r} is not a valid name of a server. Use at most {MAX_SERVER_NAME} letters, "
        "digits, and single `-` or `_` between them."
    )


def is_tool_name(name: str) -> bool:
    """Return whether the protocol allows a tool name: ASCII letters, digits, `_`, `.`, `-`.

    So no name looks like another one.
    """
    return _TOOL.fullmatch(name) is not None


def join_names(server: str, tool: str) -> str:
    """Return a model's name for a server's tool. Different pairs give different names.

    A server's name has no two underscores in a row and none at its end, so the first two after the
    prefix are the boundary.
    """
    return f"mcp__{server}__{tool}"
