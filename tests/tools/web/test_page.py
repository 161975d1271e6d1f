"""Pages: how their bytes become text, and what happens to those that are made to hurt."""

from __future__ import annotations

import io
import resource
from types import SimpleNamespace

import pytest
from inline_snapshot import snapshot

from handrail import ToolFailed
from handrail.tools._web import html as _html
from handrail.tools._web.web_fetch import ContentType, decode_body, page_text

HTML = ContentType("text/html", "")
LONG = 5 << 20


@pytest.mark.parametrize(
    ("header", "made", "readable"),
    [
        ("text/html; charset=UTF-8", ContentType("text/html", "UTF-8"), True),
        ('Text/Plain;charset="latin1"', ContentType("text/plain", "latin1"), True),
        ("", ContentType("text/plain", ""), True),
        ("application/ld+json", ContentType("application/ld+json", ""), True),
        ("application/xhtml+xml", ContentType("application/xhtml+xml", ""), True),
        ("image/svg+xml", ContentType("image/svg+xml", ""), True),
        ("image/png", ContentType("image/png", ""), False),
        ("application/octet-stream", ContentType("application/octet-stream", ""), False),
        ("application/pdf", ContentType("application/pdf", ""), False),
    ],
)
def test_a_content_type_is_read(header: str, made: ContentType, *, readable: bool) -> None:
    assert ContentType.of(header) == made
    assert made.readable is readable


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("é".encode(), ContentType("text/plain", ""), "é"),
        ("é".encode("latin-1"), ContentType("text/plain", "iso-8859-1"), "é"),
        ("é".encode("latin-1"), ContentType("text/plain", ""), "\ufffd"),
        ("é".encode("utf-8-sig"), ContentType("text/plain", "latin-1"), "\ufeffé"),
        ("é".encode("utf-16"), ContentType("text/plain", "latin-1"), "é"),
        (b"\xfe\xff\x00\xe9", ContentType("text/plain", ""), "é"),
        ("日本".encode("shift-jis"), ContentType("text/plain", "Shift_JIS"), "日本"),
        (b"<meta charset=windows-1251>\xe4", HTML, "<meta charset=windows-1251>д"),
        (
            b"<meta charset=windows-1251>\xc3\xa4",
            ContentType("text/plain", ""),
            "<meta charset=windows-1251>ä",
        ),
        (b"\xc3\xa4", ContentType("text/plain", "cp99999"), "ä"),
        (b"\\u0041", ContentType("text/plain", "unicode_escape"), "\\u0041"),
        (b"x", ContentType("text/plain", "idna"), "x"),
    ],
)
def test_bytes_become_text(body: bytes, kind: ContentType, text: str) -> None:
    assert decode_body(body, kind) == text


async def test_what_nobody_can_see_is_left_out() -> None:
    body = b"a\x1b[31mb\x00" + "\u202ec \U000e0041\U000e0042d\r\ne\x85\x07".encode()
    padded = b" " * 2_000 + body

    assert await page_text(padded, ContentType("text/plain", ""), "u") == "a[31mb\u202ec d\ne"


async def test_pictures_in_the_words_of_a_page_are_no_pictures() -> None:
    text = await page_text(
        b"a ![x](http://evil.test/?q) ![y][1]", ContentType("text/markdown", ""), "u"
    )

    assert text == r"a !\[x](http://evil.test/?q) !\[y][1]"


async def test_binary_data_is_no_text() -> None:
    with pytest.raises(ToolFailed) as caught:
        await page_text(b"GIF89a\x00\x01", ContentType("text/plain", ""), "http://pub.test/")

    assert str(caught.value) == snapshot(
        "http://pub.test/ claims to be text/plain, but it is binary."
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
    monkeypatch.setattr("handrail.tools._web.web_fetch._MAX_SECONDS", 1)
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
    monkeypatch.setattr("handrail.tools._web.web_fetch._MAX_SECONDS", 1)

    page = "<a " + " ".join(f"a{n}=1" for n in range(LONG // 10)) + ">x"
    with pytest.raises(ToolFailed) as caught:
        await page_text(page.encode(), HTML, "http://pub.test/")

    assert str(caught.value) == snapshot("http://pub.test/ could not be converted to text.")


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
