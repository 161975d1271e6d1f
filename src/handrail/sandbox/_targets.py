"""The empty folders that held names need on the host while commands run.

A mount needs something to be mounted on. What bubblewrap makes for that is removed again, but
only when no command of any process is left in the workspace: removing it would take the mount
away from whoever still has it. A shared lock for each command tells; whoever gets the lock alone
removes what is written in it, so what a crash left behind goes with the next command.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence

from handrail.sandbox._protected import HELD, IN_GIT
from handrail.sandbox._words import Unavailable

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Targets:
    """The lock of one command."""

    def __init__(self, root: str) -> None:
        self._root = root
        about = os.lstat(root)
        self._path = f"{_private()}/{about.st_dev:x}-{about.st_ino:x}"
        self._lock = self._take()

    def _take(self) -> int:
        """Share the lock; again if it was removed between opening and locking."""
        while True:
            lock = os.open(self._path, _OPEN, 0o600)
            fcntl.flock(lock, fcntl.LOCK_SH)
            if os.fstat(lock).st_nlink:
                return lock
            os.close(lock)

    def note(self, names: Sequence[str]) -> None:
        """Write down what bubblewrap is going to make."""
        if names:
            os.lseek(self._lock, 0, os.SEEK_END)
            os.write(self._lock, "".join(f"{name}\n" for name in names).encode())

    def release(self) -> None:
        """Give the lock up; if nobody else has it, leave the workspace as it was."""
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            self._clear()
        finally:
            os.close(self._lock)

    def _clear(self) -> None:
        if not os.fstat(self._lock).st_nlink:
            return  # another was last, and has done it
        for name in self._noted():
            with contextlib.suppress(OSError):  # not empty, no folder, or gone: not ours any more
                os.rmdir(f"{self._root}/{name}")  # noqa: PTH106  a path object costs more than it
        os.unlink(self._path)  # noqa: PTH108

    def _noted(self) -> Iterator[str]:
        text = os.pread(self._lock, 1 << 20, 0).decode(errors="replace")
        return (name for name in dict.fromkeys(text.splitlines()) if name in (*HELD, *IN_GIT))


def _private() -> str:
    """A folder for locks that is this user's alone."""
    path = f"/tmp/handrail-{os.geteuid()}"  # noqa: S108  looked at before it is used
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)  # noqa: PTH102
    about = os.lstat(path)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise Unavailable(f"{path} has to be a folder that this user alone can enter. Remove it.")
    return path
