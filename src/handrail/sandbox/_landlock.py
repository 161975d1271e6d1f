"""What Landlock lets a thread and its children do with files: rules, and who lives by them."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from handrail.sandbox import _kernel as kernel
from handrail.sandbox._protected import beneath
from handrail.sandbox._words import Unavailable

T = TypeVar("T")

OLDEST: Final = 3
"""The first version that holds truncation, which loses data like any write."""
_RUN: Final = 1 << 0
_READ: Final = 1 << 2
_REMOVE: Final = (1 << 4) | (1 << 5)
_REFER: Final = 1 << 13
_ON_FILES: Final = (1 << 0) | (1 << 1) | (1 << 2) | (1 << 14)
"""Run, write, read, truncate: the rights that a rule for a single file may have."""
_TCP: Final = 0b11
_SCOPED: Final = 0b11
"""Abstract sockets and signals."""
LIST: Final = 1 << 3
READ: Final = _RUN | _READ | LIST
WRITE: Final = -1
"""Everything that a version knows."""
MAKE: Final = WRITE & ~(_RUN | _READ | _REMOVE | _REFER)
"""For a folder with something hidden in it: nothing there can be read, renamed or removed."""


def required(version: int) -> None:
    """Refuse a kernel that could hold too little."""
    if version < OLDEST:
        raise Unavailable("the kernel has no Landlock, or an old one. It needs Linux 6.2 or later.")


def handled(version: int) -> tuple[int, ...]:
    """All rights that a version knows, about files, TCP and signals: none is had without a rule."""
    devices, network, scopes = (version >= first for first in (5, 4, 6))
    files = (1 << (16 if devices else 15)) - 1
    return (files, *([_TCP] if network else []), *([_SCOPED] if scopes else []))


def ruleset(version: int, allowed: Iterable[tuple[str, int]]) -> int:
    """Rules by path; a path that is gone has none."""
    known = handled(version)
    rules = kernel.landlock_ruleset(known)
    every = known[0]
    for path, wanted in allowed:
        with suppress(OSError), _opened(path) as found:
            folder = stat.S_ISDIR(os.fstat(found).st_mode)
            kernel.landlock_allow(rules, found, wanted & every & (-1 if folder else _ON_FILES))
    return rules


def state(hidden: Sequence[str], written: Iterable[str]) -> tuple[object, ...]:
    """Equal as long as rules are: by the folders that are split around something hidden."""
    split = dict.fromkeys(one[:at] or "/" for one in hidden for at in _slashes(one))
    looked = [os.lstat(one) for one in split]
    changes = [(one.st_dev, one.st_ino, one.st_mtime_ns) for one in looked]
    return *hidden, *changes, *map(_identity, written)


def _slashes(path: str) -> list[int]:
    return [at for at, letter in enumerate(path) if letter == "/"]


@contextmanager
def _opened(path: str) -> Generator[int]:
    """What is at a real path, and not where a link leads that was put in its way."""
    found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.readlink(f"/proc/self/fd/{found}") != path:  # noqa: PTH115  a descriptor
            raise NotADirectoryError(path)
        yield found
    finally:
        os.close(found)


def all_but(hidden: Sequence[str], top: str = "/") -> list[str]:
    """Paths that together are everything beneath `top` but what is hidden.

    A rule holds for all that lies beneath it. So where something hidden lies beneath a folder,
    its other entries get the rule instead.
    """
    if any(one != top and beneath(one, top) for one in hidden):
        return [path for one in Path(top).iterdir() for path in all_but(hidden, str(one))]
    # by what it is, not by its name: a file may have several
    return [] if _identity(top) in [_identity(one) for one in hidden] else [top]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        about = os.lstat(path)
    except OSError:
        return None
    return about.st_dev, about.st_ino


def restricted(work: Callable[[], T], rules: Sequence[int], program: bytes) -> T:
    """Do work on a thread of its own, which nothing can free again, and end with it.

    What it starts inherits the restrictions: no code of ours has to run between fork and exec.
    """
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            kernel.no_new_privileges()
            kernel.no_capabilities()
            for one in rules:
                kernel.landlock_restrict(one)
            kernel.seccomp(program)
            done.append(work())
        except BaseException as error:  # noqa: BLE001  raised where it was asked for
            failed.append(error)

    thread = threading.Thread(target=run, name="handrail-restricted")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]
