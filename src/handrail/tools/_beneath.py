"""Opening what lies beneath a directory and nothing else: by the kernel's rule, or step by step.

Both ways follow links that stay inside, and refuse those that leave, absolute ones included. What
they give is a descriptor that only names a place (``O_PATH``); the caller looks at what it is.
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
from typing import TypeAlias

Opener: TypeAlias = Callable[[int, str], int]
"""From a directory's descriptor and a relative path to a descriptor that names what is there."""

NAMES = os.O_PATH | os.O_CLOEXEC
_OPENAT2 = 437
"""The same number on every architecture."""
_BENEATH_WITHOUT_MAGIC = 0x08 | 0x02
_EXCHANGE = 2
_TRIES = 64
_MOST_LINKS = 40


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_libc = ctypes.CDLL(None, use_errno=True)


def by_kernel(root: int, path: str) -> int:
    """Open by openat2: the kernel itself refuses every step that would leave."""
    _is_relative(path)
    name = os.fsencode(path)
    how = _How(NAMES, 0, _BENEATH_WITHOUT_MAGIC)
    tries = 0
    while True:
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
        # a rename nearby makes the kernel unsure, and worth asking again
        if code not in (errno.EAGAIN, errno.EINTR) or tries == _TRIES:
            raise OSError(code, os.strerror(code), path)


def _is_relative(path: str) -> None:
    if "\0" in path:  # C would read as far as there, and open something else
        raise ValueError("a path has no NUL in it")
    if path.startswith("/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)


def by_walk(root: int, path: str) -> int:
    """Open step by step, each step beneath the one before, links read and never followed."""
    _is_relative(path)
    steps = deque(path.split("/"))
    way = [os.open(".", NAMES, dir_fd=root)]
    links = 0
    try:
        while steps:
            step = steps.popleft()
            if step == "..":
                _back(way, path)
            elif step not in ("", "."):
                target = _forward(way, step)
                if target is not None:
                    links += 1
                    _stays(target, links, path)
                    steps.extendleft(reversed(target.split("/")))
            elif not stat.S_ISDIR(os.fstat(way[-1]).st_mode):  # "file/" and "file/." are no files
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return way.pop()
    finally:
        for fd in way:
            os.close(fd)


def _back(way: list[int], path: str) -> None:
    if len(way) == 1:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    here = os.fstat(way[-1]).st_mode
    if not stat.S_ISDIR(here):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    os.close(way.pop())


def _forward(way: list[int], step: str) -> str | None:
    """Go one step on; where that is a link, stay and tell where it leads."""
    fd = os.open(step, NAMES | os.O_NOFOLLOW, dir_fd=way[-1])
    if not stat.S_ISLNK(os.fstat(fd).st_mode):
        way.append(fd)
        return None
    try:
        return os.readlink("", dir_fd=fd)
    finally:
        os.close(fd)


def _stays(target: str, links: int, path: str) -> None:
    code = errno.EXDEV if target.startswith("/") else errno.ELOOP
    if code == errno.EXDEV or links > _MOST_LINKS:
        raise OSError(code, os.strerror(code), path)


def exchange(folder: int, one: str, other: str) -> None:
    """Let two files of a folder change places, at once. Not every file system can: OSError."""
    names = os.fsencode(one), os.fsencode(other)
    if _libc.renameat2(folder, names[0], folder, names[1], ctypes.c_uint(_EXCHANGE)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), other)


@cache
def best_opener() -> Opener:
    """The kernel's way where this kernel has it and may be asked; else step by step."""
    return by_kernel if works(by_kernel) else by_walk


def works(opener: Opener) -> bool:
    """Whether a way of opening can be used here."""
    root = os.open("/", NAMES | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            os.close(opener(root, "."))
            return True
        return False
    finally:
        os.close(root)
