"""Names of hosts in one spelling. What could be read in two ways is refused, never mended."""

from __future__ import annotations

import re
import socket
import unicodedata
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address

from handrail import ToolFailed

MOST_CHARS = 253
_MOST_LABEL = 63
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DEVIATING = frozenset("\u00df\u03c2\u200c\u200d")
"""What the two standards for international names read differently."""
_LETTERS = ("Ll", "Lm", "Lo", "Mn", "Mc", "Nd")


def canonical(host: str) -> str:
    """A host's one spelling: a name in lower case, or an address; IPv6 without its brackets.

    Raises ToolFailed, with words for a model, where there is more than one reading.
    """
    if host.startswith("[") and host.endswith("]"):
        return _version_6(host)
    host = host.lower() if host.isascii() else host
    labels = host.split(".")
    if not host or labels[-1] == "":
        raise ToolFailed(f"{shown(host)} is no host name: write one without a dot at its end.")
    if _NUMBER.fullmatch(labels[-1]):
        return _version_4(host)
    named = ".".join(map(_label, labels))
    if len(named) > MOST_CHARS:
        raise ToolFailed(f"{shown(host)} is no host name: it is too long.")
    return named


def literal(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a canonical host is, where it is one."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def shown(host: str) -> str:
    """A host as a message may show it: short, and nothing invisible."""
    return ascii(host if len(host) <= MOST_CHARS else host[:MOST_CHARS] + "...")


def _version_6(host: str) -> str:
    try:
        address = IPv6Address(host[1:-1])
    except AddressValueError:
        raise ToolFailed(f"{shown(host)} is no address.") from None
    if address.scope_id is not None:
        raise ToolFailed(f"{shown(host)} names a network interface; write the address alone.")
    return socket.inet_ntop(socket.AF_INET6, address.packed)  # str() differs between Pythons


def _version_4(host: str) -> str:
    """Only four plain numbers: 127.1, 0x7f.1 and 017700000001 mean something to some readers."""
    try:
        return str(IPv4Address(host))
    except AddressValueError:
        raise ToolFailed(
            f"{shown(host)} is no address: write four numbers, as 192.0.2.1."
        ) from None


def _label(label: str) -> str:
    made = label if label.isascii() else _encoded(label)
    wrapped = label.startswith("xn--")
    if (
        len(made) > _MOST_LABEL
        or not _LABEL.fullmatch(made)
        or (wrapped and _encoded(_decoded(label)) != label)
    ):
        raise ToolFailed(f"{shown(label)} cannot be a part of a host name.")
    return made


def _encoded(label: str) -> str:
    """An international label as it goes over the wire. Nothing is mapped to anything else."""
    folded = unicodedata.normalize("NFKC", label).casefold()
    foreign = [one for one in label if not one.isascii()]
    if (
        folded != label
        or not foreign
        or label[2:4] == "--"
        or not _DEVIATING.isdisjoint(label)
        or any(unicodedata.category(one) not in _LETTERS for one in foreign)
    ):
        raise ToolFailed(f"{shown(label)} in a host name can be read in two ways.")
    return "xn--" + label.encode("punycode").decode("ascii")


def _decoded(label: str) -> str:
    try:
        return label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        raise ToolFailed(f"{shown(label)} is no proper encoding of a name.") from None
