"""Workspace files used outside the sandbox: Python code, and run databases."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple

from handrail._support.own_files import (
    BESIDE_DATABASE,
    DATABASE_ENDS,
    MARK,
    find_code_folders,
    is_run_database,
    list_code_folders,
    list_opened_databases,
)
from handrail.sandbox._protected import find_links, is_beneath, is_beneath_any
from handrail.sandbox._values import SandboxUnavailable

_MAX_DEPTH: Final = 4
_MAX_FOLDERS: Final = 1_000
"""Folders searched for environments before each command."""
_MAX_ENTRIES: Final = 10_000
"""Entries read from a folder."""
_SKIPPED: Final = frozenset([".git", "node_modules", "__pycache__", "site-packages"])


class OwnCode(NamedTuple):
    """Paths in a workspace from which this process imports code."""

    kept: tuple[str, ...] = ()
    """Existing real paths."""
    missing: tuple[str, ...] = ()
    """Missing names, in existing folders."""


def find_own_code(root: str, opened: Collection[str]) -> OwnCode:
    """Return this process's code in a workspace, except names left writable.

    Raises SandboxUnavailable for code found through a link: a command could replace it.
    """
    free = [f"{root}/{name}" for name in opened]
    # commands must not change what runs outside the sandbox: decision 082
    for path in list_code_folders():
        _require_no_link(path, root, free)
    found = [path for path in find_code_folders(root) if not is_beneath_any(path, free)]
    kept = [path for path in found if os.path.lexists(path)]
    missing = [path[len(root) + 1 :] for path in found if path not in kept and _can_appear(path)]
    return OwnCode(tuple(kept), tuple(missing))


def _require_no_link(path: str, root: str, free: Collection[str]) -> None:
    real = os.path.realpath(path)
    if real == path or is_beneath(root, real):
        return
    for link in find_links(path):
        if is_beneath(link, root) and not is_beneath_any(link, [*free, *find_code_folders(root)]):
            name = link[len(root) + 1 :]
            raise SandboxUnavailable(
                f"{name} in the workspace is a symbolic link, which a command could replace, and "
                "this program imports code from there. Replace it by a folder, install handrail "
                f"outside the workspace, or pass writable=({name!r},) to leave it unprotected."
            )


def _can_appear(path: str) -> bool:
    """Return whether a command could create a missing path without its folder."""
    try:
        return stat.S_ISDIR(os.lstat(os.path.dirname(path)).st_mode)  # noqa: PTH120
    except OSError:
        return False


class _Listing(NamedTuple):
    """A folder when it was listed."""

    state: tuple[int, ...]
    is_environment: bool
    folders: tuple[str, ...]
    databases: tuple[str, ...]
    """Files with a database name."""


class OwnFileSearch:
    """Finds Python environments and run databases in a workspace.

    Unchanged folders are listed once. It remembers what it has found: a command could hide it
    behind many other folders.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, _Listing] = {}
        self._found: dict[str, None] = {}

    def find(self) -> list[str]:
        """Return the environments and databases, as of now, by their real paths."""
        self._walk()
        self._found |= dict.fromkeys(list_opened_databases(self._root))
        return [path for path in self._found if is_run_database(path) or _is_environment(path)]

    def _walk(self) -> None:
        listings = dict[str, _Listing]()
        waiting = [(self._root, 0)]
        for folder, depth in islice(waiting, _MAX_FOLDERS):  # grows while it is read
            listing = self._list(folder)
            if listing is None:
                continue
            listings[folder] = listing
            self._found |= dict.fromkeys(filter(is_run_database, listing.databases))
            if listing.is_environment and depth:
                self._found[folder] = None
            elif depth < _MAX_DEPTH:
                waiting += [(path, depth + 1) for path in listing.folders]
        self._known = listings

    def _list(self, folder: str) -> _Listing | None:
        """Return a folder's listing, or None if it is missing or unreadable."""
        try:
            about = os.lstat(folder)
            state = about.st_dev, about.st_ino, about.st_mtime_ns, about.st_ctime_ns
            known = self._known.get(folder)
            if known is not None and known.state == state:
                return known
            with os.scandir(folder) as scanned:
                entries = [
                    (entry.name, entry.is_dir(follow_symlinks=False))
                    for entry in islice(scanned, _MAX_ENTRIES)
                ]
        except OSError:
            return None
        inner = (name for name, is_folder in entries if is_folder and name not in _SKIPPED)
        files = (name for name, is_folder in entries if not is_folder)
        return _Listing(
            state,
            (MARK, False) in entries,
            tuple(f"{folder}/{name}" for name in inner),
            tuple(f"{folder}/{name}" for name in files if name.endswith(DATABASE_ENDS)),
        )


def _is_environment(folder: str) -> bool:
    return os.path.lexists(f"{folder}/{MARK}")


def hold_database(path: str) -> list[str]:
    """Return a database with the files next to it, creating missing ones.

    They stay: SQLite may have opened one, and would lose its writes if it were removed. Empty ones
    change nothing.
    """
    held = [path]
    for name in (f"{path}{end}" for end in BESIDE_DATABASE):
        with suppress(OSError):  # it exists, or another user's folder has the database
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        held += [name] if os.path.lexists(name) else []
    return held
