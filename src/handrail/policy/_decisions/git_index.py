"""Reads which files git tracks, from its index: no program runs to decide about a command."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

_MAX_INDEX_BYTES = 64 << 20
_MAX_LINK_BYTES = 4096
_MAX_PATH_BYTES = 4096
_MAX_NUMBER_BYTES = 5
_HEADER_BYTES = 12
_ENTRY_BYTES = 62
"""Bytes of an entry before its path."""
_FLAGS_AT = 60
_EXTENDED = 0x40
"""The bit of the flags that says that two more bytes of flags follow."""
_PADDING = 8
_COMPRESSED = 4
_VERSIONS = (2, 3, _COMPRESSED)
_SPLIT = b"link"
"""The extension of an index whose other entries are in a second file."""


def find_git_folder(root: Path) -> Path | None:
    """Return the git folder of a folder, or of one above it; None if there is none."""
    for folder in (root.absolute(), *root.absolute().parents):
        git = folder / ".git"
        if git.is_dir():
            return git
        if git.exists():  # a linked working tree: the file names the folder
            text = read_regular_file(git, _MAX_LINK_BYTES) or b""
            return folder / os.fsdecode(text.removeprefix(b"gitdir:").strip())
    return None


def read_tracked_paths(index: Path) -> list[str] | None:
    """Return the paths in an index; None if its form is not known."""
    content = read_regular_file(index, _MAX_INDEX_BYTES)
    if content is None:
        return None if index.exists() else []
    version = int.from_bytes(content[4:8], "big")
    if content[:4] != b"DIRC" or version not in _VERSIONS:
        return None
    try:
        return [os.fsdecode(path) for path in _read_paths(content, version)]
    except (IndexError, ValueError):  # it is cut, or split
        return None


def _read_paths(content: bytes, version: int) -> Iterator[bytes]:
    at, path, size = _HEADER_BYTES, b"", 0
    for _ in range(int.from_bytes(content[8:12], "big")):
        start = at + _ENTRY_BYTES + 2 * bool(content[at + _FLAGS_AT] & _EXTENDED)
        if version == _COMPRESSED:
            dropped, start = _read_number(content, start)
            end = content.index(b"\0", start)
            path = path[: len(path) - dropped] + content[start:end]
            at = end + 1
        else:
            end = content.index(b"\0", start)
            path = content[start:end]
            at += (end - at + _PADDING) // _PADDING * _PADDING
        size += len(path)
        if len(path) > _MAX_PATH_BYTES or size > _MAX_INDEX_BYTES:
            raise ValueError("the paths are too long")
        yield path
    if content.startswith(_SPLIT, at):
        raise ValueError("a second file has other entries")


def _read_number(content: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where the bytes after it start."""
    number, start = content[at] & 0x7F, at
    while content[at] & 0x80:
        if at - start > _MAX_NUMBER_BYTES:
            raise ValueError("the number is too long")
        at += 1
        number = ((number + 1) << 7) | (content[at] & 0x7F)
    return number, at + 1


def read_regular_file(path: Path, most: int) -> bytes | None:
    """Return a file that is not too long; None if it cannot be read, or is not a regular file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        with open(fd, "rb", closefd=False) as file:
            content = file.read(most + 1)
    finally:
        os.close(fd)
    return content if len(content) <= most else None
