"""Addresses of the web: what is judged is what is sent."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import WRITE, Access, Refused, ToolFailed
from handrail.net import Url, read_url


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
    assert str(read_url(text)) == made


def test_a_url_has_parts() -> None:
    url = read_url("https://[2606:4700::1]:8443/a?b")

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
            read_url(text)
        told[text[:40]] = str(caught.value)

    assert told == snapshot(
        {
            "example.org": "Only a full URL that begins with http:// or https:// can be used.",
            "//example.org/": "Only a full URL that begins with http:// or https:// can be used.",
            "file:///etc/passwd": "Only a full URL that begins with http:// or https:// can be used.",
            """\
ht
tp://example.org\
""": "The URL has '\\n' in it. Percent-encode it, or leave it out.",
            "http://example.org/a b": "The URL has ' ' in it. Percent-encode it, or leave it out.",
            "http://example.org\\@evil.test/": "The URL has '\\\\' in it. Percent-encode it, or leave it out.",
            "http://user:word@example.org/": "The URL has a user name in it (before @). Leave it out.",
            "http://example.org:0/": "'example.org:0' is no host with a port.",
            "http://example.org:65536/": "'example.org:65536' is no host with a port.",
            "http://example.org:80:80/": "'example.org:80:80' is no host with a port.",
            "http://exa[mple.org/": "'exa[mple.org' is no host with a port.",
            "https://example.org/a/..%2fb": "The path of the URL has '..' in it, encoded. Write the path as it is.",
            "https://example.org/a/%252e%252e/b": "The path of the URL has '..' in it, encoded. Write the path as it is.",
            "https://example.org/a/..%5cb": "The path of the URL has '..' in it, encoded. Write the path as it is.",
            "https://example.org/aaaaaaaaaaaaaaaaaaaa": "The URL is too long: at most 8192 characters can be used.",
        }
    )


@given(st.text(alphabet="ab./%2eE25fF\\?#@:é~", max_size=40))
def test_reading_again_changes_nothing(rest: str) -> None:
    with contextlib.suppress(ToolFailed, Refused):
        url = read_url(f"https://example.org/{rest}")
        assert read_url(str(url)) == url
        assert str(url).isascii()
        assert not {".", ".."} & set(url.path.split("/"))
