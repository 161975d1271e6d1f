"""What a page says, in words: decoded, without what cannot be seen, and bounded."""

from __future__ import annotations

import codecs
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

import anyio

from handrail import ToolFailed

MOST_CHARS = 2_000_000
"""Of a page's text."""
_SECONDS = 5
_MEMORY = 512 << 20
_PROGRAM = "import runpy, sys; runpy.run_path(sys.argv[1])['main'](*sys.argv[2:])"

_CHARSETS = re.compile(
    r"utf-?8|utf-?16(le|be)?|(us-)?ascii|latin-?1|iso-?8859-\d+|windows-\d+|cp\d+|koi8-[ru]"
    r"|shift[_-]jis|euc-(jp|kr)|gb(k|2312|18030)|big5",
    re.IGNORECASE,
)
_DECLARED = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w-]{1,40})", re.IGNORECASE)
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\U000e0000-\U000e0fff]")
"""Controls, which a terminal would obey, and characters that only a model can read."""
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


class Type(NamedTuple):
    """A content type: what it is, and how it is encoded if that is said."""

    name: str
    charset: str

    @classmethod
    def of(cls, header: str) -> Type:
        """Read a ``Content-Type`` header. What says nothing is taken for plain text."""
        name, _, rest = header.partition(";")
        found = re.search(r"charset\s*=\s*\"?([^\s\";]+)", rest, re.IGNORECASE)
        return cls(name.strip().lower() or "text/plain", found[1] if found else "")

    @property
    def readable(self) -> bool:
        """Whether it is text of some kind."""
        return self.name in _HTML or _TEXT.fullmatch(self.name) is not None


async def page_text(body: bytes, kind: Type, base: str) -> str:
    """The text of a page. Raises ToolFailed where there is none."""
    text = decoded(body, kind)
    if "\x00" in text[:1024]:
        raise ToolFailed(f"{base} says that it is {kind.name}, but it is binary data.")
    if kind.name in _HTML:
        text = await _markdown(text, base)
    text = _UNSEEN.sub("", text.replace("\r\n", "\n")).strip()
    # a picture's address may carry what a model was told: nobody who shows this text may load it
    return text[:MOST_CHARS].replace("![", "!\\[")


def decoded(body: bytes, kind: Type) -> str:
    """Bytes as text: by their mark, by what was said of them, or as UTF-8."""
    for mark, name in _MARKS.items():
        if body.startswith(mark):
            return body.decode(name, "replace")
    name = kind.charset
    if not name and kind.name in _HTML and (found := _DECLARED.search(body[:2048])):
        name = found[1].decode("ascii")
    try:
        return body.decode(name if _CHARSETS.fullmatch(name) else "utf-8", "replace")
    except LookupError:  # a number that no code page has
        return body.decode("utf-8", "replace")


async def _markdown(html: str, base: str) -> str:
    numbers = map(str, (MOST_CHARS, _SECONDS, _MEMORY))
    worker = str(Path(__file__).with_name("_html.py"))
    done = await anyio.run_process(
        [sys.executable, "-I", "-c", _PROGRAM, worker, base, *numbers],
        input=html.encode("utf-8", "replace"),
        check=False,
        cwd="/",
        env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
    )
    if done.returncode != 0:
        raise ToolFailed(f"The page {base} is too tangled to be turned into text.")
    return done.stdout.decode("utf-8")
