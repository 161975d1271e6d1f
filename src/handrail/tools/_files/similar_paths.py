"""Finds the paths a model may have meant by a path that does not exist."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice, takewhile
from typing import NamedTuple, TypeAlias

_MAX_PATHS = 3
_MAX_CANDIDATES = 20
_MAX_ENTRIES = 20_000
"""Entries of folders searched for the same name."""
_SKIPPED = frozenset("node_modules site-packages __pycache__ venv".split())
"""Dependencies' folders and copies. Those with a leading dot are skipped, too."""


class FolderEntry(NamedTuple):
    """A name in a folder."""

    name: str
    is_folder: bool


ListFolder: TypeAlias = Callable[[str], list[FolderEntry]]
"""Lists a folder by its path in the workspace; the root has an empty path."""


def find_similar(path: str, list_folder: ListFolder, is_hidden: Callable[[str], bool]) -> list[str]:
    """Return up to three existing paths: the same name elsewhere, or a similar name beside it."""
    folder, _, name = os.path.normpath(path).rpartition("/")
    names = [entry.name for entry in list_folder(folder) if entry.name != name]

    def choose(paths: Iterable[str]) -> list[str]:
        return list(islice((path for path in paths if not is_hidden(path)), _MAX_PATHS))

    return (
        choose(_find_elsewhere(folder, name, list_folder))
        or choose(_join(folder, other) for other in names if other.lower() == name.lower())
        or choose(_join(folder, other) for other in get_close_matches(name, names, _MAX_CANDIDATES))
    )


def _find_elsewhere(folder: str, name: str, list_folder: ListFolder) -> list[str]:
    """Return the paths with the same name that share most wanted folders."""
    wanted = folder.split("/")[::-1]

    def count_shared(path: str) -> int:
        steps = path.split("/")[-2::-1]
        shared = takewhile(lambda pair: pair[0] == pair[1], zip(wanted, steps, strict=False))
        return len(list(shared))

    same = [other for other in _walk(name, list_folder) if other != _join(folder, name)]
    most = max(map(count_shared, same), default=0)
    best = [other for other in same if count_shared(other) == most]
    return sorted(best, key=lambda path: (path.count("/"), path))


def _walk(name: str, list_folder: ListFolder) -> Iterator[str]:
    """Yield every path with a name, folder by folder, until the limit is reached."""
    left, folders = _MAX_ENTRIES, deque([""])
    while folders and left > 0:
        folder = folders.popleft()
        entries = list_folder(folder)
        left -= len(entries) + 1
        for entry in entries:
            if entry.name == name:
                yield _join(folder, entry.name)
            if entry.is_folder and not entry.name.startswith(".") and entry.name not in _SKIPPED:
                folders.append(_join(folder, entry.name))


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
