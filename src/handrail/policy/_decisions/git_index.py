"""Reads which files git tracks, from its index: no program runs to decide about a command."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from handrail._support.systems import READ

_MAX_INDEX_BYTES = 64 << 20
_MAX_LINK_BYTES = 4096
_MAX_PATH_BYTES = 4096
_MAX_NUMBER_BYTES = 5
_HEADER_BYTES = 12
_ENTRY_BYTES = 62
"""Bytes before an entry's path."""
_HASH_AT = 40
_FLAGS_AT = 60
_EXTENDED = 0x40
"""The flag bit for two more flag bytes."""
_PADDING = 8
_MAX_HASHED_BYTES = 1 << 20
_COMPRESSED = 4
_VERSIONS = (2, 3, _COMPRESSED)
_SPLIT = b"link"
"""The extension for an index with other entries in a second file."""


class GitFolder(NamedTuple):
    """A folder with a working tree, and the folder with what git keeps about it."""

    top: Path
    git: Path


def find_git_folder(root: Path) -> GitFolder | None:
    """Return a folder's repository, or None."""
    for folder in (root.absolute(), *root.absolute().parents):
        git = folder / ".git"
        if git.is_dir():
            return GitFolder(folder, git)
        if git.exists():  # a linked working tree: the file names the folder
            text = read_regular_file(git, _MAX_LINK_BYTES) or b""
            return GitFolder(folder, folder / os.fsdecode(text.removeprefix(b"gitdir:").strip()))
    return None


def has_branch(git: Path, name: str) -> bool:
    """Return whether a repository has a branch or a tag with this name."""
    shared = read_regular_file(git / "commondir", _MAX_LINK_BYTES)  # from a linked working tree
    top = git / os.fsdecode(shared.strip()) if shared else git
    packed = read_regular_file(top / "packed-refs", _MAX_INDEX_BYTES) or b""
    names = [f"refs/heads/{name}", f"refs/tags/{name}"]
    return any(
        (top / ref).is_file() or f" {ref}\n".encode() in packed for ref in names if ".." not in ref
    )


def read_tracked_paths(index: Path) -> dict[str, bytes] | None:
    """Return an index's paths with their content hashes, or None for an unknown form."""
    content = read_regular_file(index, _MAX_INDEX_BYTES)
    if content is None:
        return None if index.exists() else {}
    version = int.from_bytes(content[4:8], "big")
    if content[:4] != b"DIRC" or version not in _VERSIONS:
        return None
    try:
        return {os.fsdecode(path): known for path, known in _read_entries(content, version)}
    except (IndexError, ValueError):  # it is cut, or split
        return None


def _read_entries(content: bytes, version: int) -> Iterator[tuple[bytes, bytes]]:
    at, path, size = _HEADER_BYTES, b"", 0
    for _ in range(int.from_bytes(content[8:12], "big")):
        known = content[at + _HASH_AT : at + _FLAGS_AT]
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
        yield path, known
    if content.startswith(_SPLIT, at):
        raise ValueError("a second file has other entries")


def _read_number(content: bytes, at: int) -> tuple[int, int]:
    """Return a variable-length number, and where the bytes after it start."""
    number, start = content[at] & 0x7F, at
    while content[at] & 0x80:
        if at - start > _MAX_NUMBER_BYTES:
            raise ValueError("the number is too long")
        at += 1
        number = ((number + 1) << 7) | (content[at] & 0x7F)
    return number, at + 1


def read_regular_file(path: Path, most: int) -> bytes | None:
    """Return a file up to a length, or None if it cannot be read, or is not a regular file."""
    try:
        fd = os.open(path, READ)
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


class TrackedFiles:
    """A folder's git-tracked files, read again when the index changes."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._state: tuple[str | int, ...] = ()
        self._hashes: dict[str, bytes] = {}
        self._contents: frozenset[bytes] = frozenset()

    def has_path(self, path: str) -> bool:
        """Return whether git tracks a file, as far as is known."""
        self._read_index()
        return path in self._hashes

    def has_content(self, path: str) -> bool:
        """Return whether a file tracked by git has this file's content, perhaps a copy."""
        self._read_index()
        file = Path(self.root, path)
        content = read_regular_file(file, _MAX_HASHED_BYTES) if self._contents else None
        if content is None:
            return False
        whole = b"blob %d\0" % len(content) + content
        return hashlib.sha1(whole, usedforsecurity=False).digest() in self._contents

    def _read_index(self) -> None:
        """Read the index again if it has changed."""
        top, git = find_git_folder(Path(self.root)) or GitFolder(Path("/"), Path(os.devnull))
        try:
            about = (git / "index").stat()
        except (OSError, ValueError):  # there is none, or a path is invalid
            self._state, self._hashes, self._contents = (), {}, frozenset()
            return
        state = str(git), about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns
        if state != self._state:
            tracked = read_tracked_paths(git / "index") or {}
            above = f"{self.root[len(str(top)) :]}/".lstrip("/")
            inside = {path: known for path, known in tracked.items() if path.startswith(above)}
            self._hashes = {path.removeprefix(above): known for path, known in inside.items()}
            self._contents = frozenset(tracked.values())
            self._state = state
