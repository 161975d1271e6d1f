"""Pages: how their bytes become text, and what happens to those that are made to hurt."""

from __future__ import annotations

import io
import resource
from types import SimpleNamespace

import pytest
from inline_snapshot import snapshot

from handrail import ToolFailed
from handrail.tools import _html
from handrail.tools._page import Type, decoded, page_text

HTML = Type("text/html", "")
LONG = 5 << 20


@pytest.mark.parametrize(
    ("header", "made", "readable"),
    [
        ("text/html; charset=UTF-8", Type("text/html", "UTF-8"), True),
        ('Text/Plain;charset="latin1"', Type("text/plain", "latin1"), True),
        ("", Type("text/plain", ""), True),
        ("application/ld+json", Type("application/ld+json", ""), True),
        ("application/xhtml+xml", Type("application/xhtml+xml", ""), True),
        ("image/svg+xml", Type("image/svg+xml", ""), True),
        ("image/png", Type("image/png", ""), False),
        ("application/octet-stream", Type("application/octet-stream", ""), False),
        ("application/pdf", Type("application/pdf", ""), False),
    ],
)
def test_a_content_type_is_read(header: str, made: Type, *, readable: bool) -> None:
    assert Type.of(header) == made
    assert made.readable is readable


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("é".encode(), Type("text/plain", ""), "é"),
        ("é".encode("latin-1"), Type("text/plain", "iso-8859-1"), "é"),
        ("é".encode("latin-1"), Type("text/plain", ""), "\ufffd"),
        ("é".encode("utf-8-sig"), Type("text/plain", "latin-1"), "\ufeffé"),
        ("é".encode("utf-16"), Type("text/plain", "latin-1"), "é"),
        (b"\xfe\xff\x00\xe9", Type("text/plain", ""), "é"),
        ("日本".encode("shift-jis"), Type("text/plain", "Shift_JIS"), "日本"),
        (b"<meta charset=windows-1251>\xe4", HTML, "<meta charset=windows-1251>д"),
        (
            b"<meta charset=windows-1251>\xc3\xa4",
            Type("text/plain", ""),
            "<meta charset=windows-1251>ä",
        ),
        (b"\xc3\xa4", Type("text/plain", "cp99999"), "ä"),
        (b"\\u0041", Type("text/plain", "unicode_escape"), "\\u0041"),
        (b"x", Type("text/plain", "idna"), "x"),
    ],
)
def test_bytes_become_text(body: bytes, kind: Type, text: str) -> None:
    assert decoded(body, kind) == text


async def test_what_nobody_can_see_is_left_out() -> None:
    body = b"a\x1b[31mb\x00" + "\u202ec \U000e0041\U000e0042d\r\ne\x85\x07".encode()
    padded = b" " * 2_000 + body

    assert await page_text(padded, Type("text/plain", ""), "u") == "a[31mb\u202ec d\ne"


async def test_pictures_in_the_words_of_a_page_are_no_pictures() -> None:
    text = await page_text(b"a ![x](http://evil.test/?q) ![y][1]", Type("text/markdown", ""), "u")

    assert text == r"a !\[x](http://evil.test/?q) !\[y][1]"


async def test_binary_data_is_no_text() -> None:
    with pytest.raises(ToolFailed) as caught:
        await page_text(b"GIF89a\x00\x01", Type("text/plain", ""), "http://pub.test/")

    assert str(caught.value) == snapshot(
        "http://pub.test/ says that it is text/plain, but it is binary data."
    )


HOSTILE = {
    "deep": "<div>" * 100_000 + "x",
    "deeper": "<ul><li>" * (LONG // 8),
    "quotes": "<blockquote>x" * (LONG // 13),
    "cells": "<table>" + "<tr><td colspan=1000 rowspan=65000>x</td></tr>" * (LONG // 46),
    "brackets": "<" * LONG,
    "comments": "<!--" * (LONG // 4),
    "formats": "<b><p>" * (LONG // 6),
}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kind", sorted(HOSTILE))
async def test_a_page_that_is_made_to_hurt_hurts_nobody(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.tools._page._SECONDS", 1)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        text = await page_text(HOSTILE[kind].encode(), HTML, "http://pub.test/")
    except ToolFailed as error:
        text = str(error)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3
    assert len(text) <= 2_000_000


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_page_that_is_too_much_work_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.tools._page._SECONDS", 1)

    page = "<a " + " ".join(f"a{n}=1" for n in range(LONG // 10)) + ">x"
    with pytest.raises(ToolFailed) as caught:
        await page_text(page.encode(), HTML, "http://pub.test/")

    assert str(caught.value) == snapshot(
        "The page http://pub.test/ is too tangled to be turned into text."
    )


async def test_the_converter_gets_no_variables_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")

    assert await page_text(b"<p>x</p>", HTML, "http://pub.test/") == "x"


def test_the_converter_reads_and_writes_within_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    told, none = io.BytesIO(), str(resource.RLIM_INFINITY)
    page = b"<h1>One</h1><p>Two <a href='three'>four</a></p>"
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(page)))
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=told))

    _html.main("http://pub.test/a/", "30", none, none)

    assert told.getvalue() == b"# One\n\nTwo [four](http://pub.t"
