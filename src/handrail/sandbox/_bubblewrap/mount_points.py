"""Folders and files standing in for missing protected names while commands run.

A mount needs a mount point. The folders bubblewrap creates for it are removed again when no process
runs a command in the workspace. Removing one earlier would remove a running command's mount. Each
command holds a shared lock. A command getting the lock exclusively removes everything listed in it,
so the next command cleans up after a crash.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from handrail import ToolFailed
from handrail._support.git_settings import COMMONDIR_PLACEHOLDER
from handrail._support.loop import in_event_loop
from handrail._support.private_files import MAX_LOCK_SECONDS, MAX_LOOP_SECONDS, take_lock
from handrail.sandbox._bubblewrap.placeholders import folder_of_locks, name_lock, parse_names
from handrail.sandbox._values import SandboxUnavailable

_FILE = "\tfile"
"""Marks a file name in the list."""
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_RUN = (
    "Not run: other commands run in the workspace, and could then change .git/config too. Stop "
    "them first, or wait for them."
)


class MountPoints:
    """One command's lock."""

    def __init__(self, root: str, *, is_alone: bool = False) -> None:
        """Lock. With ``is_alone``, no other command runs until it is released.

        A file that is replaced ends the mounts of other commands at its place.
        """
        self._root = root
        self._path = f"{_lock_folder()}/{name_lock(root)}"
        self._lock = self._acquire(is_alone=is_alone)

    def _acquire(self, *, is_alone: bool) -> int:
        """Acquire the lock. Repeat if the file was removed before it was locked."""
        while True:
            lock = os.open(self._path, _OPEN, 0o600)
            seconds = MAX_LOOP_SECONDS if in_event_loop() else MAX_LOCK_SECONDS
            try:
                take_lock(
                    lock, self._path, seconds=0.0 if is_alone else seconds, shared=not is_alone
                )
            except TimeoutError as error:
                os.close(lock)
                if is_alone:
                    raise ToolFailed(_OTHERS_RUN) from None
                raise SandboxUnavailable(f"{self._path}: {error.strerror}.") from None
            if os.fstat(lock).st_nlink:
                return lock
            os.close(lock)

    def note(self, folders: Sequence[str], files: Sequence[str] = ()) -> None:
        """Record the folders bubblewrap is going to create, and create the files."""
        if folders or files:
            os.lseek(self._lock, 0, os.SEEK_END)
            lines = [*(f"{name}\n" for name in folders), *(f"{name}{_FILE}\n" for name in files)]
            os.write(self._lock, "".join(lines).encode())
        for name in files:
            with contextlib.suppress(FileExistsError):  # from a command starting at the same time
                _make_placeholder(f"{self._root}/{name}")

    def release(self, removed: Sequence[str] = ()) -> None:
        """Release the lock. If no other command holds it, remove the folders and files.

        ``removed`` are names removed in any case.
        """
        for name in removed:
            with contextlib.suppress(OSError):  # it is not there, as usual
                os.unlink(f"{self._root}/{name}")  # noqa: PTH108  after every command
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            self._remove_points()
        finally:
            os.close(self._lock)

    def _remove_points(self) -> None:
        if not os.fstat(self._lock).st_nlink:
            return  # another command has removed them
        for name in parse_names(os.pread(self._lock, 1 << 20, 0)):
            path = f"{self._root}/{name.removesuffix(_FILE)}"
            with contextlib.suppress(OSError):  # not empty, not a folder, or removed: not ours
                if not name.endswith(_FILE):
                    os.rmdir(path)  # noqa: PTH106  after every command
                elif _is_placeholder(path):
                    os.unlink(path)  # noqa: PTH108
        Path(self._path).unlink()


def remove_leftovers(root: str) -> None:
    """Remove what a killed process left in a workspace, unless a command runs there."""
    with contextlib.suppress(SandboxUnavailable):  # the first command says why
        MountPoints(root).release()


def _make_placeholder(path: str) -> None:
    """Create a file. Other users who share the repository must be able to read it."""
    fd = os.open(path, _OPEN | os.O_EXCL, 0o644)
    try:
        os.write(fd, _content_of(path))
    finally:
        os.close(fd)


def _is_placeholder(path: str) -> bool:
    """Return whether a file is unchanged since. Its content may be missing after a crash."""
    size, content = os.lstat(path).st_size, _content_of(path)
    return not size or (size == len(content) and Path(path).read_bytes() == content)


def _content_of(path: str) -> bytes:
    """Return a placeholder's content. Git fails on a `commondir` without one."""
    return COMMONDIR_PLACEHOLDER.encode() if path.endswith("/commondir") else b""


def _lock_folder() -> str:
    """Return a folder for locks only this user can enter."""
    path = folder_of_locks()  # checked before it is used
    with contextlib.suppress(FileExistsError):
        Path(path).mkdir(0o700)
    about = os.lstat(path)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise SandboxUnavailable(
            f"{path} must be a folder that only this user can enter. Remove it, then retry."
        )
    return path
