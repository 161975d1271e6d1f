"""Code that runs outside the sandbox: what this process imports, and Python environments."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final, NamedTuple

from handrail._support.own_files import MARK, find_code_folders, list_code_folders
from handrail.sandbox._protected import find_links, is_beneath
from handrail.sandbox._values import SandboxUnavailable

_MAX_DEPTH: Final = 4
_MAX_FOLDERS: Final = 1_000
"""Folders that are searched for environments before each command."""
_MAX_ENTRIES: Final = 10_000
"""Entries of a folder that are read."""
_SKIPPED: Final = frozenset([".git", "node_modules", "__pycache__", "site-packages"])


class OwnCode(NamedTuple):
    """Paths in a workspace that this process imports code from."""

    kept: tuple[str, ...] = ()
    """Real paths that exist."""
    missing: tuple[str, ...] = ()
    """Names that do not exist yet, in folders that do."""


def find_own_code(root: str, opened: Collection[str]) -> OwnCode:
    """Return the code of this process in a workspace, except names that stay writable.

    Raises SandboxUnavailable for code that is found through a link: a command could replace it.
    """
    free = [f"{root}/{name}" for name in opened]
    for path in list_code_folders():
        _require_no_link(path, root, free)
    found = [path for path in find_code_folders(root) if not _is_in(path, free)]
    kept = [path for path in found if os.path.lexists(path)]
    missing = [path[len(root) + 1 :] for path in found if path not in kept and _can_appear(path)]
    return OwnCode(tuple(kept), tuple(missing))


def _require_no_link(path: str, root: str, free: Collection[str]) -> None:
    real = os.path.realpath(path)
    if is_beneath(root, real):
        return
    for link in find_links(path):
        if is_beneath(link, root) and not _is_in(link, [*free, *find_code_folders(root)]):
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


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(is_beneath(path, folder) for folder in folders)


class _Listing(NamedTuple):
    """A folder when it was listed."""

    state: tuple[int, ...]
    is_environment: bool
    folders: tuple[str, ...]


class EnvironmentSearch:
    """Finds the Python environments in a workspace. Unchanged folders are listed once.

    One that was found is not searched again: a command could hide it behind many other folders.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, _Listing] = {}
        self._found: dict[str, None] = {}

    def find(self) -> list[str]:
        """Return the environments, as of now, by their real paths."""
        listings = dict[str, _Listing]()
        waiting = [(self._root, 0)]
        for folder, depth in islice(waiting, _MAX_FOLDERS):  # grows while it is read
            listing = self._list(folder)
            if listing is None:
                continue
            listings[folder] = listing
            if listing.is_environment and depth:
                self._found[folder] = None
            elif depth < _MAX_DEPTH:
                waiting += [(path, depth + 1) for path in listing.folders]
        self._known = listings
        return [path for path in self._found if os.path.lexists(f"{path}/{MARK}")]

    def _list(self, folder: str) -> _Listing | None:
        """Return what is in a folder; None if it is gone or cannot be read."""
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
        return _Listing(
            state, (MARK, False) in entries, tuple(f"{folder}/{name}" for name in inner)
        )
