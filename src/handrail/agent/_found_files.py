"""Read files that handrail does not trust: inside a folder, without links, with size limits.

Each folder of a path is opened relative to its parent, so a concurrent rename cannot lead outside.
The module only reads, and uses only the standard library.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

IsTrusted: TypeAlias = Callable[[str, bytes], bool]
"""Whether the user trusts this content of this path (relative to the workspace)."""
AnyPath: TypeAlias = str | os.PathLike[str]
NoticeKind: TypeAlias = Literal[
    "untrusted", "skipped", "lenient", "shadowed", "invisible", "escaped"
]
Field: TypeAlias = "str | tuple[Field, ...] | Mapping[str, Field]"
"""A value of front matter: text, a list or a map."""

MAX_NAMES = 10_000
"""Entries of one folder. A folder with more entries is skipped."""
MAX_PATH_CHARS = 300
"""Characters of a path in messages."""
IS_LINK = "symbolic links are not followed"
NOT_TRUSTED = "ignored: not trusted, or changed since you trusted it"
HAS_TAGS = "contains tags that handrail uses itself; they are escaped"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Notice:
    """A message for the user about a file that was read or skipped."""

    path: str
    kind: NoticeKind
    message: str


@dataclass(frozen=True, slots=True)
class Untrusted:
    """A file or a skill that was ignored because the user has not trusted it."""

    path: str
    """Relative to the workspace."""
    content: bytes
    """The exact content to trust. Show it to the user first."""


class NotRead(Exception):
    """A file or a folder is skipped. The message says why."""


class Gone(NotRead):
    """A file or a folder does not exist."""


class FolderEntry(NamedTuple):
    """An entry of a folder."""

    name: str
    kind: Literal["folder", "file", "link", "other"]


def trust_nothing(_path: str, _content: bytes) -> bool:
    """Trust no file."""
    return False


def is_trusted(trusted: IsTrusted, path: str, content: bytes) -> bool:
    """Whether the answer is exactly True. A coroutine, as an async function returns, is not."""
    return trusted(path, content) is True


@contextmanager
def open_folder(root: AnyPath, path: str = "") -> Generator[int]:
    """Open a folder inside a root. Raises NotRead if it cannot be opened."""
    with _explain_errors():
        fd = os.open(os.path.realpath(root), _FOLDER)
    try:
        for step in filter(None, path.split("/")):
            parent, fd = fd, _open_step(fd, step)
            os.close(parent)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def open_subfolder(within: int, name: str) -> Generator[int]:
    """Open a folder in an open folder. Raises NotRead."""
    fd = _open_step(within, name)
    try:
        yield fd
    finally:
        os.close(fd)


def _open_step(within: int, name: str) -> int:
    with _explain_errors():
        _stat(within, name)
        return os.open(name, _FOLDER, dir_fd=within)


def read_bytes(within: int, name: str, max_bytes: int) -> bytes:
    """Read a whole regular file. Raises NotRead."""
    with _explain_errors():
        about = _stat(within, name)
        if not stat.S_ISREG(about.st_mode):
            raise NotRead("not a regular file")
        fd = os.open(name, _FILE, dir_fd=within)
        try:
            return _read_all(fd, about.st_size, max_bytes)
        finally:
            os.close(fd)


def list_folder(within: int) -> list[FolderEntry]:
    """List a folder, sorted by name. Raises NotRead if it has too many entries."""
    with _explain_errors(), os.scandir(within) as entries:
        listed = [
            FolderEntry(entry.name, _entry_kind(entry)) for entry in islice(entries, MAX_NAMES + 1)
        ]
    if len(listed) > MAX_NAMES:
        raise NotRead(f"the folder has more than {MAX_NAMES:,} entries")
    return sorted(listed)


def decode_text(data: bytes) -> str:
    """Decode bytes as text. Raises NotRead if they are not text."""
    if b"\0" in data:
        raise NotRead("binary file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NotRead("not valid UTF-8") from None


def _read_all(fd: int, size: int, max_bytes: int) -> bytes:
    """Read a file, which may grow during the read."""
    data = bytearray()
    while max(size, len(data)) <= max_bytes and (piece := os.read(fd, _CHUNK_BYTES)):
        data += piece
    if max(size, len(data)) > max_bytes:
        raise NotRead(f"larger than {max_bytes:,} bytes")
    return bytes(data)


def _stat(within: int, name: str) -> os.stat_result:
    """Check a name before opening it: opening a device or a pipe can have side effects."""
    about = os.stat(name, dir_fd=within, follow_symlinks=False)
    if stat.S_ISLNK(about.st_mode):
        raise NotRead(IS_LINK)
    return about


def _entry_kind(entry: os.DirEntry[str]) -> Literal["folder", "file", "link", "other"]:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


@contextmanager
def _explain_errors() -> Generator[None]:
    try:
        yield
    except FileNotFoundError:
        raise Gone("not found") from None
    except OSError as error:
        raise NotRead(f"cannot be opened: {os.strerror(error.errno or 0).lower()}") from None
