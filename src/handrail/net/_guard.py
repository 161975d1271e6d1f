"""Who may be connected to: a name is resolved once, and what was judged is what is dialled."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_network
from typing import TypeAlias

import anyio.to_thread

from handrail import Refused, ToolFailed, Transient
from handrail.net._addresses import public
from handrail.net._hosts import canonical, literal, shown

Resolver: TypeAlias = Callable[[str, int], Sequence[str]]
"""Gives the addresses of a host name for a port. May block; OSError where there are none."""

WEB = frozenset({80, 443})
_INTERNAL = tuple(
    "corp home home.arpa internal intranet lan local localdomain localhost private".split()
)


def system(host: str, port: int) -> tuple[str, ...]:
    """The addresses of a host, as this machine finds them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(one[4][0]) for one in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Lets out to public addresses and to the ports of the web, and to what it is told besides.

    What it is told besides is in its ``repr``: a program that means to reach an intranet says so
    where the guard is made.
    """

    ports: frozenset[int] = WEB
    networks: tuple[str, ...] = ()
    """Networks that may be reached though they are not public, as ``10.1.0.0/16``."""
    names: tuple[str, ...] = ()
    """Names that may be resolved though they look internal, as ``wiki`` or ``wiki.internal``."""
    resolver: Resolver = system

    def __post_init__(self) -> None:
        for network in self.networks:
            ip_network(network)
        for name in self.names:
            if canonical(name) != name or literal(name) is not None:
                raise ValueError(f"{name!r} is no name in lower case; addresses go into networks")

    def check(self, host: str, port: int) -> str:
        """The canonical host, if it may be looked up. Raises Refused, or ToolFailed."""
        host = canonical(host)
        if port not in self.ports:
            known = " and ".join(map(str, sorted(self.ports)))
            raise Refused(f"Port {port} is not open to this tool; only {known} can be used.")
        if literal(host) is not None:
            self._judge(host, (host,))
        elif host in self.names:
            return host
        elif "." not in host or host.endswith(tuple(f".{one}" for one in _INTERNAL)):
            raise Refused(_INSIDE.format(shown(host)))
        return host

    def find(self, host: str, port: int) -> tuple[str, ...]:
        """The addresses to connect to, all of them judged. Blocks while the name is looked up."""
        host = self.check(host, port)
        if literal(host) is not None:
            return (host,)
        try:
            found = tuple(self.resolver(host, port))
        except (OSError, UnicodeError) as error:
            if getattr(error, "errno", None) == socket.EAI_AGAIN:
                raise Transient(f"{shown(host)} cannot be looked up now.") from error
            found = ()
        if not found:
            raise ToolFailed(f"There is no host {shown(host)}. Check how it is spelled.")
        return self._judge(host, found)

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        """The same, without blocking the event loop; may be left behind when time is over."""
        if literal(self.check(host, port)) is not None:
            return self.find(host, port)
        work = partial(self.find, host, port)
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)

    def _judge(self, host: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
        # one private address among public ones is as bad: who is connected to is left to chance
        if not all(map(self._open, addresses)):
            raise Refused(_INSIDE.format(shown(host)))
        return addresses

    def _open(self, address: str) -> bool:
        if public(address):
            return True
        found = literal(address)
        return found is not None and any(found in ip_network(one) for one in self.networks)


_INSIDE = (
    "{} is not on the public internet, and this tool does not reach into internal networks. "
    "Ask the user for what is there."
)
