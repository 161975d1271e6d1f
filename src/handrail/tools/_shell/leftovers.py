"""Scans a workspace after a command for files programs outside may execute or follow.

A sandbox confines a command while it runs. Programs without a sandbox meet its files later: a hook
that git runs, settings an editor obeys, a link that leads elsewhere. The scan is limited in
entries and time, follows no link, and reports whether it was complete.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from handrail._support.git_settings import find_git_paths, is_commondir_placeholder
from handrail._support.obeyed_names import OBEYED_NAMES, find_name, index_names
from handrail.tools._files.links import follow_links
from handrail.tools._files.paths import quote_path

_MAX_ENTRIES = 200_000
_MAX_SECONDS = 0.25
_MAX_DEPTH = 64
_MAX_PATH_BYTES = 4_095
"""Bytes of a path. A longer path cannot be opened."""
_MAX_PLANTED = 10_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CLOCK_OF_FILES = 5
"""CLOCK_REALTIME_COARSE: the clock of file timestamps, some milliseconds behind others."""

_NAMES = index_names(row for row in OBEYED_NAMES if row.scanned and row.parts[0] != ".git")
"""Names other programs run or obey. Those in a repository of git are found by its kind."""
_OF_OTHERS = frozenset("node_modules site-packages dist-packages .venv venv vendor".split())
"""Folders of dependencies, where such names are common and harmless."""
_SKIPPED = frozenset(["objects", "refs", "logs", "lfs", "rr-cache"])
"""Parts of a repository without settings."""
_BARE = frozenset(["HEAD", "objects", "refs"])
_SETTINGS = frozenset(
    ["config", "config.worktree", "commondir", "gitdir", "attributes", "git-rebase-todo"]
)
_HARMLESS = ("/usr/", "/bin/", "/lib/", "/lib64/", "/dev/null")
"""Targets of links in virtual environments and similar."""
_PYTHON = re.compile(r"/bin/python[\d.]*\Z")
"""A link from one interpreter to another, as every virtual environment has it."""


@dataclass(frozen=True, slots=True)
class SuspiciousFile:
    """A file a command changed and that programs outside may execute or follow."""

    what: str
    """What it is, such as ``git hook``."""
    path: str
    """Its path, relative to the workspace."""

    def __str__(self) -> str:
        return f"{self.what} {quote_path(self.path)}"


@dataclass(frozen=True, slots=True)
class ScanReport:
    """The result of one scan."""

    planted: tuple[SuspiciousFile, ...]
    entries: int
    """The number of files and folders scanned."""
    whole: bool
    """Whether that was all of them."""


_FolderKey: TypeAlias = tuple[int, str, int]
"""A folder: its parent's inode, its name, and its own inode."""
_CLOSED = 0
"""Used instead of an inode: the folder could not be opened."""


@dataclass(frozen=True, slots=True)
class _KnownFolders:
    """A workspace's folders, and which of them are repositories."""

    folders: set[_FolderKey] = field(default_factory=set[_FolderKey])
    repositories: set[_FolderKey] = field(default_factory=set[_FolderKey])

    def with_older(self, older: _KnownFolders, limit: int) -> _KnownFolders:
        """Add the folders of older scans, unless there are too many."""
        if len(older.folders) > limit:
            return self
        return _KnownFolders(self.folders | older.folders, self.repositories | older.repositories)


class Scan:
    """Scans one workspace after commands, and remembers which folders existed before."""

    def __init__(
        self, root: str, *, entries: int = _MAX_ENTRIES, seconds: float = _MAX_SECONDS
    ) -> None:
        self._root = root
        self._entries = entries
        self._seconds = seconds
        self._known: _KnownFolders | None = None
        self._since: int | None = None
        """The time since which changes were not scanned."""
        self._reported: frozenset[tuple[SuspiciousFile, int]] = frozenset()
        """The files of the last report, with their times, so none is reported twice."""
        self._running = 0
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Record that a command is about to start."""
        with self._lock:
            if self._known is None:
                self._scan(_now())
            self._running += 1
            if self._since is None:
                self._since = _now()

    def end(self) -> None:
        """Record that a command has ended. The next scan covers it, even if none follows now."""
        with self._lock:
            self._running -= 1

    def look(self) -> ScanReport:
        """Scan for changes since the start of the first command that was not scanned yet."""
        with self._lock:
            now = _now()
            report = self._scan(now if self._since is None else self._since)
            self._since = now if self._running else None
            return report

    def _scan(self, since: int) -> ScanReport:
        deadline = time.monotonic() + self._seconds
        known = self._known or _KnownFolders()
        hooks, settings = find_git_paths(self._root)
        named = dict.fromkeys(hooks, "git hook") | dict.fromkeys(settings, "git settings")
        walk = _FolderWalk(self._root, since, known, self._entries, deadline, named)
        whole = walk.go()
        self._known = walk.seen if whole else walk.seen.with_older(known, self._entries)
        new = tuple(file for file, when in walk.planted if (file, when) not in self._reported)
        older = self._reported if not whole and len(self._reported) <= _MAX_PLANTED else ()
        self._reported = frozenset([*walk.planted, *older])
        return ScanReport(new, self._entries - max(0, walk.entries_left), whole)


def _now() -> int:
    return time.clock_gettime_ns(_CLOCK_OF_FILES)


_FolderKind: TypeAlias = Literal["plain", "marked", "others", "repository", "hooks", "inner"]
_GIT = frozenset[_FolderKind](["repository", "hooks", "inner"])


class _FolderInfo(NamedTuple):
    """The folder that is being scanned."""

    path: str
    """Ends with a slash, unless it is the root."""
    kind: _FolderKind
    inode: int
    touched: bool
    """Whether the folder or its list of entries changed since."""
    new: bool
    """Whether it was created or moved here since: then everything in it is new."""


class _CutShort(Exception):
    """The limit of entries or time was reached."""


@dataclass(slots=True)
class _FolderWalk:
    root: str
    since: int
    known: _KnownFolders
    entries_left: int
    deadline: float
    named: Mapping[str, str]
    """What the settings of git name, with a description of each."""
    planted: list[tuple[SuspiciousFile, int]] = field(
        default_factory=list[tuple[SuspiciousFile, int]]
    )
    """With the time of each, in nanoseconds."""
    seen: _KnownFolders = field(default_factory=_KnownFolders)
    whole: bool = True

    def go(self) -> bool:
        """Scan everything within the limits; return whether that was all."""
        try:
            top = os.open(self.root, _FOLDER)
            self._scan_folder(
                top, "", "plain", _FolderInfo("", "plain", 0, touched=False, new=False)
            )
        except (OSError, _CutShort):
            return False
        return self.whole

    def _scan_folder(self, fd: int, name: str, kind: _FolderKind, above: _FolderInfo) -> None:
        """Scan a folder and everything in it, and close it."""
        try:
            entries = self._list_entries(fd)
            if _BARE.issubset(entry.name for entry in entries):
                kind = "repository"
            elif kind == "repository" and not entries:
                kind = "plain"  # a sandbox reserves the name
            about = os.fstat(fd)
            place = above.inode, name, about.st_ino
            here = self._remember_folder(place, about.st_ctime_ns, kind, above)
            for entry in entries:
                self._scan_entry(fd, entry, here)
        finally:
            os.close(fd)

    def _list_entries(self, fd: int) -> list[os.DirEntry[str]]:
        self._check_bounds()
        with os.scandir(fd) as scanned:
            entries = list(islice(scanned, self.entries_left + 1))
        self.entries_left -= len(entries)
        self._check_bounds(within_limit=self.entries_left >= 0)
        return entries

    def _remember_folder(
        self, place: _FolderKey, when: int, kind: _FolderKind, above: _FolderInfo
    ) -> _FolderInfo:
        """Remember a folder, and report it if it is a new repository."""
        _, name, inode = place
        touched = when >= self.since
        new = above.new or (touched and self._may_be_new(place, above))
        path = f"{above.path}{name}/" if name else ""
        self.seen.folders.add(place)
        if kind == "repository":
            self.seen.repositories.add(place)
            if new or (touched and place not in self.known.repositories):
                self._report("git repository", path.rstrip("/") or ".", when)
        return _FolderInfo(path, kind, inode, touched, new)

    def _may_be_new(self, place: _FolderKey, above: _FolderInfo) -> bool:
        """Return whether a changed folder may be new here. A move changes its parent, too."""
        parent, name, _ = place
        if (parent, name, _CLOSED) in self.known.folders:
            return True
        return above.touched and place not in self.known.folders

    def _scan_entry(self, fd: int, entry: os.DirEntry[str], here: _FolderInfo) -> None:
        if entry.is_dir(follow_symlinks=False):
            if here.kind != "repository" or entry.name not in _SKIPPED:
                self._enter(fd, entry.name, here)
            return
        what = _describe_file(entry.name.lower(), here)
        if self.named:
            what = self.named.get(here.path + entry.name, what)
        link = entry.is_symlink()
        if (what or link) and (when := self._change_time(entry, here)):
            path = here.path + entry.name
            if what := (self._describe_link(path) or what) if link else what:
                self._report(what, path, when)

    def _enter(self, fd: int, name: str, here: _FolderInfo) -> None:
        size = len(os.fsencode(here.path)) + len(os.fsencode(name))
        if here.path.count("/") > _MAX_DEPTH or size > _MAX_PATH_BYTES:
            self.whole = False
            return
        try:
            with suppress(FileNotFoundError, NotADirectoryError):  # a job may still be running
                inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
                self._scan_folder(inner, name, self._folder_kind(name, here), here)
        except PermissionError:  # other programs cannot enter it either, for now
            self.seen.folders.add((here.inode, name, _CLOSED))

    def _folder_kind(self, name: str, above: _FolderInfo) -> _FolderKind:
        """Return the kind of a folder, by its name and its parent."""
        if self.named and self.named.get(above.path + name) == "git hook":
            return "hooks"
        lower = name.lower()
        if lower == ".git":
            return "repository"
        if above.kind == "repository":
            return "hooks" if name == "hooks" else "inner"
        if above.kind != "plain":
            return above.kind
        if lower in _OF_OTHERS:
            return "others"
        return "marked" if _is_obeyed(lower, above) else "plain"

    def _check_bounds(self, *, within_limit: bool = True) -> None:
        if not within_limit or time.monotonic() > self.deadline:
            raise _CutShort

    def _change_time(self, entry: os.DirEntry[str], here: _FolderInfo) -> int:
        """Return when it changed, if that is recent and it has an effect; otherwise 0."""
        try:
            about = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # a job may still be running
            return 0
        new = here.new or about.st_ctime_ns >= self.since
        return about.st_ctime_ns if new and not self._is_mount_point(entry, about, here) else 0

    def _is_mount_point(
        self, entry: os.DirEntry[str], about: os.stat_result, here: _FolderInfo
    ) -> bool:
        """Return whether a file has no effect: a sandbox may need it while a command runs."""
        return not about.st_size or (
            entry.name == "commondir"
            and is_commondir_placeholder(f"{self.root}/{here.path}{entry.name}")
        )

    def _describe_link(self, path: str) -> str:
        """Describe a link that leads out of the workspace; empty if it does not."""
        self._check_bounds()
        target = follow_links(f"{self.root}/{path}")
        if target is None:
            return "unresolvable link"
        inside = f"{target}/".startswith((f"{self.root}/", *_HARMLESS))
        is_python = all(_PYTHON.search(name) for name in (path, target))
        return "" if inside or is_python else "link out of the workspace"

    def _report(self, what: str, path: str, when: int) -> None:
        self._check_bounds(within_limit=len(self.planted) < _MAX_PLANTED)
        self.planted.append((SuspiciousFile(what, path), when))


def _describe_file(name: str, here: _FolderInfo) -> str:
    """Describe a file other programs execute or trust; empty if it is not one."""
    if name == ".git":
        return "git repository"
    kind = here.kind
    if kind == "plain":
        return "protected file" if name in _NAMES and _is_obeyed(name, here) else ""
    if kind == "marked":
        return "protected file"
    if kind == "hooks":
        return "" if name.endswith(".sample") else "git hook"
    return "git settings" if kind in _GIT and name in _SETTINGS else ""


def _is_obeyed(name: str, above: _FolderInfo) -> bool:
    """Return whether other programs run or obey a file, or all files of a folder."""
    return find_name(_NAMES, [*above.path.lower().split("/")[:-1], name]) is not None
