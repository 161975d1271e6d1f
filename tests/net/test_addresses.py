"""Which addresses are public: only what is plainly so."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.net import is_loopback, is_public

VECTORS = json.loads(
    (Path(__file__).parents[1] / "data" / "vectors-ssrf.json").read_text(encoding="utf-8")
)["vectors"]


def _literals() -> list[str]:
    """The internal addresses among the vectors."""
    found: list[str] = []
    for vector in VECTORS:
        text = vector["title"].partition(": ")[2].strip("[]")
        try:
            found.append(str(ip_address(text)))
        except ValueError:
            continue
    return found


@pytest.mark.parametrize("address", _literals())
def test_an_internal_address_is_not_public(address: str) -> None:
    assert not is_public(address)


def test_what_the_standard_library_takes_for_global_may_be_internal() -> None:
    wrong = [one for one in _literals() if ip_address(one).is_global]

    assert len(wrong) >= 5  # the check above can fail


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "93.184.215.14",
        "172.15.255.255",
        "172.32.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "168.63.129.15",
        "2606:4700::1111",
        "2a00:1450:4001:810::200e",
        "2606:4700::5efe:808:808",
    ],
)
def test_a_public_address_is_public(address: str) -> None:
    assert is_public(address)
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "",
        "example.org",
        "127.1",
        "010.0.0.1",
        "1.1.1.1 ",
        "2606:4700::1111%eth0",
        "2606:4700::200:5efe:a00:1",
        "2620:4f:8000::1",
        "::8.8.8.8",
        "::ffff:8.8.8.8",
    ],
)
def test_what_is_wrapped_or_no_address_at_all_is_not_public(address: str) -> None:
    assert not is_public(address)


@given(st.integers(0, 2**32 - 1).map(IPv4Address) | st.integers(0, 2**128 - 1).map(IPv6Address))
def test_a_public_address_is_public_for_the_standard_library_too(
    address: IPv4Address | IPv6Address,
) -> None:
    if is_public(address):
        assert address.is_global
        assert not any((address.is_multicast, address.is_reserved, address.is_private))


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.2", "::1"])
def test_this_machine_has_several_names(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "127.999.1.1", "127.1", "localhost.example", "10.0.0.1", "::2"]
)
def test_other_hosts_are_not_this_machine(host: str) -> None:
    assert not is_loopback(host)
