"""Files named with ``@`` in a message, images by their path, and pasted images, as parts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from handrail import File, HandrailError, Image
from handrail.cli._base.columns import quantity

if TYPE_CHECKING:
    from handrail.tools import Workspace  # loads the file tools

MAX_TEXT_BYTES = 100_000
"""Largest text to attach. The model can read a larger one in parts."""
MAX_MEDIA_BYTES = 5_000_000
_WORD = re.compile(
    r"""(?:^|(?<=\s))(?P<at>@?)(?:"(?P<double>[^"\n]+)"|'(?P<single>[^'\n]+)'|"""
    r"""(?P<bare>(?:\\.|[^\s\\"'])(?:\\.|[^\s\\])*))"""
)
_ESCAPED = re.compile(r"\\(.)")
_ENDS = ".,;:!?)]}'\""
_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


class Attachment(NamedTuple):
    """A named file: its content, or why it has none; both for the user."""

    part: Image | File | None
    note: str


def find_attachments(
    text: str, workspace: Workspace, pasted: Mapping[str, bytes]
) -> Iterator[Attachment]:
    """Yield the files named in a message, each once.

    A word such as ``@src/a.py`` names a workspace file. A path beginning with ``/`` or ``~`` names
    an image, with or without ``@``: a terminal pastes it for a dropped file.
    """
    for name, data in pasted.items():
        if name in text:
            yield _from_data(name.strip("[]"), data)
    seen: set[str] = set()
    for path, is_named in _names(text):
        if path in seen:
            continue
        seen.add(path)
        if path.startswith(("/", "~")):
            found = _from_anywhere(path)
        else:
            found = _from_workspace(path, workspace) if is_named else None
        if found is not None:
            yield found


def media_type_of(data: bytes) -> str:
    """Return an image's or a document's type, or "" for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES if data.startswith(start)), "")


def _names(text: str) -> Iterator[tuple[str, bool]]:
    """Yield possible path words, and whether ``@`` is before them."""
    for word in _WORD.finditer(text):
        quoted = word["double"] or word["single"]
        path = quoted or _ESCAPED.sub(r"\1", word["bare"])
        if word["at"] or path.startswith(("/", "~")):
            yield path, bool(word["at"])


def _spellings(path: str) -> Iterable[str]:
    """Return a path, and then without punctuation added by a sentence."""
    return (path, bare) if (bare := path.rstrip(_ENDS)) and bare != path else (path,)


def _from_workspace(path: str, workspace: Workspace) -> Attachment | None:
    """Return a workspace file, or None if the word names none."""
    for spelled in _spellings(path):
        try:
            inside = workspace.inside(spelled)
            if workspace.is_hidden(inside):
                return Attachment(None, f"{spelled} is not attached: a rule denies reading it")
            with workspace.file(spelled) as file:
                data = os.pread(file.fd, MAX_MEDIA_BYTES + 1, 0)
        except (HandrailError, OSError):
            continue
        return _from_data(spelled, data)
    return None


def _from_anywhere(path: str) -> Attachment | None:
    """Return an image named by its whole path, or None if the word names none."""
    for spelled in _spellings(path):
        file = Path(spelled).expanduser()
        if not spelled.lower().endswith(_SUFFIXES) or not file.is_file():
            continue
        try:
            with file.open("rb") as opened:
                return _from_data(file.name, opened.read(MAX_MEDIA_BYTES + 1))
        except OSError as error:
            return Attachment(None, f"{spelled} is not attached: {str(error.strerror).lower()}")
    return None


def _from_data(name: str, data: bytes) -> Attachment:
    kind = media_type_of(data)
    most = MAX_MEDIA_BYTES if kind else MAX_TEXT_BYTES
    if len(data) > most:
        return Attachment(None, f"{name} is not attached: it is larger than {most:,} bytes")
    if kind.startswith("image/"):
        return Attachment(Image(data, kind), f"attached {name}, {len(data):,} bytes")
    if kind:
        return Attachment(File(data, kind, name), f"attached {name}, {len(data):,} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Attachment(None, f"{name} is not attached: it is neither text nor an image")
    lines = text.count("\n") + bool(text and not text.endswith("\n"))
    return Attachment(File(data, "text/plain", name), f"attached {name}, {quantity(lines, 'line')}")
