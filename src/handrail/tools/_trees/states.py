"""Reads what is at a path of a workspace. Follows no link, and waits for no pipe."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple, Self, TypeAlias

from handrail.tools._files.seen import digest
from handrail.tools._files.undo import FileState
from handrail.tools._files.workspace import Workspace

MAX_FILE_BYTES = 64 * 1024 * 1024
"""The largest file whose content is read."""
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Stamp: TypeAlias = tuple[int, int, int, int, int]
"""Changes whenever a file does: mode, size, two times and inode."""


class Content(NamedTuple):
    """The state of a path, with a file's bytes if they were read."""

    state: FileState
    data: bytes | None = None


def open_folder(workspace: Workspace, path: str, *, readable: bool = False) -> int:
    """Open a folder one step at a time. Raises OSError if a step is a link or not a folder."""
    fd = workspace.open(".")
    steps = [(step, _STEP) for step in path.split("/") if step]
    for step, flags in [*steps, *([(".", _READABLE)] if readable else [])]:
        above = fd
        try:
            fd = os.open(step, flags, dir_fd=above)
        finally:
            os.close(above)
    return fd


@contextmanager
def parent_of(
    workspace: Workspace, path: str, *, readable: bool = False
) -> Generator[tuple[int, str]]:
    """Open a path's folder, and give its descriptor and the name in it. Raises OSError."""
    folder, _, name = path.rpartition("/")
    fd = open_folder(workspace, folder, readable=readable)
    try:
        yield fd, name
    finally:
        os.close(fd)


def stamp_of(about: os.stat_result) -> Stamp:
    """Return a file's stamp."""
    return about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino


class LastFolder:
    """Reads files, and keeps the folder of the last one open for the next one."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._path = ""
        self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def read(self, path: str, about: os.stat_result, max_bytes: int = MAX_FILE_BYTES) -> Content:
        """Return what is at a path; a larger file is not read. Raises OSError."""
        if stat.S_ISDIR(about.st_mode):
            return _read_folder(about)
        folder, _, name = path.rpartition("/")
        if folder != self._path or self._fd < 0:
            self._close()
            self._fd, self._path = open_folder(self._workspace, folder), folder
        return read_content(self._fd, name, about, max_bytes)

    def read_or_identify(self, path: str, about: os.stat_result, max_bytes: int) -> Content:
        """Return what is at a path; a file that cannot be read is known by its stamp."""
        try:
            return self.read(path, about, min(max_bytes, MAX_FILE_BYTES))
        except OSError:
            return Content(FileState("file", stat.S_IMODE(about.st_mode), _identify(about)))

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_state(workspace: Workspace, path: str, like: FileState | None = None) -> FileState | None:
    """Return what is at a path; None if there is nothing.

    A file is known by its stamp, as in the state it is compared with, or by its content.
    """
    is_stamp = like is not None and like.kind == "file" and " " in like.content
    try:
        with parent_of(workspace, path) as (folder, name):
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            limit = -1 if is_stamp else MAX_FILE_BYTES
            return read_content(folder, name, about, limit).state
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_content(folder: int, name: str, about: os.stat_result, max_bytes: int) -> Content:
    """Return what has a name in a folder; a larger file is not read. Raises OSError."""
    mode = stat.S_IMODE(about.st_mode)
    if stat.S_ISDIR(about.st_mode):
        return _read_folder(about)
    if stat.S_ISLNK(about.st_mode):
        return Content(FileState("link", None, os.readlink(name, dir_fd=folder)))
    if not stat.S_ISREG(about.st_mode):
        return Content(FileState("other", mode, _identify(about)))
    if about.st_size > max_bytes:
        return Content(FileState("file", mode, _identify(about)))
    fd = os.open(name, _FILE, dir_fd=folder)
    try:
        with open(fd, "rb", closefd=False) as file:
            data = file.read(MAX_FILE_BYTES)
    finally:
        os.close(fd)
    return Content(FileState("file", mode, digest(data).hex()), data)


def _read_folder(about: os.stat_result) -> Content:
    return Content(FileState("folder", stat.S_IMODE(about.st_mode), ""))


def _identify(about: os.stat_result) -> str:
    """Return a text that changes whenever a file does whose content is not read."""
    return " ".join(map(str, (about.st_rdev, *stamp_of(about)[1:])))
