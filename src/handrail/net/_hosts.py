"""Normalizes host names. An ambiguous name is rejected."""

from __future__ import annotations

import re
import socket
import unicodedata
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address

from handrail import ToolFailed

MAX_HOST_CHARS = 253
_MAX_LABEL_CHARS = 63
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DEVIATING = frozenset("\u00df\u03c2\u200c\u200d")
"""Characters treated differently by the two standards for international names."""
_LETTERS = ("Ll", "Lm", "Lo", "Mn", "Mc", "Nd")


def normalize_host(host: str) -> str:
    """Return a host in its normal form: a lower-case name, or an address without brackets.

    Raises ToolFailed with a message for the model if the host is invalid or ambiguous.
    """
    if host.startswith("[") and host.endswith("]"):
        return _canonical_ipv6(host)
    host = host.lower() if host.isascii() else host
    labels = host.split(".")
    if not host or labels[-1] == "":
        raise ToolFailed(f"{display_host(host)} is not a host name: remove the dot at the end.")
    if _NUMBER.fullmatch(labels[-1]):
        return _canonical_ipv4(host)
    name = ".".join(map(_canonical_label, labels))
    if len(name) > MAX_HOST_CHARS:
        raise ToolFailed(f"{display_host(host)} is not a host name: it is too long.")
    return name


def parse_address(host: str) -> IPv4Address | IPv6Address | None:
    """Return a normalized host as an address, or None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def display_host(host: str) -> str:
    """Return a host for a message: short, and without invisible characters."""
    return ascii(host if len(host) <= MAX_HOST_CHARS else host[:MAX_HOST_CHARS] + "...")


def _canonical_ipv6(host: str) -> str:
    try:
        address = IPv6Address(host[1:-1])
    except AddressValueError:
        raise ToolFailed(f"{display_host(host)} is not an IPv6 address.") from None
    if address.scope_id is not None:
        raise ToolFailed(
            f"{display_host(host)} names a network interface. Use the address without it."
        )
    return socket.inet_ntop(socket.AF_INET6, address.packed)  # str() differs between Pythons


def _canonical_ipv4(host: str) -> str:
    """Accept only four decimal numbers: some programs also read 127.1, 0x7f.1 or 017700000001."""
    try:
        return str(IPv4Address(host))
    except AddressValueError:
        raise ToolFailed(
            f"{display_host(host)} is not an address: write four numbers, such as 192.0.2.1."
        ) from None


def _canonical_label(label: str) -> str:
    encoded = label if label.isascii() else _encode_label(label)
    is_encoded = label.startswith("xn--")
    if (
        len(encoded) > _MAX_LABEL_CHARS
        or not _LABEL.fullmatch(encoded)
        or (is_encoded and _encode_label(_decode_label(label)) != label)
    ):
        raise ToolFailed(f"{display_host(label)} cannot be part of a host name.")
    return encoded


def _encode_label(label: str) -> str:
    """Return an international label in punycode, without mapping characters."""
    folded = unicodedata.normalize("NFKC", label).casefold()
    foreign = [letter for letter in label if not letter.isascii()]
    if (
        folded != label
        or not foreign
        or label[2:4] == "--"
        or not _DEVIATING.isdisjoint(label)
        or any(unicodedata.category(letter) not in _LETTERS for letter in foreign)
    ):
        raise ToolFailed(f"{display_host(label)} is ambiguous in a host name.")
    return "xn--" + label.encode("punycode").decode("ascii")


def _decode_label(label: str) -> str:
    try:
        return label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        raise ToolFailed(f"{display_host(label)} is not valid punycode.") from None
