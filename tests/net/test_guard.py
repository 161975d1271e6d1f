"""The guard: a name is looked up once, all its addresses count, and the rest is refused."""

from __future__ import annotations

import socket

import pytest
from inline_snapshot import snapshot

from handrail import Refused, ToolFailed, Transient
from handrail.net import Guard
from net.web_stage import OTHER, PUBLIC, names

GUARD = Guard(resolver=names)


async def test_a_public_name_gives_its_addresses() -> None:
    assert await GUARD.resolve("PUB.test", 443) == (PUBLIC,)
    assert await GUARD.resolve(f"[{OTHER}]", 443) == (OTHER,)
    assert GUARD.find("other.test", 80) == (OTHER,)


async def test_a_name_is_looked_up_once() -> None:
    looked: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        looked.append(f"{host} {port}")
        return [PUBLIC]

    await Guard(resolver=resolver).resolve("pub.test", 443)

    assert looked == ["pub.test 443"]


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("int.test", 80),
        ("multi.test", 80),
        ("localhost", 80),
        ("printer", 80),
        ("wiki.corp", 80),
        ("router.home.arpa", 80),
        ("metadata.google.internal", 80),
        ("10.0.0.1", 80),
        ("[::1]", 80),
        ("pub.test", 22),
    ],
)
async def test_what_is_inside_is_refused(host: str, port: int) -> None:
    with pytest.raises(Refused):
        await GUARD.resolve(host, port)


async def test_what_cannot_be_looked_up_is_no_host_or_not_now() -> None:
    def busy(_host: str, _port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "later")

    told: list[str] = []
    for guard in (GUARD, Guard(resolver=busy), Guard(resolver=lambda *_: [])):
        with pytest.raises((ToolFailed, Transient)) as caught:
            await guard.resolve("unknown.test", 80)
        told.append(f"{caught.type.__name__}: {caught.value}")

    assert told == snapshot(
        [
            "ToolFailed: The host 'unknown.test' was not found. Check the spelling; there may be no network.",
            "Transient: 'unknown.test' cannot be resolved now.",
            "ToolFailed: The host 'unknown.test' was not found. Check the spelling; there may be no network.",
        ]
    )


async def test_a_host_may_open_more_and_shows_it() -> None:
    guard = Guard(
        ports=frozenset({8080}),
        networks=("10.0.0.0/8",),
        names=("internal-host-without-dot",),
        resolver=names,
    )

    assert await guard.resolve("internal-host-without-dot", 8080) == ("10.0.0.5",)
    assert await guard.resolve("10.1.2.3", 8080) == ("10.1.2.3",)
    assert "networks=('10.0.0.0/8',), names=('internal-host-without-dot',)" in repr(guard)
    for host, port in (("localhost", 8080), ("10.1.2.3", 80), ("int.test", 8080)):
        with pytest.raises(Refused):
            await guard.resolve(host, port)


async def test_a_resolver_that_gives_no_addresses_is_not_believed() -> None:
    for wrong in ("localhost", "", "127.1", "::1"):
        guard = Guard(resolver=lambda *_, wrong=wrong: [PUBLIC, wrong], networks=("0.0.0.0/0",))
        with pytest.raises(Refused):
            await guard.resolve("pub.test", 80)


def test_a_network_must_be_one() -> None:
    with pytest.raises(ValueError, match="does not appear"):
        Guard(networks=("intranet",))


@pytest.mark.parametrize("name", ["Wiki", "10.0.0.1"])
def test_a_name_must_be_one(name: str) -> None:
    with pytest.raises(ValueError, match="Pass addresses as networks"):
        Guard(names=(name,))


def test_by_default_the_machine_is_asked() -> None:
    with pytest.raises(Refused):
        Guard(names=("localhost",)).find("localhost", 80)
