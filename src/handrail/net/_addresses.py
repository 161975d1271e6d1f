"""Decides which addresses are on the public internet; in doubt, an address is not."""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
)
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

_INTERNAL_4 = tuple(
    IPv4Network(block)
    for block in """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
    192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24
    198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
    168.63.129.16/32
    """.split()
)
"""Blocks reserved for special purposes, and a public address for one cloud's machines."""

_GLOBAL_6 = IPv6Network("2000::/3")
"""All allocated addresses. The rest includes loopback, private and link-local addresses, and the
many ways to wrap an IPv4 address: listing those one by one has failed too often."""
_INTERNAL_6 = tuple(
    IPv6Network(block)
    for block in "2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20".split()
)

_ISATAP = 0x0000_5EFE
_ISATAP_MASK = 0xFCFF_FFFF
"""The upper half of an interface identifier wrapping an IPv4 address. Two of its bits vary."""


def is_public(address: str | Address) -> bool:
    """Return whether an address is on the public internet, or False for an invalid address.

    ``ipaddress.is_global`` is not enough: it accepts multicast, and addresses wrapping private
    ones.
    """
    if isinstance(address, str):
        try:
            address = ip_address(address)
        except ValueError:
            return False
    if isinstance(address, IPv4Address):
        return not any(address in block for block in _INTERNAL_4)
    return _public_6(address)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _public_6(address: IPv6Address) -> bool:
    if address.scope_id is not None or address not in _GLOBAL_6:
        return False
    if any(address in block for block in _INTERNAL_6):
        return False
    number = int(address)
    wraps = number >> 32 & _ISATAP_MASK == _ISATAP
    return not wraps or is_public(IPv4Address(number & 0xFFFF_FFFF))
