"""read: a file as numbered lines, a page at a time; a picture or a document as itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import add
from typing import Any

from handrail import READ, Access, Context, File, Image, Text, Tool, ToolFailed, tool
from handrail.tools._shown import spelled_out
from handrail.tools._text import Decoded, decoded, media
from handrail.tools._workspace import Found, Workspace

LINES = 2_000
"""Lines of a page."""
MOST_LINES = 5_000
"""Lines of a page where more are asked for."""
PAGE = 50_000
"""Characters of a page."""
LINE = 2_000
"""Characters of a line; what is longer is clipped."""
WHOLE = 16 * 1024 * 1024
"""Bytes of a file that are looked at; of a larger one, the beginning."""
_SHOWN = 2 * PAGE
"""Characters that are shown of a page, with numbers, and with the unseen spelled out."""
_FAR = 10**12
_STRIDE = 4_096
PICTURE = 3_900_000
"""Bytes of a picture or a document that is handed on; more, models do not take."""


def read(workspace: Workspace) -> Tool[..., Any]:
    """A tool that reads files in a workspace."""

    def touches(file_path: str, **_: object) -> tuple[Access, ...]:
        return workspace.access(READ, file_path)

    @tool(effect=READ, touches=touches, timeout=30.0, max_chars=_SHOWN + 1_000)
    def read(
        file_path: str,
        offset: int = 1,
        limit: int = LINES,
        view_range: list[int] | None = None,
        *,
        context: Context,
    ) -> str | list[Text | Image | File]:
        """Read a file. Before each line stand its number and a tab, which are not part of it.

        Use it before you change a file. A long file comes in pages: the last line says how to go
        on. Pictures and PDF documents are shown as such. To find something in many files use grep;
        to see which files there are use glob.

        Args:
            file_path: The path, relative to the workspace.
            offset: The number of the first line to read, counted from 1.
            limit: How many lines to read at most.
            view_range: Instead of both: the first and the last line, such as [10, 20]. A last
                line of 0 or less means the end of the file.
            context: Of the call.
        """
        first, count = _wanted(offset, limit, view_range)
        with workspace.file(file_path, context) as found:
            data = _beginning(found)
        cut = found.stat.st_size > WHOLE
        if not cut:
            workspace.seen.note(found.real, data)
        kind = media(data)
        if kind == "text":
            return _page(data, first, count, size=found.stat.st_size)
        if kind == "binary" or cut or len(data) > PICTURE:
            raise ToolFailed(_no_text(file_path, kind, found.stat.st_size))
        return _document(file_path, kind, data)

    return read


def _wanted(offset: int, limit: int, view_range: Sequence[int] | None) -> tuple[int, int]:
    """The first line to show, and how many."""
    if view_range is None:
        return min(max(offset, 1), _FAR), min(max(limit, 1), MOST_LINES)
    if len(view_range) != 2:  # noqa: PLR2004  a first and a last
        raise ToolFailed("view_range takes two numbers: the first and the last line.")
    first, last = min(max(view_range[0], 1), _FAR), view_range[1]
    if 0 < last < first:
        raise ToolFailed(f"view_range ends before it begins: {view_range}.")
    return first, min(last - first + 1 if last > 0 else LINES, MOST_LINES)


def _beginning(found: Found) -> bytes:
    """A file's content; of a large one the lines at its beginning."""
    with open(found.fd, "rb", closefd=False) as file:
        data = file.read(WHOLE)
    if found.stat.st_size <= WHOLE or data.startswith(_WIDE):
        return data
    return data[: data.rfind(b"\n") + 1] or data


def _document(path: str, kind: str, data: bytes) -> list[Text | Image | File]:
    name = path.rpartition("/")[2]
    said = Text(f"{name}: {kind}, {len(data):,} bytes")
    if kind == "pdf":
        return [said, File(data, "application/pdf", name)]
    return [said, Image(data, f"image/{kind}")]


def _no_text(path: str, kind: str, size: int) -> str:
    if kind == "binary":
        return f"{path!r} is no text ({size:,} bytes). Use a command to look into it."
    return f"{path!r} is too large to be shown ({kind}, {size:,} bytes; at most {PICTURE:,})."


def _page(data: bytes, first: int, count: int, *, size: int) -> str:
    file, cut = decoded(data), size > WHOLE
    text = _with_line_feeds(file)
    if not text:
        return "[The file is empty.]"
    lines, more = _lines(_from_line(text, first, cut=cut), count)
    body, unseen = spelled_out(_numbered(lines, first))
    while len(body) > _SHOWN:  # what is spelled out takes up to eight times the room
        lines, more = lines[: len(lines) // 2], True
        body, unseen = spelled_out(_numbered(lines, first))
    notes = _notes(file, unseen, cut=cut and not more)
    if more:
        last = first + len(lines) - 1
        notes.append(
            f"These are lines {first:,} to {last:,} of a file of {size:,} bytes. To go on, "
            f"read with offset {last + 1}."
        )
    return "\n".join([body, *(f"[{note}]" for note in notes)])


def _from_line(text: str, first: int, *, cut: bool) -> str:
    """The text from a line on; the lines before are counted, not taken apart."""
    start, before = 0, first - 1
    while before and start < len(text):
        feeds = text.count("\n", start, start + _STRIDE)
        if feeds < before:
            start, before = start + _STRIDE, before - feeds
        else:
            start, before = text.index("\n", start) + 1, before - 1
    if start < len(text):
        return text[start:]
    total = text.count("\n") + (not text.endswith("\n"))
    what = f"The first {WHOLE:,} bytes of this file have" if cut else "The file has"
    raise ToolFailed(f"{what} {total:,} lines, and none with the number {first:,}.{_REST * cut}")


def _lines(text: str, count: int) -> tuple[list[str], bool]:
    """The lines of a page, and whether there are more.

    The rest is not looked at, let alone counted: in a long file that takes longer than the page.
    """
    whole = text if len(text) <= PAGE else _first_lines(text)
    lines = whole.split("\n", count)
    rest = lines.pop()
    if rest and len(lines) < count:  # the last line of a file may have no end
        lines.append(rest)
        rest = ""
    if max(map(len, lines)) > LINE:
        lines = [_clipped(line) for line in lines]
    return lines, bool(rest) or len(whole) < len(text)


def _first_lines(text: str) -> str:
    """As many lines as fit on a page; one at least."""
    end = text.rfind("\n", 0, PAGE) + 1 or text.find("\n") + 1
    return text[:end] if end else text


def _with_line_feeds(file: Decoded) -> str:
    if file.newline == "\r":
        return file.text.replace("\r", "\n")
    if file.newline == "\r\n" or file.mixed:
        return file.text.replace("\r\n", "\n")
    return file.text


def _clipped(line: str) -> str:
    if len(line) <= LINE:
        return line
    return f"{line[:LINE]} [clipped: {len(line) - LINE:,} more characters in this line]"


def _numbered(lines: Sequence[str], first: int) -> str:
    return "\n".join(map(add, _numbers(first, len(lines)), lines))


@lru_cache(maxsize=64)
def _numbers(first: int, count: int) -> list[str]:
    return [f"{number:>6}\t" for number in range(first, first + count)]


def _notes(file: Decoded, unseen: str, *, cut: bool) -> list[str]:
    """What a reader has to know besides the lines."""
    ends = "Line ends are mixed: LF, CRLF or CR." if file.mixed else _ENDS[file.newline]
    rest = f"Only the first {WHOLE:,} bytes of this file were looked at.{_REST}"
    return [note for note in (ends, file.note, unseen, rest * cut) if note]


_REST = " Use grep, or a command, for the rest."
_WIDE = (b"\xff\xfe", b"\xfe\xff")
"""Marks of encodings in which a line end is more than one byte."""
_ENDS = {"\n": "", "\r\n": "Lines end in CRLF.", "\r": "Lines end in CR."}
