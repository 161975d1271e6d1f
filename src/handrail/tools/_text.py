"""Between the bytes of a file and its text, without loss: every byte can be written back.

A file's encoding is decided once, from its bytes, and said. Text that the encoding has no bytes
for is refused; nothing is ever replaced by a question mark.
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
"""What a file holds, as far as a reader has to know."""

HEAD = 8000
"""Bytes that are looked at to tell text from other data."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like the mark of UTF-16, so it comes first
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
    (b"\x1f\x8b\x08", "binary"),  # gzip and the like, which may be without a NUL if they are small
    (b"BZh", "binary"),
    (b"\xfd7zXZ", "binary"),
    (b"\x28\xb5\x2f\xfd", "binary"),
    (b"7z\xbc\xaf\x27\x1c", "binary"),
)
_CONTROLS = bytes({*range(32)} - {*b"\b\t\n\f\r\x1b"})

_ESCAPING = ("utf-8", "ascii")
"""The encodings in which a byte that is no text becomes a lone surrogate, and a byte again."""
_SMART = frozenset((0x80, 0x85, *range(0x91, 0x98), 0x99))
"""What people write of cp1252 between 0x80 and 0x9f: the euro, dots, quotes, dashes, (TM)."""
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_BROKEN = re.compile("[\ud800-\udfff]")
_STRAY = re.compile("[\udc80-\udcff]")

_KEPT_MARK = " with a byte order mark, which is kept"
_STRAYS = "The file is UTF-8, but for stray bytes ({count}): they are shown as \\xNN and kept."
_UNKNOWN = (
    "The file is text, but not UTF-8, and its encoding cannot be told: what is not ASCII is shown "
    "as \\xNN and kept, and only ASCII can be written into it."
)
_GUESSED = "The file is not UTF-8. It is read and written as {name}."
_WIDE = "The file is {name}{mark}."


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text of a file, and how it stands in its bytes.

    Attributes:
        text: The text without the byte order mark. A byte that is no text is a lone surrogate.
        encoding: What the text is written in, as Python names it; `ascii` if nobody can tell.
        bom: The byte order mark, or nothing.
        newline: The line end that most lines have; a line feed where there is none.
        mixed: Whether there are several kinds of line ends.
        note: What a model should know of the encoding; nothing for plain UTF-8.
    """

    text: str
    encoding: str
    bom: bytes
    newline: str
    mixed: bool
    note: str

    def encode(self, text: str) -> bytes:
        """A whole content for this file, in its encoding and with its byte order mark.

        Raises ToolFailed where the text cannot be written in the encoding.
        """
        self.check(text)
        return self.bom + text.encode(self.encoding)

    def part(self, text: str) -> bytes:
        """The bytes of a part of this text, or of text that was checked."""
        return text.encode(self.encoding, "surrogateescape" if self.escapes else "strict")

    def check(self, text: str) -> None:
        """Refuse new text that this file's encoding has no bytes for."""
        broken = _BROKEN.search(text)
        if broken:
            raise ToolFailed(
                f"The text holds half of a surrogate pair (U+{ord(broken[0]):04X}), which is no "
                "character. Write the character itself."
            )
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise ToolFailed(self._cannot(text[error.start])) from None

    @property
    def escapes(self) -> bool:
        """Whether bytes that are no text stand in the text as lone surrogates."""
        return self.encoding in _ESCAPING

    def _cannot(self, character: str) -> str:
        name = unicodedata.name(character, "a character without a name").lower()
        where = "of unknown encoding" if self.encoding == "ascii" else f"in {self.encoding}"
        return (
            f"U+{ord(character):04X} ({name}) cannot be written into this file, which is {where}. "
            "Use other characters, or convert the file first."
        )


def decoded(data: bytes) -> Decoded:
    """The text of any bytes at all; `media` says whether they are text in the first place."""
    encoding, bom, text = _reading(data)
    newline, mixed = _newline(text)
    return Decoded(text, encoding, bom, newline, mixed, _note(text, encoding, bom))


def media(data: bytes) -> Media:
    """What a file holds, from its bytes alone, since names lie."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    clean = _clean(data[:HEAD])
    for magic, kind in _MAGIC:
        # a magic number of letters alone may be the beginning of a text
        if data.startswith(magic) and not (clean and magic.isalnum()):
            return kind
    return "text" if clean or _reading(data)[0].startswith(("utf-16", "utf-32")) else "binary"


def _clean(head: bytes) -> bool:
    """Whether there is no NUL, and there are few other control characters."""
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return b"\0" not in head and controls * 10 <= len(head)


def _reading(data: bytes) -> tuple[str, bytes, str]:
    """The encoding, the mark, and the text."""
    for bom, encoding in _MARKS:
        if data.startswith(bom):
            text = _read(data[len(bom) :], encoding)
            if text is not None:
                return encoding, bom, text
    wide = _wide(data)
    if wide:
        return wide, b"", data.decode(wide)
    text = _read(data, "utf-8")
    if text is not None:
        return "utf-8", b"", text
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    encoding = "utf-8" if bom else _legacy(data)
    errors = "surrogateescape" if encoding in _ESCAPING else "strict"
    return encoding, bom, data[len(bom) :].decode(encoding, errors)


def _read(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _wide(data: bytes) -> str:
    """UTF-16 without a mark, if it can be nothing else: half of it NUL, all of it plain text."""
    if len(data) < 8 or len(data) % 2 or b"\0" not in data[:HEAD]:  # noqa: PLR2004
        return ""
    big, little = data[::2].count(0), data[1::2].count(0)
    encoding = "utf-16-le" if little > big else "utf-16-be"
    text = _read(data, encoding) if max(big, little) * 4 >= len(data) else None
    return encoding if text and _plain(text) else ""


def _plain(text: str) -> bool:
    return all(one.isprintable() or one in "\t\n\r\f" for one in text)


def _legacy(data: bytes) -> str:
    """What bytes are read as that are not UTF-8: a guess only where a wrong one does little.

    In Western text single letters are accented, among letters that are not. Two-byte encodings
    have even runs of high bytes, other alphabets long ones.
    """
    text = data.decode("utf-8", "surrogateescape")
    strays = len(_STRAY.findall(text))
    letters = len(text) - strays - len(text.encode("ascii", "ignore"))
    if letters > strays:
        return "utf-8"
    runs = Counter(_HIGH_RUN.findall(data))
    short = sum(count for run, count in runs.items() if len(run) == 1)
    low = {one for run in runs for one in run if one < 0xA0}  # noqa: PLR2004
    long = any(len(run) > 2 for run in runs)  # noqa: PLR2004
    if long or short * 2 <= runs.total() or not low <= _SMART:
        return "ascii"
    return "cp1252" if low else "latin-1"


def _newline(text: str) -> tuple[str, bool]:
    if "\r" not in text:  # the usual case, and counting takes longer than looking
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
