"""Where a path leads: links are followed as the kernel does it, and no further."""

from __future__ import annotations

import os
from contextlib import suppress

from handrail.tools._beneath import NAMES

_MOST_STEPS = 40
"""As many links as the kernel follows."""
_LONGEST = 4_095
_OF_EACH = "/proc/"
"""Links there lead each program to another place."""


def real(path: str, *, flags: int = 0) -> str | None:
    """The path of what is there, without links; None where nothing is, or it cannot be told."""
    with suppress(OSError):
        fd = os.open(path, NAMES | flags)
        try:
            return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115  no path, but a descriptor
        finally:
            os.close(fd)
    return None


def leads(path: str) -> str | None:
    """Where an absolute path leads, also if nothing is there yet; None where it is a maze."""
    missing = ""
    for _ in range(_MOST_STEPS):
        if len(os.fsencode(path)) > _LONGEST:
            break
        if os.path.normpath(path).startswith(_OF_EACH):
            return path
        folder, _, name = path.rpartition("/")
        try:
            path = os.path.join(folder or "/", os.readlink(path))  # noqa: PTH115, PTH118
        except OSError:  # no link
            if (found := real(path)) is not None:
                return os.path.normpath("/" + (found + missing).lstrip("/"))
            path, missing = folder or "/", f"/{name}{missing}"
    return None
