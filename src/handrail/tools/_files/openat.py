"""Open paths inside a directory and nowhere else: with openat2, or one component at a time.

Both functions follow links that stay inside and refuse links that leave, absolute links included.
They return a descriptor only naming a path (``O_PATH``); the caller checks its type.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeAlias

Opener: TypeAlias = Callable[[int, str], int]
"""Opens a path relative to a directory's descriptor, and returns a descriptor naming it."""

NAMES = os.O_PATH | os.O_CLOEXEC
_OPENAT2 = 437
"""The same number on every architecture."""
_BENEATH_WITHOUT_MAGIC = 0x08 | 0x02  # a compared path can change before it is opened: decision 024
_EXCHANGE = 2
_MAX_TRIES = 64
_MAX_LINKS = 40


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_libc = ctypes.CDLL(None, use_errno=True)


def open_by_kernel(root: int, path: str) -> int:
    """Open a path with openat2: the kernel refuses every step out of the directory."""
    _check_relative(path)
    name = os.fsencode(path)
    how = _OpenHow(NAMES, 0, _BENEATH_WITHOUT_MAGIC)
    # a concurrent rename can make the kernel fail; a second attempt usually succeeds
    code, tries = errno.EAGAIN, 0
    while code in (errno.EAGAIN, errno.EINTR) and tries < _MAX_TRIES:
        found: int = _libc.syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(root),
            ctypes.c_char_p(name),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if found >= 0:
            return found
        code, tries = ctypes.get_errno(), tries + 1
    raise OSError(code, os.strerror(code), path)


def _check_relative(path: str) -> None:
    if "\0" in path:  # C would stop reading there and open another path
        raise ValueError("A path cannot contain a NUL character.")
    if path.startswith("/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)


def open_by_walk(root: int, path: str) -> int:
    """Open a path one component at a time, and resolve links here, not in the kernel."""
    _check_relative(path)
    steps = deque(path.split("/"))
    opened = [os.open(".", NAMES, dir_fd=root)]
    links = 0
    try:
        while steps:
            step = steps.popleft()
            if step == "..":
                _step_back(opened, path)
            elif step not in ("", "."):
                target = _step_forward(opened, step)
                if target is not None:
                    links += 1
                    _check_link(target, links, path)
                    steps.extendleft(reversed(target.split("/")))
            elif not stat.S_ISDIR(os.fstat(opened[-1]).st_mode):  # "file/" and "file/." are errors
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return opened.pop()
    finally:
        for fd in opened:
            os.close(fd)


def _step_back(opened: list[int], path: str) -> None:
    if len(opened) == 1:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    mode = os.fstat(opened[-1]).st_mode
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    os.close(opened.pop())


def _step_forward(opened: list[int], step: str) -> str | None:
    """Open the next component. If it is a link, do not enter it, and return its target."""
    fd = os.open(step, NAMES | os.O_NOFOLLOW, dir_fd=opened[-1])
    if not stat.S_ISLNK(os.fstat(fd).st_mode):
        opened.append(fd)
        return None
    try:
        return os.readlink("", dir_fd=fd)
    finally:
        os.close(fd)


def _check_link(target: str, links: int, path: str) -> None:
    code = errno.EXDEV if target.startswith("/") else errno.ELOOP
    if code == errno.EXDEV or links > _MAX_LINKS:
        raise OSError(code, os.strerror(code), path)


def exchange(folder: int, first: str, second: str) -> None:
    """Swap two files in a folder atomically. Raises OSError if the file system cannot."""
    names = os.fsencode(first), os.fsencode(second)
    if _libc.renameat2(folder, names[0], folder, names[1], ctypes.c_uint(_EXCHANGE)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), second)


def descriptor_path(fd: int) -> str:
    """Return an open descriptor's current path, with links resolved."""
    return str(Path(f"/proc/self/fd/{fd}").readlink())


@cache
def best_opener() -> Opener:
    """Return ``open_by_kernel`` if openat2 is available, and ``open_by_walk`` otherwise."""
    return open_by_kernel if works(open_by_kernel) else open_by_walk


def works(opener: Opener) -> bool:
    """Return whether an opener works on this system."""
    root = os.open("/", NAMES | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            os.close(opener(root, "."))
            return True
        return False
    finally:
        os.close(root)
