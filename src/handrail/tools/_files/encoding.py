"""Converts between a file's bytes and its text without loss: every byte can be written back.

A file's encoding is detected once, from its bytes, and reported. Text the encoding
cannot represent is refused; nothing is ever replaced by a question mark.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeAlias

from handrail import ToolFailed

Media: TypeAlias = Literal["text", "png", "jpeg", "gif", "webp", "pdf", "binary"]
"""A content type, as far as readers need it."""

HEAD_BYTES = 8000
"""Bytes inspected to tell text from binary data."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like the UTF-16 mark, so it is tried first
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC: tuple[tuple[bytes, Media], ...] = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"%PDF-", "pdf"),
    (b"\x1f\x8b\x08", "binary"),  # compressed files, which may have no NUL if they are small
    (b"BZh", "binary"),
    (b"\xfd7zXZ", "binary"),
    (b"\x28\xb5\x2f\xfd", "binary"),
    (b"7z\xbc\xaf\x27\x1c", "binary"),
)
_CONTROLS = bytes({*range(32)} - {*b"\b\t\n\f\r\x1b"})

_ESCAPING = ("utf-8", "ascii")
"""The encodings in which an invalid byte becomes a lone surrogate, and a byte again."""
_MIN_WIDE_BYTES = 8
"""Bytes needed to tell UTF-16 from other data."""
_PAIR_BYTES = 2
"""A longer run of high bytes is not a single two-byte character."""
_CP1252_ONLY = range(0x80, 0xA0)
"""Characters in cp1252, and controls in latin-1."""
_SMART = frozenset((0x80, 0x85, *range(0x91, 0x98), 0x99))
"""Bytes of cp1252 between 0x80 and 0x9f that people use: euro, dots, quotes, dashes, (TM)."""
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_BROKEN = re.compile("[\ud800-\udfff]")
_STRAY = re.compile("[\udc80-\udcff]")

_KEPT_MARK = " with a byte order mark, which is kept"
_STRAYS = "The file is UTF-8 with invalid bytes ({count}), which are shown as \\xNN and kept."
_UNKNOWN = (
    "The file is text in an unknown encoding, not UTF-8. Bytes outside ASCII are shown as \\xNN "
    "and kept; only ASCII can be written."
)
_GUESSED = "The file is not UTF-8. It is read and written as {name}."
_WIDE = "The file is {name}{mark}."


@dataclass(frozen=True, slots=True)
class DecodedText:
    """A file's text, and how to turn text into its bytes.

    Attributes:
        text: The text without the byte order mark. An invalid byte is a lone surrogate.
        encoding: Python's encoding name; `ascii` if it is unknown.
        bom: The byte order mark, or empty.
        newline: The most common line ending; a line feed if there is none.
        mixed: Whether line endings differ.
        note: A note about the encoding for the model; empty for plain UTF-8.
    """

    text: str
    encoding: str
    bom: bytes
    newline: str
    mixed: bool
    note: str

    def encode(self, text: str) -> bytes:
        """Return a new content for this file, in its encoding and with its byte order mark.

        Raises ToolFailed if the encoding cannot represent the text.
        """
        self.check(text)
        return self.bom + text.encode(self.encoding)

    def part(self, text: str) -> bytes:
        """Return a part of this text as bytes, or checked text."""
        return text.encode(self.encoding, "surrogateescape" if self.escapes else "strict")

    def decode(self, data: bytes) -> str:
        """Return another content of this file as text, written by ``encode`` or ``part``."""
        body = data[len(self.bom) :]
        return body.decode(self.encoding, "surrogateescape" if self.escapes else "strict")

    def check(self, text: str) -> None:
        """Raise ToolFailed if this file's encoding cannot represent the text."""
        broken = _BROKEN.search(text)
        if broken:
            raise ToolFailed(
                f"The text has half of a surrogate pair (U+{ord(broken[0]):04X}), which is not a "
                "character. Write the character itself."
            )
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise ToolFailed(self._describe_unwritable(text[error.start])) from None

    @property
    def escapes(self) -> bool:
        """Whether invalid bytes are lone surrogates in the text."""
        return self.encoding in _ESCAPING

    def _describe_unwritable(self, character: str) -> str:
        name = unicodedata.name(character, "a character without a name").lower()
        what = f"U+{ord(character):04X} ({name})"
        if self.encoding == "ascii":
            return f"Not written: the file's encoding is unknown, so {what} cannot be encoded."
        return (
            f"Not written: the file is {self.encoding}, which has no {what}. Use other characters, "
            "or convert the file first."
        )


def decode_text(data: bytes) -> DecodedText:
    """Return any bytes as text; `media` says whether they are text at all."""
    encoding, bom, text = _detect(data)
    newline, mixed = _find_newline(text)
    return DecodedText(text, encoding, bom, newline, mixed, _note(text, encoding, bom))


def media(data: bytes) -> Media:
    """Return a content's type, by its bytes and not by its name."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    clean = _is_clean(data[:HEAD_BYTES])
    for magic, kind in _MAGIC:
        # a magic number made of letters may begin a text
        if data.startswith(magic) and not (clean and magic.isalnum()):
            return kind
    return "text" if clean or _detect(data)[0].startswith(("utf-16", "utf-32")) else "binary"


def _is_clean(head: bytes) -> bool:
    """Return whether there is no NUL and there are few other control characters."""
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return b"\0" not in head and controls * 10 <= len(head)


def _detect(data: bytes) -> tuple[str, bytes, str]:
    """Return the encoding, the byte order mark and the text."""
    for bom, encoding in _MARKS:
        if data.startswith(bom):
            text = _try_decode(data[len(bom) :], encoding)
            if text is not None:
                return encoding, bom, text
    wide = _detect_wide(data)
    if wide:
        return wide, b"", data.decode(wide)
    text = _try_decode(data, "utf-8")
    if text is not None:
        return "utf-8", b"", text
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    encoding = "utf-8" if bom else _guess_legacy(data)
    errors = "surrogateescape" if encoding in _ESCAPING else "strict"
    return encoding, bom, data[len(bom) :].decode(encoding, errors)


def _try_decode(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _detect_wide(data: bytes) -> str:
    """Detect UTF-16 without a mark: half the bytes are NUL, and the text is plain."""
    if len(data) < _MIN_WIDE_BYTES or len(data) % 2 or b"\0" not in data[:HEAD_BYTES]:
        return ""
    big, little = data[::2].count(0), data[1::2].count(0)
    encoding = "utf-16-le" if little > big else "utf-16-be"
    text = _try_decode(data, encoding) if max(big, little) * 4 >= len(data) else None
    return encoding if text and _is_plain(text) else ""


def _is_plain(text: str) -> bool:
    return all(character.isprintable() or character in "\t\n\r\f" for character in text)


def _guess_legacy(data: bytes) -> str:
    """Guess an encoding other than UTF-8, if a wrong guess does little harm.

    In Western text single letters are accented, among plain ones. Two-byte encodings
    have even high-byte runs, other alphabets long ones.
    """
    text = data.decode("utf-8", "surrogateescape")
    strays = len(_STRAY.findall(text))
    letters = len(text) - strays - len(text.encode("ascii", "ignore"))
    if letters > strays:
        return "utf-8"
    runs = Counter(_HIGH_RUN.findall(data))
    short = sum(count for run, count in runs.items() if len(run) == 1)
    low = {byte for run in runs for byte in run if byte in _CP1252_ONLY}
    long = any(len(run) > _PAIR_BYTES for run in runs)
    if long or short * 2 <= runs.total() or not low <= _SMART:
        return "ascii"
    return "cp1252" if low else "latin-1"


def _find_newline(text: str) -> tuple[str, bool]:
    if "\r" not in text:  # the usual case, and faster than counting
        return "\n", False
    both = text.count("\r\n")
    feeds = text.count("\n") - both
    returns = 0 if both or feeds else text.count("\r")
    if returns:
        return "\r", False
    return ("\r\n" if both > feeds else "\n"), bool(both and feeds)


def _note(text: str, encoding: str, bom: bytes) -> str:
    if encoding == "ascii":
        return _UNKNOWN
    if encoding in ("latin-1", "cp1252"):
        return _GUESSED.format(name=encoding)
    if encoding != "utf-8" or bom:
        return _WIDE.format(name=encoding.upper(), mark=_KEPT_MARK if bom else "")
    strays = 0 if text.isascii() else len(_STRAY.findall(text))
    return _STRAYS.format(count=strays) if strays else ""
