"""The text of a page: decoded, without invisible content, and limited in size."""

from __future__ import annotations

import codecs
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

import anyio

from handrail import ToolFailed

_MAX_PAGE_CHARS = 2_000_000
"""Characters of a page's text."""
_MAX_SECONDS = 5
_MAX_MEMORY_BYTES = 512 << 20
_PROGRAM = "import runpy, sys; runpy.run_path(sys.argv[1])['main'](*sys.argv[2:])"

_CHARSETS = re.compile(
    r"utf-?8|utf-?16(le|be)?|(us-)?ascii|latin-?1|iso-?8859-\d+|windows-\d+|cp\d+|koi8-[ru]"
    r"|shift[_-]jis|euc-(jp|kr)|gb(k|2312|18030)|big5",
    re.IGNORECASE,
)
_DECLARED = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w-]{1,40})", re.IGNORECASE)
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\U000e0000-\U000e0fff]")
"""Control characters, and characters that only a model can read."""
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = re.compile(
    r"text/.*|application/(.*\+)?(json|xml|yaml)|application/(x-)?(javascript|ndjson|sh|toml|yaml)"
    r"|image/svg\+xml"
)


class ContentType(NamedTuple):
    """A content type: the media type, and the character set if there is one."""

    name: str
    charset: str

    @classmethod
    def of(cls, header: str) -> ContentType:
        """Parse a ``Content-Type`` header. The default is plain text."""
        name, _, rest = header.partition(";")
        charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", rest, re.IGNORECASE)
        return cls(name.strip().lower() or "text/plain", charset[1] if charset else "")

    @property
    def readable(self) -> bool:
        """Whether it is a text format."""
        return self.name in _HTML or _TEXT.fullmatch(self.name) is not None


async def page_text(body: bytes, kind: ContentType, base: str) -> str:
    """Return the text of a page. Raises ToolFailed if it is not text."""
    text = decode_body(body, kind)
    if "\x00" in text[:1024]:
        raise ToolFailed(f"{base} claims to be {kind.name}, but it is binary.")
    if kind.name in _HTML:
        text = await _convert_html(text, base)
    text = _UNSEEN.sub("", text.replace("\r\n", "\n")).strip()
    # the URL of an image could carry data of the conversation, so no viewer may load it
    return text[:_MAX_PAGE_CHARS].replace("![", "!\\[")


def decode_body(body: bytes, kind: ContentType) -> str:
    """Decode bytes: by their byte order mark, by their declared character set, or as UTF-8."""
    for mark, name in _MARKS.items():
        if body.startswith(mark):
            return body.decode(name, "replace")
    name = kind.charset
    if not name and kind.name in _HTML and (declared := _DECLARED.search(body[:2048])):
        name = declared[1].decode("ascii")
    try:
        return body.decode(name if _CHARSETS.fullmatch(name) else "utf-8", "replace")
    except LookupError:  # an unknown code page
        return body.decode("utf-8", "replace")


async def _convert_html(html: str, base: str) -> str:
    numbers = map(str, (_MAX_PAGE_CHARS, _MAX_SECONDS, _MAX_MEMORY_BYTES))
    worker = str(Path(__file__).with_name("html.py"))
    done = await anyio.run_process(
        [sys.executable, "-I", "-c", _PROGRAM, worker, base, *numbers],
        input=html.encode("utf-8", "replace"),
        check=False,
        cwd="/",
        env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
    )
    if done.returncode != 0:
        raise ToolFailed(f"{base} could not be converted to text.")
    return done.stdout.decode("utf-8")
