"""Names in a workspace that are there only because commands run in it.

They are listed in a file outside, whose lock each command holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from handrail._support.private_files import read_file
from handrail.sandbox._values import TMP


# a mount needs a mount point, and all else that was tried fails: decision 105
def find_placeholders(root: str | os.PathLike[str]) -> frozenset[str]:
    """Return the names in a workspace that are there only because commands run in it.

    They are empty folders. Programs need not show them, or complain about them.
    """
    try:
        text = read_file(Path(folder_of_locks(), name_lock(root)))
    except OSError:  # no command runs
        return frozenset()
    return frozenset(name for name in parse_names(text) if _is_empty(f"{root}/{name}"))


def has_list(root: str) -> bool:
    """Return whether commands run in a workspace, or a killed process left names in it."""
    return os.path.exists(f"{folder_of_locks()}/{name_lock(root)}")  # noqa: PTH110


def _is_empty(path: str) -> bool:
    """Return whether a path is an empty folder."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def parse_names(text: bytes) -> Iterator[str]:
    """Return the names in a list."""
    return (
        name
        for name in dict.fromkeys(text.decode(errors="replace").splitlines())
        if not name.startswith("/") and ".." not in name.split("/")
    )


def name_lock(root: str | os.PathLike[str]) -> str:
    """Return the name of a workspace's list."""
    about = os.lstat(root)
    return f"{about.st_dev:x}-{about.st_ino:x}"


def folder_of_locks() -> str:
    """Return the folder with this user's lists. It may be missing, or not safe to write."""
    user = os.geteuid() if hasattr(os, "geteuid") else "user"
    return f"{TMP}/handrail-{user}"
