"""Find other names for workspace files."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TypeVar

from handrail.policy._decisions.workspace_files import MAX_ENTRIES

T = TypeVar("T")


def find_hard_links(root: str, files: Mapping[str, T]) -> dict[str, T]:
    """Return other names (hard links) for workspace files, each with its file's value."""
    linked: dict[tuple[int, int], T] = {}
    for path, value in files.items():
        if about := _stat_linked(f"{root}/{path}"):
            linked[about.st_dev, about.st_ino] = value
    if not linked:
        return {}
    inodes, found = {inode for _, inode in linked}, dict[str, T]()
    for path in _names_with(root, inodes):
        about = _stat_linked(f"{root}/{path}")
        if about and (about.st_dev, about.st_ino) in linked and path not in files:
            found[path] = linked[about.st_dev, about.st_ino]
    return found


def _stat_linked(path: str) -> os.stat_result | None:
    """Return file status for a file with several names, or None for other files."""
    try:
        about = os.stat(path)  # noqa: PTH116  there are many
    except OSError:
        return None
    return about if about.st_nlink > 1 and not os.path.isdir(path) else None  # noqa: PTH112


def _names_with(root: str, inodes: set[int]) -> Iterator[str]:
    """Yield workspace files with one of these inodes, but not all if it has too many."""
    count, waiting = 0, deque([""])
    while waiting and count <= MAX_ENTRIES:
        above = waiting.popleft()
        try:
            with os.scandir(f"{root}/{above}") as scanned:
                entries = list(scanned)
        except OSError:
            continue
        count += len(entries)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{above}{entry.name}/")
            elif entry.inode() in inodes:
                yield f"{above}{entry.name}"
