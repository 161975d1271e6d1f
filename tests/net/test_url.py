"""Addresses of the web: what is judged is what is sent."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import WRITE, Access, Refused, ToolFailed
from handrail.net import Url, parse_url


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("https://example.org", "https://example.org/"),
        ("HTTP://Example.org:80/a?b#c", "http://example.org/a?b"),
        ("https://example.org:8443/", "https://example.org:8443/"),
        ("https://[2606:4700::1]:443/x", "https://[2606:4700::1]/x"),
        ("https://example.org/a/./b/../c", "https://example.org/a/c"),
        ("https://example.org/../..", "https://example.org/"),
        ("https://example.org/a/%2e%2E/b", "https://example.org/b"),
        ("https://example.org/a//b/", "https://example.org/a//b/"),
        ("https://example.org/%7euser/%41%2f%25", "https://example.org/~user/A%2f%25"),
        ("https://example.org/ä?ö[]=é", "https://example.org/%C3%A4?%C3%B6%5B%5D=%C3%A9"),
        ("https://example.org?q=/../x", "https://example.org/?q=/../x"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
    ],
)
def test_a_url_has_one_spelling(text: str, made: str) -> None:
    assert str(parse_url(text)) == made


def test_a_url_has_parts() -> None:
    url = parse_url("https://[2606:4700::1]:8443/a?b")

    assert url == Url("https", "2606:4700::1", 8443, "/a", "?b")
    assert (url.authority, url.target) == ("[2606:4700::1]:8443", "/a?b")
    assert str(Access(WRITE, url.resource)) == "write net:[2606:4700::1]/8443/a"


def test_what_is_refused_says_why() -> None:
    told: dict[str, str] = {}
    for text in (
        "example.org",
        "//example.org/",
        "file:///etc/passwd",
        "ht\ntp://example.org",
        "http://example.org/a b",
        "http://example.org\\@evil.test/",
        "http://user:word@example.org/",
        "http://example.org:0/",
        "http://example.org:65536/",
        "http://example.org:80:80/",
        "http://exa[mple.org/",
        "https://example.org/a/..%2fb",
        "https://example.org/a/%252e%252e/b",
        "https://example.org/a/..%5cb",
        "https://example.org/" + "a" * 9_000,
    ):
        with pytest.raises((ToolFailed, Refused)) as caught:
            parse_url(text)
        told[text[:40]] = str(caught.value)

    assert told == snapshot(
        {
            "example.org": "The URL must start with http:// or https://.",
            "//example.org/": "The URL must start with http:// or https://.",
            "file:///etc/passwd": "The URL must start with http:// or https://.",
            """\
ht
tp://example.org\
""": "The URL contains '\\n'. Percent-encode or remove it.",
            "http://example.org/a b": "The URL contains ' '. Percent-encode or remove it.",
            "http://example.org\\@evil.test/": "The URL contains '\\\\'. Percent-encode or remove it.",
            "http://user:word@example.org/": "Not run: the URL contains a user name (before @). Remove it.",
            "http://example.org:0/": "'example.org:0' is not a valid host and port.",
            "http://example.org:65536/": "'example.org:65536' is not a valid host and port.",
            "http://example.org:80:80/": "'example.org:80:80' is not a valid host and port.",
            "http://exa[mple.org/": "'exa[mple.org' is not a valid host and port.",
            "https://example.org/a/..%2fb": "Not run: the path of the URL contains an encoded '..'. Remove it.",
            "https://example.org/a/%252e%252e/b": "Not run: the path of the URL contains an encoded '..'. Remove it.",
            "https://example.org/a/..%5cb": "Not run: the path of the URL contains an encoded '..'. Remove it.",
            "https://example.org/aaaaaaaaaaaaaaaaaaaa": "The URL is longer than 8192 characters.",
        }
    )


@given(st.text(alphabet="ab./%2eE25fF\\?#@:é~", max_size=40))
def test_reading_again_changes_nothing(rest: str) -> None:
    with contextlib.suppress(ToolFailed, Refused):
        url = parse_url(f"https://example.org/{rest}")
        assert parse_url(str(url)) == url
        assert str(url).isascii()
        assert not {".", ".."} & set(url.path.split("/"))
