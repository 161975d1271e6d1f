"""Bytes and text: every byte survives, and what cannot be written is refused."""

# ruff: noqa: RUF001  characters that look alike are what some of this is about

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import ToolFailed
from handrail.tools._files.encoding import DecodedText, decode_text, media

GERMAN = "Größe, Straße, Übung, schön\n"
FRENCH = "“le café” – un été\n"


@pytest.mark.parametrize(
    ("data", "encoding", "bom", "text"),
    [
        (b"", "utf-8", b"", ""),
        (b"plain\n", "utf-8", b"", "plain\n"),
        ("naïve\n".encode(), "utf-8", b"", "naïve\n"),
        ("naïve\n".encode("utf-8-sig"), "utf-8", b"\xef\xbb\xbf", "naïve\n"),
        (b"\xef\xbb\xbfa\xff", "utf-8", b"\xef\xbb\xbf", "a\udcff"),
        ("naïve\n".encode("utf-16-le"), "utf-16-le", b"", "naïve\n"),
        ("naïve\n".encode("utf-16-be"), "utf-16-be", b"", "naïve\n"),
        (b"\xff\xfe" + "né\n".encode("utf-16-le"), "utf-16-le", b"\xff\xfe", "né\n"),
        (b"\xfe\xff" + "né\n".encode("utf-16-be"), "utf-16-be", b"\xfe\xff", "né\n"),
        (b"\xff\xfe\0\0" + "né".encode("utf-32-le"), "utf-32-le", b"\xff\xfe\0\0", "né"),
        (b"\0\0\xfe\xff" + "né".encode("utf-32-be"), "utf-32-be", b"\0\0\xfe\xff", "né"),
        (GERMAN.encode("latin-1"), "latin-1", b"", GERMAN),
        (FRENCH.encode("cp1252"), "cp1252", b"", FRENCH),
        ("äöü äöü äöü\n".encode() + b"\xe4\n", "utf-8", b"", "äöü äöü äöü\n\udce4\n"),
        ("你好".encode("gbk"), "ascii", b"", "\udcc4\udce3\udcba\udcc3"),
        ("テスト".encode("shift-jis"), "ascii", b"", "\udc83e\udc83X\udc83g"),
        ("привет".encode("cp1251"), "ascii", b"", "\udcef\udcf0\udce8\udce2\udce5\udcf2"),
        (b"\xff\xfea", "ascii", b"", "\udcff\udcfea"),
        (b"a\0b\0c\0\x01\0", "utf-8", b"", "a\0b\0c\0\x01\0"),
        (b"a\0\0\0\0bcd", "utf-8", b"", "a\0\0\0\0bcd"),
    ],
)
def test_the_encoding_is_told_from_the_bytes(
    data: bytes, encoding: str, bom: bytes, text: str
) -> None:
    file = decode_text(data)

    assert (file.encoding, file.bom, file.text) == (encoding, bom, text)
    assert file.bom + file.part(file.text) == data


@given(
    st.binary(max_size=200) | st.text(max_size=60).map(lambda text: text.encode("gbk", "ignore"))
)
def test_every_byte_survives(data: bytes) -> None:
    file = decode_text(data)

    assert file.bom + file.part(file.text) == data
    assert media(data) in {"text", "png", "jpeg", "gif", "webp", "pdf", "binary"}


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (b"plain", snapshot("")),
        (
            "é".encode("utf-8-sig"),
            snapshot("The file is UTF-8 with a byte order mark, which is kept."),
        ),
        ("a long text".encode("utf-16-le"), snapshot("The file is UTF-16-LE.")),
        (
            GERMAN.encode("latin-1"),
            snapshot("The file is not UTF-8. It is read and written as latin-1."),
        ),
        (
            "éé".encode() + b"\xff",
            snapshot(
                "The file is UTF-8 with invalid bytes (1), which are shown as \\xNN and kept."
            ),
        ),
        (
            "你好".encode("gbk"),
            snapshot(
                "The file is text in an unknown encoding, not UTF-8. Bytes outside ASCII are shown as \\xNN and kept; only ASCII can be written."
            ),
        ),
    ],
)
def test_a_model_is_told_of_an_encoding_that_is_not_the_usual_one(data: bytes, note: str) -> None:
    assert decode_text(data).note == note


@pytest.mark.parametrize(
    ("text", "newline", "mixed"),
    [
        ("", "\n", False),
        ("a", "\n", False),
        ("a\nb\n", "\n", False),
        ("a\r\nb\r\n", "\r\n", False),
        ("a\rb\r", "\r", False),
        ("a\r\nb\nc\r\n", "\r\n", True),
        ("a\r\nb\nc\n", "\n", True),
    ],
)
def test_the_line_ends_are_known(text: str, newline: str, *, mixed: bool) -> None:
    file = decode_text(text.encode())

    assert (file.newline, file.mixed) == (newline, mixed)


def test_new_text_is_written_in_the_encoding_of_the_file() -> None:
    assert decode_text(GERMAN.encode("latin-1")).encode("über") == b"\xfcber"
    assert decode_text("é".encode("utf-8-sig")).encode("ü") == "ü".encode("utf-8-sig")


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (
            decode_text(GERMAN.encode("latin-1")),
            "5 €",
            snapshot(
                "Not written: the file is latin-1, which has no U+20AC (euro sign). Use other characters, or convert the file first."
            ),
        ),
        (
            decode_text("你好".encode("gbk")),
            "你",
            snapshot(
                "Not written: the file's encoding is unknown, so U+4F60 (cjk unified ideograph-4f60) cannot be encoded."
            ),
        ),
        (
            decode_text(b"a"),
            "\udc80",
            snapshot(
                "The text has half of a surrogate pair (U+DC80), which is not a character. Write the character itself."
            ),
        ),
    ],
)
def test_what_cannot_be_written_is_refused(file: DecodedText, text: str, said: str) -> None:
    with pytest.raises(ToolFailed) as refused:
        file.encode(text)

    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "text"),
        (b"text\n", "text"),
        ("text\n".encode("utf-16"), "text"),
        ("text\n".encode("utf-32"), "text"),
        ("你好".encode("gbk"), "text"),
        (b"\x1b[1mbold\x1b[0m", "text"),
        (b"a" * 9000 + b"\0", "text"),
        (b"a\0b", "binary"),
        (b"\1\2\3\4 control", "binary"),
        (b"\x89PNG\r\n\x1a\n\0\0", "png"),
        (b"\xff\xd8\xff\xe0\0", "jpeg"),
        (b"GIF89a\1\0\1\0", "gif"),
        (b"GIF89a is a format", "text"),
        (b"BZh91AY\1\2\0", "binary"),
        (b"BZh is how bzip2 begins", "text"),
        (b"RIFF\1\2\3\4WEBPVP8 ", "webp"),
        (b"%PDF-1.7\n", "pdf"),
        (b"\x1f\x8b\x08abc", "binary"),
    ],
)
def test_what_a_file_holds_is_told_from_its_bytes(data: bytes, kind: str) -> None:
    assert media(data) == kind
