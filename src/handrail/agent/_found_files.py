"""Read files handrail does not trust: inside a folder, with size limits.

Links are resolved first. Then each folder of a path is opened relative to its parent and without
following links, so a concurrent rename cannot lead outside. The module only reads, and uses only
the standard library.
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
"""Whether the user trusts this path's content (relative to the workspace)."""
AnyPath: TypeAlias = str | os.PathLike[str]
NoticeKind: TypeAlias = Literal[
    "untrusted", "skipped", "lenient", "shadowed", "invisible", "escaped"
]
EntryKind: TypeAlias = Literal["folder", "file", "other", "outside"]
"""An entry's kind. A link has its target's kind, or ``outside`` if it is not followed."""
Field: TypeAlias = "str | tuple[Field, ...] | Mapping[str, Field]"
"""A value of front matter: text, a list or a map."""

MAX_NAMES = 10_000
"""Entries in one folder. A folder with more entries is skipped."""
MAX_PATH_CHARS = 300
"""Path characters in messages."""
LEADS_OUTSIDE = "the link leads outside the workspace"
NOT_TRUSTED = "ignored: not trusted, or changed since you trusted it"
HAS_TAGS = "contains tags that handrail uses itself; they are escaped"

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Notice:
    """A message for the user about a loaded or skipped file."""

    path: str
    kind: NoticeKind
    message: str


@dataclass(frozen=True, slots=True)
class Untrusted:
    """A file or a skill ignored because the user has not trusted it."""

    path: str
    """Relative to the workspace."""
    content: bytes
    """The exact content to trust. Show it to the user first."""


class NotRead(Exception):
    """A file or a folder is skipped. The message says why."""


class Gone(NotRead):
    """A file or a folder does not exist."""


class FolderEntry(NamedTuple):
    """A folder entry."""

    name: str
    kind: EntryKind


def trust_nothing(_path: str, _content: bytes) -> bool:
    """Trust no file."""
    return False


def is_trusted(trusted: IsTrusted, path: str, content: bytes) -> bool:
    """Whether the answer is exactly True. A coroutine, as an async function returns, is not."""
    return trusted(path, content) is True


@dataclass(frozen=True, slots=True)
class FolderReader:
    """Reads files in a folder. All paths are relative to it.

    Links are followed if they lead to something inside, or with ``follows_all`` anywhere.
    """

    root: str
    """The folder's real path, without a slash at its end."""
    follows_all: bool = False

    def read(self, path: str, max_bytes: int) -> bytes:
        """Read a whole regular file. Raises NotRead."""
        root, inner = self._resolve(path)
        parent, _, name = inner.rpartition("/")
        with _open_folder(root, parent) as within:
            return _read_file(within, name, max_bytes)

    def list_folder(self, path: str) -> list[FolderEntry]:
        """List a folder, sorted by name. Raises NotRead if it has too many entries."""
        found: list[FolderEntry] = []
        root, inner = self._resolve(path)
        with _open_folder(root, inner) as within, _explain_errors(), os.scandir(within) as entries:
            for entry in islice(entries, MAX_NAMES + 1):
                kind = _entry_kind(entry) or self._target_kind(f"{path}/{entry.name}")
                found.append(FolderEntry(entry.name, kind))
        if len(found) > MAX_NAMES:
            raise NotRead(f"the folder has more than {MAX_NAMES:,} entries")
        return sorted(found)

    def locate(self, path: str) -> str:
        """Return a file's or folder's absolute path, without links. Raises NotRead."""
        return "/".join(self._resolve(path)).rstrip("/") or "/"

    def resolve_links(self, path: str) -> str:
        """Return a path without links, if it leads to something inside; otherwise unchanged."""
        try:
            return self._resolve(path)[1] if not self.follows_all else path
        except NotRead:
            return path

    def _resolve(self, path: str) -> tuple[str, str]:
        """Return a folder, and a path in it without links. Raises NotRead."""
        spelled = f"{self.root}/{path}".rstrip("/") or "/"
        with _explain_errors():
            if os.path.islink(spelled) and not os.path.exists(spelled):  # noqa: PTH110, PTH114
                raise NotRead("the link leads to nothing")
            real = os.path.realpath(spelled, strict=True)
        if f"{real}/".startswith(f"{self.root}/"):
            return self.root, real[len(self.root) + 1 :]
        if not self.follows_all:
            raise NotRead(LEADS_OUTSIDE)
        parent, _, name = real.rpartition("/")
        return parent, name

    def _target_kind(self, path: str) -> EntryKind:
        try:
            mode = os.stat(self.locate(path)).st_mode  # noqa: PTH116
        except (NotRead, OSError):
            return "outside"
        if stat.S_ISDIR(mode):
            return "folder"
        return "file" if stat.S_ISREG(mode) else "other"


@contextmanager
def _open_folder(root: str, path: str) -> Generator[int]:
    """Open a folder inside a root, without following links. Raises NotRead."""
    if not hasattr(os, "O_DIRECTORY"):
        raise NotRead("this system cannot open folders without following links")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with _explain_errors():
        fd = os.open(root or "/", flags)
    try:
        for step in filter(None, path.split("/")):
            with _explain_errors():
                parent, fd = fd, os.open(step, flags, dir_fd=fd)
            os.close(parent)
        yield fd
    finally:
        os.close(fd)


def _read_file(within: int, name: str, max_bytes: int) -> bytes:
    with _explain_errors():
        # opening a device or a pipe can have side effects
        about = os.stat(name, dir_fd=within, follow_symlinks=False)
        if not stat.S_ISREG(about.st_mode):
            raise NotRead("not a regular file")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        fd = os.open(name, flags, dir_fd=within)
        try:
            return _read_all(fd, about.st_size, max_bytes)
        finally:
            os.close(fd)


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


def _entry_kind(entry: os.DirEntry[str]) -> EntryKind | None:
    """Return an entry's kind; None for a link."""
    if entry.is_symlink():
        return None
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
