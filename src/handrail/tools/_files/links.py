"""Resolves links in paths the way the kernel does, with the same limits."""

from __future__ import annotations

import os
from contextlib import suppress

from handrail.tools._files.openat import NAMES, descriptor_path

_MAX_LINKS = 40
"""The kernel's own limit."""
_MAX_PATH_BYTES = 4_095
_PER_PROCESS = "/proc/"
"""Links there resolve differently for each process."""


def resolve_existing(path: str, *, flags: int = 0) -> str | None:
    """Return an existing file's or folder's real path; None if it cannot be opened."""
    with suppress(OSError):
        fd = os.open(path, NAMES | flags)
        try:
            return descriptor_path(fd)
        finally:
            os.close(fd)
    return None


def follow_links(path: str) -> str | None:
    """Return where an absolute path leads, existing or not; None if it has too many links."""
    missing = ""
    for _ in range(_MAX_LINKS):
        if len(os.fsencode(path)) > _MAX_PATH_BYTES:
            break
        if os.path.normpath(path).startswith(_PER_PROCESS):
            return path
        folder, _, name = path.rpartition("/")
        try:
            path = os.path.join(folder or "/", os.readlink(path))  # noqa: PTH115, PTH118
        except OSError:  # not a link
            if (existing := resolve_existing(path)) is not None:
                return os.path.normpath("/" + (existing + missing).lstrip("/"))
            path, missing = folder or "/", f"/{name}{missing}"
    return None
