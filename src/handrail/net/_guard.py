"""Decides which hosts can be reached: names are resolved once, and their addresses checked."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_network
from typing import TypeAlias

import anyio.to_thread

from handrail import Refused, ToolFailed, Transient
from handrail.net._addresses import is_public
from handrail.net._hosts import display_host, normalize_host, parse_address

Resolver: TypeAlias = Callable[[str, int], Sequence[str]]
"""Returns a host name's addresses for a port. May block. Raises OSError if there are none."""

WEB = frozenset({80, 443})
_INTERNAL = tuple(
    "corp home home.arpa internal intranet lan local localdomain localhost private".split()
)


def system(host: str, port: int) -> tuple[str, ...]:
    """Return a host's addresses, from the system's resolver."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in entries))


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Allows public addresses on web ports, and the exceptions you pass.

    The exceptions are in its ``repr``. Pass them here to reach an intranet.
    """

    ports: frozenset[int] = WEB
    networks: tuple[str, ...] = ()
    """Allowed networks despite not being public, such as ``10.1.0.0/16``."""
    names: tuple[str, ...] = ()
    """Allowed names despite looking internal, such as ``wiki.internal``."""
    resolver: Resolver = system

    def __post_init__(self) -> None:
        for network in self.networks:
            ip_network(network)
        for name in self.names:
            if normalize_host(name) != name or parse_address(name) is not None:
                raise ValueError(
                    f"{name!r} is not a host name in lower case. Pass addresses as networks."
                )

    def check(self, host: str, port: int) -> str:
        """Return the normalized host, if it may be resolved. Raises Refused or ToolFailed."""
        host = normalize_host(host)
        if port not in self.ports:
            allowed = " and ".join(map(str, sorted(self.ports)))
            raise Refused(f"Not run: port {port} is not allowed, only {allowed}.")
        if parse_address(host) is not None:
            self._check_addresses(host, (host,))
        elif host in self.names:
            return host
        elif "." not in host or host.endswith(tuple(f".{name}" for name in _INTERNAL)):
            raise Refused(_INTERNAL_HOST.format(display_host(host)))
        return host

    def find(self, host: str, port: int) -> tuple[str, ...]:
        """Return the checked addresses to connect to. Blocks while the name is resolved."""
        host = self.check(host, port)
        if parse_address(host) is not None:
            return (host,)
        try:
            addresses = tuple(self.resolver(host, port))
        except (OSError, UnicodeError) as error:
            if getattr(error, "errno", None) == socket.EAI_AGAIN:
                raise Transient(f"{display_host(host)} cannot be resolved now.") from error
            addresses = ()
        if not addresses:
            raise ToolFailed(
                f"The host {display_host(host)} was not found. Check the spelling; there may be no "
                "network."
            )
        return self._check_addresses(host, addresses)

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        """Return the same without blocking the event loop. Can be abandoned on cancellation."""
        if parse_address(self.check(host, port)) is not None:
            return self.find(host, port)
        work = partial(self.find, host, port)
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)

    def _check_addresses(self, host: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
        # one private address among public ones is rejected, too: any of them may be used
        if not all(map(self._is_allowed, addresses)):
            raise Refused(_INTERNAL_HOST.format(display_host(host)))
        return addresses

    def _is_allowed(self, address: str) -> bool:
        if is_public(address):
            return True
        parsed = parse_address(address)
        return parsed is not None and any(parsed in ip_network(net) for net in self.networks)


_INTERNAL_HOST = (
    "Not run: {} is not on the public internet, and only public hosts are allowed. Do not work "
    "around this. Continue without it, or ask the user."
)
