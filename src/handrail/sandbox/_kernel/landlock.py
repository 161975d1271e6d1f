"""Landlock rules: which files a thread and its children can access."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from handrail.sandbox._kernel import syscalls
from handrail.sandbox._protected import folders_above, is_beneath
from handrail.sandbox._values import SandboxUnavailable

T = TypeVar("T")

MIN_VERSION: Final = 3
"""The first version with rules for truncation, which loses data like any write."""
_RUN: Final = 1 << 0
_READ: Final = 1 << 2
_REMOVE: Final = (1 << 4) | (1 << 5)
_REFER: Final = 1 << 13
_ON_FILES: Final = (1 << 0) | (1 << 1) | (1 << 2) | (1 << 14)
"""Execute, write, read, truncate: the rights possible in a single file's rule."""
_TCP: Final = 0b11
_SCOPED: Final = 0b11
"""Abstract sockets and signals."""
LIST: Final = 1 << 3
READ: Final = _RUN | _READ | LIST
WRITE: Final = -1
"""Every right a version supports."""
MAKE: Final = WRITE & ~(_RUN | _READ | _REMOVE | _REFER)
"""For a folder with hidden entries: nothing in it can be read, renamed or removed."""


def require_version(version: int) -> None:
    """Raise SandboxUnavailable if the kernel's Landlock is missing or too old."""
    if version < MIN_VERSION:
        raise SandboxUnavailable(
            "The kernel's Landlock is missing or too old: use Linux 6.2 or later."
        )


def rights_of(version: int) -> tuple[int, ...]:
    """Return the rights a version supports on files, TCP and signals."""
    devices, network, scopes = (version >= first for first in (5, 4, 6))
    files = (1 << (16 if devices else 15)) - 1
    return (files, *([_TCP] if network else []), *([_SCOPED] if scopes else []))


def make_ruleset(version: int, allowed: Iterable[tuple[str, int]]) -> int:
    """Make a ruleset from paths and rights. Missing paths are skipped."""
    known = rights_of(version)
    rules = syscalls.landlock_create_ruleset(known)
    every = known[0]
    for path, wanted in allowed:
        with suppress(OSError), _open_real(path) as fd:
            folder = stat.S_ISDIR(os.fstat(fd).st_mode)
            syscalls.landlock_allow(rules, fd, wanted & every & (-1 if folder else _ON_FILES))
    return rules


def ruleset_key(hidden: Sequence[str], written: Iterable[str]) -> tuple[object, ...]:
    """Return a value changing whenever the rules must change."""
    split = dict.fromkeys(folder for path in hidden for folder in folders_above(path))
    folders = [os.lstat(path) for path in split]
    changes = [(folder.st_dev, folder.st_ino, folder.st_mtime_ns) for folder in folders]
    return *hidden, *changes, *map(_identity, written)


@contextmanager
def _open_real(path: str) -> Generator[int]:
    """Open a real path. Raises OSError if a link has replaced a part."""
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if str(Path(f"/proc/self/fd/{fd}").readlink()) != path:
            raise NotADirectoryError(path)
        yield fd
    finally:
        os.close(fd)


def paths_except(hidden: Sequence[str], top: str = "/") -> list[str]:
    """Return paths together covering everything under `top` except the hidden paths.

    A rule applies to everything under its path. If a folder contains a hidden path, its other
    entries get the rule instead.
    """
    if any(path != top and is_beneath(path, top) for path in hidden):
        return [path for entry in Path(top).iterdir() for path in paths_except(hidden, str(entry))]
    # by identity, not by name: a file may have several names
    return [] if _identity(top) in [_identity(path) for path in hidden] else [top]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        about = os.lstat(path)
    except OSError:
        return None
    return about.st_dev, about.st_ino


def run_restricted(work: Callable[[], T], rules: Sequence[int], program: bytes) -> T:
    """Run work on a permanently restricted separate thread, and wait for its end.

    Processes it starts inherit the restrictions, so no code has to run between fork and exec.
    """
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            syscalls.forbid_new_privileges()
            syscalls.drop_capabilities()
            for ruleset in rules:
                syscalls.landlock_restrict(ruleset)
            syscalls.install_filter(program)
            done.append(work())
        except BaseException as error:  # noqa: BLE001  raised in the calling thread
            failed.append(error)

    thread = threading.Thread(target=run, name="handrail-restricted")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]
