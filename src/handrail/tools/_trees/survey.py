"""Lists a workspace within limits. A folder is listed as a whole, or left out and named.

The project's own files come first, then repositories, then ignored folders: those are usually the
large ones, and hold what can be installed or built again.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from handrail.tools._files.folder_listing import read_rules
from handrail.tools._files.ignore_rules import IgnoreRules
from handrail.tools._files.workspace import Workspace
from handrail.tools._trees.states import MAX_FILE_BYTES, open_folder

MAX_FILES = 25_000
"""Workspace files and folders kept."""
MAX_TREE_BYTES = 320 * 1024 * 1024
"""File bytes kept."""
_OWN_SHARE = 0.8
"""The share of both for the project's own files, so its repository is kept, too."""
_MAX_SMALL_BYTES = 1024 * 1024
"""The largest project file kept if there are too many bytes."""
_LISTED_TIMES = 10
"""Entries listed, as a multiple of those that are kept. The rest is left out unseen."""
_MAX_DEPTH = 100
_KILO = 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SCRATCH = re.compile(r"\.handrail-[0-9a-f]{16}\.tmp")
"""A file for a moment while another one is replaced."""
CACHES = frozenset("__pycache__ .cache .mypy_cache .pytest_cache .ruff_cache".split())
"""Folders in which programs write whenever they run."""
_INSTALLED = CACHES | frozenset("node_modules .venv venv vendor target .tox .nox .gradle".split())
"""Folders treated as ignored, with or without rules."""
_RULES = frozenset([".gitignore", ".ignore"])
_Rank: TypeAlias = Literal["own", "repository", "objects", "ignored"]
_LATER: tuple[_Rank, ...] = ("repository", "objects", "ignored")


class LeftOut(NamedTuple):
    """A folder that was too large. It is not listed again until its own entries change."""

    reason: str
    """Empty if its parts are listed instead."""
    inode: int
    mtime: int


class Bounds(NamedTuple):
    """How much is listed."""

    files: float = MAX_FILES
    total_bytes: float = MAX_TREE_BYTES
    file_bytes: float = MAX_FILE_BYTES


@dataclass(slots=True)
class Survey:
    """A workspace's entries, or of a part of it."""

    found: dict[str, os.stat_result] = field(default_factory=dict[str, os.stat_result])
    """By path. A folder comes before its entries."""
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    """The reason by path; ``.`` is the workspace itself."""
    too_large: dict[str, LeftOut] = field(default_factory=dict[str, LeftOut])
    """The folders to leave out at once next time."""
    later: dict[str, _Rank] = field(default_factory=dict[str, _Rank])
    """Folders listed after the others."""
    size: int = 0

    def add(self, part: Survey) -> None:
        """Add a part listed completely."""
        self.found |= part.found
        self.left_out |= part.left_out
        self.later |= part.later
        self.size += part.size


class _TooLarge(Exception):
    """A folder does not fit. Has the reason, and the folder in which the limit was reached."""


class _TooManyBytes(_TooLarge):
    """A folder's files are too large together."""


class _Folder(NamedTuple):
    """A folder that is being listed."""

    fd: int
    path: str
    rank: _Rank
    rules: IgnoreRules

    def child(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name


class Surveyor:
    """Lists a workspace once.

    ``too_large`` is from the survey before. The paths of ``skipped`` are not listed. With
    ``by_rank``, repositories and ignored folders come last.
    """

    def __init__(
        self,
        workspace: Workspace,
        bounds: Bounds,
        *,
        too_large: Mapping[str, LeftOut],
        skipped: Collection[str] = (),
        by_rank: bool = True,
    ) -> None:
        self._workspace = workspace
        self._bounds = bounds
        self._known = too_large
        self._skipped = skipped
        self._by_rank = by_rank
        self._own_file_bytes = bounds.file_bytes
        self._whole = Survey()
        self._unlisted = int(bounds.files * _LISTED_TIMES)

    def run(self) -> Survey:
        """List everything within the limits."""
        rules = IgnoreRules("", self._read_rules)
        self._open_and_take("", "own", rules)
        for rank in _LATER:
            for path in sorted(self._whole.later):
                if self._whole.later[path] == rank:
                    self._open_and_take(path, rank, rules)
        return self._whole

    def _read_rules(self, path: str) -> str:
        return read_rules(self._workspace, path) if self._by_rank else ""

    def _open_and_take(self, path: str, rank: _Rank, rules: IgnoreRules) -> None:
        try:
            fd = open_folder(self._workspace, path, readable=True)
        except OSError as error:
            self._whole.left_out[path] = describe_error(error)
            return
        try:
            self._take(_Folder(fd, path, rank, rules))
        finally:
            os.close(fd)

    def _take(self, folder: _Folder) -> None:
        """List a folder completely; otherwise list its parts, or leave it out."""
        about = os.fstat(folder.fd)
        known = self._known.get(folder.path)
        if known is None or (known.inode, known.mtime) != (about.st_ino, about.st_mtime_ns):
            reason = self._list_whole(folder)
            known = None if reason is None else LeftOut(reason, about.st_ino, about.st_mtime_ns)
        if known is None:
            return
        self._whole.too_large[folder.path] = known
        if known.reason:
            self._whole.left_out[folder.path or "."] = known.reason
        else:
            self._list_parts(folder)

    def _list_whole(self, folder: _Folder) -> str | None:
        """Add a folder; if it does not fit, return the reason, or "" to list its parts instead."""
        part = Survey()
        try:
            self._list(folder, part)
        except _TooLarge as error:
            reason, where = error.args
            is_size = isinstance(error, _TooManyBytes)
            if is_size and folder.rank == "own" and self._own_file_bytes > _MAX_SMALL_BYTES:
                self._own_file_bytes = _MAX_SMALL_BYTES  # better without assets than without code
                return self._list_whole(folder)
            has_parts = folder.rank == "own" and where != folder.path and self._has_room()
            return "" if has_parts else str(reason)
        self._whole.add(part)
        return None

    def _has_room(self) -> bool:
        """Return whether a tenth of the limits is left."""
        files, size = self._limits("own")
        return len(self._whole.found) < files * 0.9 and self._whole.size < size * 0.9

    def _limits(self, rank: _Rank) -> tuple[int, float]:
        """Return how many files there may be after this rank, and how many bytes."""
        share = _OWN_SHARE if self._by_rank and rank == "own" else 1.0
        return int(self._bounds.files * share), self._bounds.total_bytes * share

    def _list_parts(self, folder: _Folder) -> None:
        part = Survey()
        folders, rules = self._list_files(folder, part, sys.maxsize)
        self._whole.add(part)
        part = Survey()
        for name in folders:
            with self._enter(folder._replace(rules=rules), name, part) as inner:
                if inner is not None:
                    self._take(inner)
        self._whole.add(part)

    def _list(self, folder: _Folder, part: Survey) -> None:
        """Add a folder and everything in it to a part. Raises _TooLarge."""
        files, size = self._limits(folder.rank)
        room = files - len(self._whole.found) - len(part.found)
        folders, rules = self._list_files(folder, part, min(room, self._unlisted))
        if self._whole.size + part.size > size:
            raise _TooManyBytes(f"over the limit of {format_size(size)}", folder.path)
        for name in folders:
            with self._enter(folder._replace(rules=rules), name, part) as inner:
                if inner is not None:
                    self._list(inner, part)

    def _list_files(
        self, folder: _Folder, part: Survey, limit: int
    ) -> tuple[list[str], IgnoreRules]:
        """Add a folder and its files to a part; return its folders, and the rules for these."""
        if folder.path:
            part.found[folder.path] = os.fstat(folder.fd)
        with os.scandir(folder.fd) as scanned:
            entries = list(islice(scanned, max(limit, 0)))
            is_more = next(scanned, None) is not None
        self._unlisted -= len(entries)
        if is_more:
            files, _ = self._limits(folder.rank)
            raise _TooLarge(f"over the limit of {files:,} files", folder.path)
        folders = self._add_files(folder, entries, part)
        if self._by_rank and folder.rank == "own" and folder.path and _has_rules(entries):
            return folders, IgnoreRules(folder.path, self._read_rules)
        return folders, folder.rules

    def _add_files(
        self, folder: _Folder, entries: Iterable[os.DirEntry[str]], part: Survey
    ) -> list[str]:
        """Add a folder's files to a part, and return the names of its folders."""
        folders, above = list[str](), f"{folder.path}/" if folder.path else ""
        is_own, skipped, size = folder.rank == "own", self._skipped, 0
        max_bytes = self._own_file_bytes if is_own else self._bounds.file_bytes
        for entry in entries:
            path = above + entry.name
            if path in skipped or _SCRATCH.fullmatch(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
                continue
            with suppress(FileNotFoundError):  # a job may still be running
                about = entry.stat(follow_symlinks=False)
                if about.st_size > max_bytes and stat.S_ISREG(about.st_mode):
                    part.left_out[path] = format_size(about.st_size)
                else:
                    part.found[path] = about
                    size += about.st_size
        part.size += size
        return sorted(folders)

    @contextmanager
    def _enter(self, above: _Folder, name: str, part: Survey) -> Generator[_Folder | None]:
        """Open a folder, unless it is listed later or left out."""
        path, rank = above.child(name), self._rank_of(above, name)
        if rank != above.rank:
            part.later[path] = rank
            yield None
            return
        try:
            fd = os.open(name, _FOLDER, dir_fd=above.fd)
        except OSError as error:
            part.left_out[path] = describe_error(error)
            yield None
            return
        try:
            if path.count("/") >= _MAX_DEPTH:
                part.left_out[path] = "too deep"
                yield None
            else:
                yield _Folder(fd, path, rank, above.rules)
        finally:
            os.close(fd)

    def _rank_of(self, above: _Folder, name: str) -> _Rank:
        if not self._by_rank:
            return above.rank
        if above.rank == "repository" and name == "objects":
            return "objects"
        if above.rank != "own":
            return above.rank
        if name == ".git":
            return "repository"
        ignored = name in _INSTALLED or above.rules.ignore(above.child(name), is_folder=True)
        return "ignored" if ignored else "own"


def _has_rules(entries: Iterable[os.DirEntry[str]]) -> bool:
    return not _RULES.isdisjoint(entry.name for entry in entries)


def describe_error(error: OSError) -> str:
    """Return the reason of an error of the system, such as "permission denied"."""
    return (error.strerror or "cannot be read").lower()


def format_size(size: float) -> str:
    """Return a number of bytes as people read it."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < _KILO:
            return f"{size:.0f} {unit}"
        size /= _KILO
    return f"{size:.1f} TB"
