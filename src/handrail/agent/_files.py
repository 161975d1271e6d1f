"""Files that come from anybody: found beneath a folder, no link followed, all of it bounded.

Each step of a path is opened beneath the one before, so that nothing that is moved meanwhile leads
out. This needs nothing but the standard library, and no more than reading.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

Trusted: TypeAlias = Callable[[str, bytes], bool]
"""Whether a user has looked at this content of this path (relative to the workspace)."""
Place: TypeAlias = str | os.PathLike[str]
Rule: TypeAlias = Literal["untrusted", "left out", "lenient", "shadowed", "unseen", "escaped"]

MOST_NAMES = 10_000
"""Names in one folder; of a fuller one nothing is looked at."""
MOST_PATH = 300
"""Characters of a path that are shown."""
LINK = "it is a link, and links are not followed"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing to tell whoever runs the program: about which file, of which kind, what."""

    path: str
    rule: Rule
    message: str


@dataclass(frozen=True, slots=True)
class Untrusted:
    """What is there and was not read into a prompt: to be shown to a user, then trusted or not."""

    path: str
    """Relative to the workspace."""
    content: bytes
    """Exactly what trust is asked for."""


class NotRead(Exception):
    """Why a file or a folder is left out, in words."""


class Gone(NotRead):
    """It is left out, since it is not there."""


class Entry(NamedTuple):
    """A name in a folder."""

    name: str
    kind: Literal["folder", "file", "link", "other"]


def nobody(path: str, content: bytes) -> bool:  # noqa: ARG001  the shape of Trusted
    """Trusts nothing."""
    return False


def agreed(trusted: Trusted, path: str, content: bytes) -> bool:
    """Whether the answer is a plain yes; a coroutine of somebody's async function is none."""
    return trusted(path, content) is True


@contextmanager
def folder(root: Place, path: str = "") -> Generator[int]:
    """A folder beneath a root, open. Raises NotRead where there is none."""
    with _in_words():
        fd = os.open(os.path.realpath(root), _FOLDER)
    try:
        for step in filter(None, path.split("/")):
            above, fd = fd, _step(fd, step)
            os.close(above)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def below(within: int, name: str) -> Generator[int]:
    """A folder in a folder, open. Raises as ``folder`` does."""
    fd = _step(within, name)
    try:
        yield fd
    finally:
        os.close(fd)


def _step(within: int, name: str) -> int:
    with _in_words():
        _looked_at(within, name)
        return os.open(name, _FOLDER, dir_fd=within)


def content(within: int, name: str, most: int) -> bytes:
    """An ordinary file, whole. Raises NotRead."""
    with _in_words():
        about = _looked_at(within, name)
        if not stat.S_ISREG(about.st_mode):
            raise NotRead("it is no ordinary file")
        fd = os.open(name, _FILE, dir_fd=within)
        try:
            return _whole(fd, about.st_size, most)
        finally:
            os.close(fd)


def listing(within: int) -> list[Entry]:
    """What is in a folder, by name. Raises NotRead where that is too much."""
    with _in_words(), os.scandir(within) as found:
        entries = [Entry(one.name, _kind(one)) for one in islice(found, MOST_NAMES + 1)]
    if len(entries) > MOST_NAMES:
        raise NotRead(f"it has more than {MOST_NAMES:,} names in it")
    return sorted(entries)


def text_of(data: bytes) -> str:
    """Bytes as text. Raises NotRead where they are none."""
    if b"\0" in data:
        raise NotRead("it is no text")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NotRead("it is not UTF-8") from None


def _whole(fd: int, size: int, most: int) -> bytes:
    """What is in a file, which may grow while it is read."""
    data = bytearray()
    while max(size, len(data)) <= most and (piece := os.read(fd, _PIECE)):
        data += piece
    if max(size, len(data)) > most:
        raise NotRead(f"it has more than {most:,} bytes")
    return bytes(data)


def _looked_at(within: int, name: str) -> os.stat_result:
    """What is there, before it is opened: opening a device or a pipe can do harm."""
    about = os.stat(name, dir_fd=within, follow_symlinks=False)
    if stat.S_ISLNK(about.st_mode):
        raise NotRead(LINK)
    return about


def _kind(entry: os.DirEntry[str]) -> Literal["folder", "file", "link", "other"]:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


@contextmanager
def _in_words() -> Generator[None]:
    try:
        yield
    except FileNotFoundError:
        raise Gone("it is not there") from None
    except OSError as error:
        raise NotRead(f"it cannot be opened: {os.strerror(error.errno or 0).lower()}") from None
