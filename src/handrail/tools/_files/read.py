"""The read tool: files and notebooks as numbered lines, folders as lists, images and PDFs."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import add
from typing import Any, NamedTuple

from handrail import READ, Access, Context, File, Image, Text, Tool, ToolFailed, tool
from handrail._support.visible import describe_unseen, spell_out
from handrail.tools._descriptions import READ_DESCRIPTION
from handrail.tools._files.encoding import DecodedText, decode_text, media
from handrail.tools._files.folder_listing import list_folder
from handrail.tools._files.workspace import FolderFound, OpenPath, Workspace
from handrail.tools._habits import READ_INSTEAD_OF, READ_SYNONYMS
from handrail.tools._notebook.cells import SUFFIX, find_cells
from handrail.tools._notebook.text import render_notebook

_DEFAULT_LINES = 2_000
"""Default lines in a page."""
_MAX_LINES = 5_000
"""Lines in a page if a call asks for more."""
_MAX_PAGE_CHARS = 50_000
"""Characters in a page."""
_MAX_LINE_CHARS = 2_000
"""Characters in a line; longer lines are clipped."""
MAX_FILE_BYTES = 16 * 1024 * 1024
"""Bytes read from a file; of a larger file, the beginning."""
_MAX_SHOWN_CHARS = 2 * _MAX_PAGE_CHARS
"""Characters in a page with line numbers, and with invisible characters spelled out."""
_MAX_LINE_NUMBER = 10**12
_STRIDE_CHARS = 4_096
_MAX_MEDIA_BYTES = 3_900_000
"""Bytes returned for an image or a PDF; models take no more."""
_MAX_IMAGES = 4
"""Images returned with a page, from a notebook's outputs."""
_MAX_IMAGE_CHARS = 1_000_000
"""Characters in the largest one, in base64."""
_IMAGES = ("png", "jpeg", "gif", "webp")


def read(workspace: Workspace) -> Tool[..., Any]:
    """Make a tool that reads files in a workspace."""

    def touches(file_path: str, **_: object) -> tuple[Access, ...]:
        return workspace.access(READ, file_path)

    @tool(
        description=READ_DESCRIPTION,
        effect=READ,
        touches=touches,
        timeout=30.0,
        max_chars=_MAX_SHOWN_CHARS + 1_000,
        tags=workspace.tags,
        strict="on",
        synonyms=READ_SYNONYMS,
        instead_of=READ_INSTEAD_OF,
    )
    def read(
        file_path: str,
        offset: int = 1,
        limit: int = _DEFAULT_LINES,
        view_range: list[int] | None = None,
        *,
        context: Context,
    ) -> str | list[Text | Image | File]:
        """Read a file.

        Args:
            file_path: Path of the file or folder, relative to the workspace.
            offset: First line to read, from 1.
            limit: Number of lines to read, at most 5000.
            view_range: First and last line, such as [10, 20], instead of offset and limit. A last
                line of -1 means up to 2000 lines.
            context: The context of the call.
        """
        first, count = _line_range(offset, limit, view_range)
        try:
            with workspace.file(file_path, context) as found:
                data = _read_beginning(found)
        except FolderFound:
            return list_folder(workspace, file_path, context)
        cut = found.stat.st_size > MAX_FILE_BYTES
        if not cut:
            workspace.seen.note(found.real, data)
        kind = media(data)
        if kind == "text":
            return _show_text(found, decode_text(data), first, count)
        if kind == "binary" or cut or len(data) > _MAX_MEDIA_BYTES:
            raise ToolFailed(_describe_unreadable(file_path, kind, found.stat.st_size))
        return _document(file_path, kind, data)

    return read


def _line_range(offset: int, limit: int, view_range: Sequence[int] | None) -> tuple[int, int]:
    """Return the first line to show, and how many lines."""
    if view_range is None:
        return min(max(offset, 1), _MAX_LINE_NUMBER), min(max(limit, 1), _MAX_LINES)
    try:
        first, last = view_range
    except ValueError:
        raise ToolFailed("view_range must be two numbers: the first and last line.") from None
    first = min(max(first, 1), _MAX_LINE_NUMBER)
    if 0 < last < first:
        raise ToolFailed(f"view_range {view_range} ends before it begins.")
    return first, min(last - first + 1 if last > 0 else _DEFAULT_LINES, _MAX_LINES)


def _read_beginning(found: OpenPath) -> bytes:
    """Return a file's content; for a large file, only whole lines at the beginning."""
    with open(found.fd, "rb", closefd=False) as file:
        data = file.read(MAX_FILE_BYTES)
    if found.stat.st_size <= MAX_FILE_BYTES or data.startswith(_WIDE):
        return data
    return data[: data.rfind(b"\n") + 1] or data


class _Page(NamedTuple):
    text: str
    last: int
    """Its last line's number."""


def _show_text(
    found: OpenPath, file: DecodedText, first: int, count: int
) -> str | list[Text | Image | File]:
    """Return a text page; for a notebook, with the images its outputs have there."""
    cells = find_cells(found.real, file.text) if file.encoding == "utf-8" else []
    if not cells:
        text = _format_page(file, first, count, size=found.stat.st_size).text
        return text + _NO_NOTEBOOK * found.real.lower().endswith(SUFFIX)
    view = render_notebook(cells)
    shown = replace(file, text=view.text, newline="\n", mixed=False)
    page = _format_page(shown, first, count, size=0)
    small = [data for line, data in view.images if first <= line <= page.last]
    images = [image for data in small[:_MAX_IMAGES] if (image := _decode_image(data)) is not None]
    return [Text(page.text), *images] if images else page.text


def _decode_image(data: str) -> Image | None:
    """Return an image from base64; None if it is large, or not an image models take."""
    if len(data) > _MAX_IMAGE_CHARS:
        return None
    try:
        content = base64.b64decode(data)
    except ValueError:
        return None
    kind = media(content)
    return Image(content, f"image/{kind}") if kind in _IMAGES else None


def _document(path: str, kind: str, data: bytes) -> list[Text | Image | File]:
    name = path.rpartition("/")[2]
    caption = Text(f"{name}: {kind}, {len(data):,} bytes")
    if kind == "pdf":
        return [caption, File(data, "application/pdf", name)]
    return [caption, Image(data, f"image/{kind}")]


def _describe_unreadable(path: str, kind: str, size: int) -> str:
    if kind == "binary":
        return (
            f"{path!r} is a binary file ({size:,} bytes). Inspect it with a command such as `file` "
            "or `xxd`."
        )
    return f"{path!r} is too large to show ({kind}, {size:,} bytes; limit {_MAX_MEDIA_BYTES:,})."


def _format_page(file: DecodedText, first: int, count: int, *, size: int) -> _Page:
    cut = size > MAX_FILE_BYTES
    text = _with_line_feeds(file)
    if not text:
        return _Page("[The file is empty.]", 0)
    lines, more = _page_lines(_from_line(text, first, cut=cut), count)
    numbered = _number_lines(lines, first)
    body = spell_out(numbered)
    while len(body) > _MAX_SHOWN_CHARS:  # a spelled out character takes up to eight times the room
        lines, more = lines[: len(lines) // 2], True
        numbered = _number_lines(lines, first)
        body = spell_out(numbered)
    unseen = "" if body is numbered else describe_unseen(numbered)
    notes = _notes(file, unseen, cut=cut and not more)
    last = first + len(lines) - 1
    if more:
        total = f"a file of {size:,} bytes" if cut else f"{_count_lines(text):,}"
        notes.append(f"Lines {first:,} to {last:,} of {total}. To read on, pass offset={last + 1}.")
    return _Page("\n".join([body, *(f"[{note}]" for note in notes)]), last)


def _from_line(text: str, first: int, *, cut: bool) -> str:
    """Return the text from a line on; the lines before it are counted, not split."""
    start, before = 0, first - 1
    while before and start < len(text):
        feeds = text.count("\n", start, start + _STRIDE_CHARS)
        if feeds < before:
            start, before = start + _STRIDE_CHARS, before - feeds
        else:
            start, before = text.index("\n", start) + 1, before - 1
    if start < len(text):
        return text[start:]
    what = f"The first {MAX_FILE_BYTES:,} bytes of the file have" if cut else "The file has"
    raise ToolFailed(
        f"{what} {_count_lines(text):,} lines; line {first:,} does not exist.{_REST * cut}"
    )


def _count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def _page_lines(text: str, count: int) -> tuple[list[str], bool]:
    """Return a page's lines, and whether there are more."""
    whole = text if len(text) <= _MAX_PAGE_CHARS else _first_lines(text)
    lines = whole.split("\n", count)
    rest = lines.pop()
    if rest and len(lines) < count:  # a file's last line may have no line ending
        lines.append(rest)
        rest = ""
    if max(map(len, lines)) > _MAX_LINE_CHARS:
        lines = [_clip(line) for line in lines]
    return lines, bool(rest) or len(whole) < len(text)


def _first_lines(text: str) -> str:
    """Return as many lines as fit on a page, at least one."""
    end = text.rfind("\n", 0, _MAX_PAGE_CHARS) + 1 or text.find("\n") + 1
    return text[:end] if end else text


def _with_line_feeds(file: DecodedText) -> str:
    if file.newline == "\r":
        return file.text.replace("\r", "\n")
    if file.newline == "\r\n" or file.mixed:
        return file.text.replace("\r\n", "\n")
    return file.text


def _clip(line: str) -> str:
    if len(line) <= _MAX_LINE_CHARS:
        return line
    more = len(line) - _MAX_LINE_CHARS
    return f"{line[:_MAX_LINE_CHARS]} [clipped: {more:,} more characters in this line]"


def _number_lines(lines: Sequence[str], first: int) -> str:
    return "\n".join(map(add, _numbers(first, len(lines)), lines))


@lru_cache(maxsize=64)
def _numbers(first: int, count: int) -> list[str]:
    return [f"{number:>6}\t" for number in range(first, first + count)]


def _notes(file: DecodedText, unseen: str, *, cut: bool) -> list[str]:
    """Return notes about line endings, encoding, invisible characters and omitted content."""
    ends = "Line endings are mixed: LF, CRLF or CR." if file.mixed else _ENDS[file.newline]
    rest = f"Only the first {MAX_FILE_BYTES:,} bytes of the file were read.{_REST}"
    return [note for note in (ends, file.note, unseen, rest * cut) if note]


_NO_NOTEBOOK = (
    "\n[This is not a notebook of format 4, or too large for one: it is shown as plain text.]"
)
_REST = " Use grep or a command for the rest."
_WIDE = (b"\xff\xfe", b"\xfe\xff")
"""Marks for encodings with line endings longer than one byte."""
_ENDS = {"\n": "", "\r\n": "Lines end in CRLF.", "\r": "Lines end in CR."}
