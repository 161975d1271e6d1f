"""Names of hosts: one spelling each, and no guess."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import ToolFailed
from handrail.net import normalize_host


@pytest.mark.parametrize(
    ("host", "made"),
    [
        ("example.org", "example.org"),
        ("Example.ORG", "example.org"),
        ("a-b.c_d.example.org", "a-b.c_d.example.org"),
        ("localhost", "localhost"),
        ("192.0.2.1", "192.0.2.1"),
        ("[2606:4700:0:0::1]", "2606:4700::1"),
        ("[::ffff:1.2.3.4]", "::ffff:1.2.3.4"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("pyth\u043en.org", "xn--pythn-mye.org"),
        ("例え.jp", "xn--r8jz45g.jp"),
        ("3com.com", "3com.com"),
    ],
)
def test_a_host_has_one_spelling(host: str, made: str) -> None:
    assert normalize_host(host) == made


REFUSED = [
    "",
    "example.org.",
    ".example.org",
    "a..b",
    "-a.org",
    "a-.org",
    "a b.org",
    "a\0.org",
    "a%41.org",
    "a@b.org",
    "a/b",
    "a\\b.org",
    "a:80",
    "127.1",
    "0x7f.1",
    "0177.0.0.1",
    "2130706433",
    "1.2.3.4.5",
    "a.0x1",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "exam\u200bple.org",
    "stra\u00dfe.de",
    "B\u00fccher.example",
    "\u212a.org",
    "xn--a.org",
    "xn--\u00e4.org",
    "xn--python-.org",
    "xn--99999999999.org",
    "[::1",
    "[]",
    "[1.2.3.4]",
    "[fe80::1%lo]",
    "::1",
    "a" * 64 + ".org",
    ".".join(["a" * 60] * 5),
]


@pytest.mark.parametrize("host", REFUSED)
def test_what_can_be_read_in_two_ways_is_refused(host: str) -> None:
    with pytest.raises(ToolFailed):
        normalize_host(host)


def test_a_refusal_says_what_to_write() -> None:
    told: list[str] = []
    for host in ("example.org.", "127.1", "[fe80::1%lo]", "①.example", "a\u202e.b", "é" * 400):
        with pytest.raises(ToolFailed) as caught:
            normalize_host(host)
        told.append(str(caught.value)[:90])

    assert told == snapshot(
        [
            "'example.org.' is not a host name: remove the dot at the end.",
            "'127.1' is not an address: write four numbers, such as 192.0.2.1.",
            "'[fe80::1%lo]' names a network interface. Use the address without it.",
            "'\\u2460' is ambiguous in a host name.",
            "'a\\u202e' is ambiguous in a host name.",
            "'\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9\\",
        ]
    )


@given(st.text(max_size=30) | st.from_regex(r"[a-z0-9.\-\[\]:xn]{1,30}", fullmatch=True))
def test_the_spelling_of_a_spelling_is_itself(host: str) -> None:
    with contextlib.suppress(ToolFailed):
        made = normalize_host(host)
        assert made.isascii()
        assert normalize_host(f"[{made}]" if ":" in made else made) == made
