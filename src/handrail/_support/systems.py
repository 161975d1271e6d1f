"""Where Linux, macOS and Windows differ: flags to open files, locks, owners, home folders."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl
    import pwd


def _flag(name: str) -> int:
    """Return a flag of ``os.open``, or 0 on systems without it."""
    return int(getattr(os, name, 0))


NO_FOLLOW = _flag("O_NOFOLLOW")
"""Opens no link. 0 on Windows, which has no such flag."""
CLOSE_ON_EXEC = _flag("O_CLOEXEC") | _flag("O_BINARY")
"""For every file: child processes do not inherit it, and Windows leaves its line ends alone."""
READ = os.O_RDONLY | CLOSE_ON_EXEC | _flag("O_NONBLOCK")
"""Opens a file of any kind for reading, without waiting."""
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def lock(handle: int, *, shared: bool = False) -> None:
    """Lock an open file. Raises BlockingIOError if another program has locked it.

    On Windows, every lock is exclusive.
    """
    if sys.platform == "win32":
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(*error.args) from None
    else:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def others_can_write(about: os.stat_result) -> bool:
    """Return whether users other than this one and root can write to a file or folder.

    Windows does not report this in a mode. There, it is False: keep files in the user's folders.
    """
    if sys.platform == "win32":
        return False
    return bool(about.st_mode & OTHERS_MAY_WRITE) or about.st_uid not in (0, os.geteuid())


def find_user() -> str:
    """Return the user's login name, or their number if the system has no name."""
    if sys.platform == "win32":
        return os.environ.get("USERNAME", "")
    names = (user.pw_name for user in pwd.getpwall() if user.pw_uid == os.getuid())
    return next(names, str(os.getuid()))


def find_home() -> Path:
    """Return the user's home folder. A relative one is ignored: a workspace could choose it.

    Raises KeyError or RuntimeError if the system does not know this user.
    """
    given = Path.home()
    if given.is_absolute():
        return given
    if sys.platform == "win32":
        raise RuntimeError("the home folder is not absolute")
    return Path(pwd.getpwuid(os.getuid()).pw_dir)
