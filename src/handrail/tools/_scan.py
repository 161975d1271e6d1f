"""A look at a workspace after a command: what it left there that runs, or leads, outside.

A sandbox holds while a command runs. What it leaves behind is met later, by programs that run
without one: a hook that git starts, settings that an editor obeys, a link that leads elsewhere.
The look is bounded in entries and in time, follows no link, and says where it was cut short.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from handrail.tools._leads import leads
from handrail.tools._search import quoted

MOST_ENTRIES = 200_000
MOST_SECONDS = 0.25
_MOST_DEPTH = 64
_LONGEST = 4_095
"""Bytes of a path. Nobody can name what is longer."""
_MOST_PLANTED = 10_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CLOCK_OF_FILES = 5
"""CLOCK_REALTIME_COARSE: what the kernel stamps files with, some milliseconds behind others."""

_FILES = frozenset(
    """
    .bashrc .bash_profile .profile .zshrc .zshenv .gitconfig .gitmodules .gitattributes .mcp.json
    .envrc .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pypirc .pre-commit-config.yaml handrail.toml
    agents.md claude.md gemini.md conftest.py sitecustomize.py usercustomize.py .gitlab-ci.yml
    """.split()
)
"""Files that run, or that steer what runs, on somebody's behalf."""
_FOLDERS = frozenset(
    """
    .handrail .ssh .vscode .idea .husky .claude .cursor .codex .gemini .agents .devcontainer .direnv
    workflows .circleci
    """.split()
)
"""All that lies in these steers something. Workflows count below .github only."""
_OF_OTHERS = frozenset("node_modules site-packages dist-packages .venv venv vendor".split())
"""Where names mean nothing: what others made lies there by the thousand."""
_NOT_LOOKED_INTO = frozenset(["objects", "refs", "logs", "lfs", "rr-cache"])
"""Parts of a repository that hold no settings."""
_BARE = frozenset(["HEAD", "objects", "refs"])
_SETTINGS = frozenset(["config", "config.worktree", "commondir", "gitdir", "attributes"])
_HARMLESS = ("/usr/", "/bin/", "/lib/", "/lib64/", "/dev/null")
"""Where links of virtual environments and the like lead."""


@dataclass(frozen=True, slots=True)
class Planted:
    """One thing that a command left and that something outside may run or follow."""

    what: str
    """Such as ``git hook``."""
    path: str
    """Where it is, relative to the workspace."""

    def __str__(self) -> str:
        return f"{self.what} {quoted(self.path)}"


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a workspace found."""

    planted: tuple[Planted, ...]
    entries: int
    """How many were looked at."""
    whole: bool
    """Whether that was all of them."""


_Place: TypeAlias = tuple[int, str, int]
"""A folder: the inode of the one it lies in, its name there, and its own inode."""
_CLOSED = 0
"""In the place of an inode: the folder could not be looked into."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The folders of a workspace, and those of them that are repositories."""

    folders: set[_Place] = field(default_factory=set[_Place])
    repositories: set[_Place] = field(default_factory=set[_Place])

    def also(self, older: _Seen, most: int) -> _Seen:
        """With what older looks saw, unless that has become too much to keep."""
        if len(older.folders) > most:
            return self
        return _Seen(self.folders | older.folders, self.repositories | older.repositories)


class Scan:
    """Looks at one workspace after commands, and remembers which folders were there before."""

    def __init__(
        self, root: str, *, entries: int = MOST_ENTRIES, seconds: float = MOST_SECONDS
    ) -> None:
        self._root = root
        self._entries = entries
        self._seconds = seconds
        self._known: _Seen | None = None
        self._since: int | None = None
        """From when on nobody has looked."""
        self._told: frozenset[tuple[Planted, int]] = frozenset()
        """What the last look found, with the time of each: a clock ticks slowly, once is enough."""
        self._running = 0
        self._lock = threading.Lock()

    def begin(self) -> None:
        """A command is about to start."""
        with self._lock:
            if self._known is None:
                self._look(_now())
            self._running += 1
            if self._since is None:
                self._since = _now()

    def end(self) -> None:
        """A command has ended, and perhaps nobody looks: what it left is found by the next look."""
        with self._lock:
            self._running -= 1

    def look(self) -> Look:
        """What has changed since a command began after which nobody has looked yet."""
        with self._lock:
            now = _now()
            found = self._look(now if self._since is None else self._since)
            self._since = now if self._running else None
            return found

    def _look(self, since: int) -> Look:
        deadline = time.monotonic() + self._seconds
        known = self._known or _Seen()
        walk = _Walk(self._root, since, known, self._entries, deadline)
        whole = walk.go()
        self._known = walk.seen if whole else walk.seen.also(known, self._entries)
        new = tuple(one for one, when in walk.planted if (one, when) not in self._told)
        older = self._told if not whole and len(self._told) <= _MOST_PLANTED else ()
        self._told = frozenset([*walk.planted, *older])
        return Look(new, self._entries - max(0, walk.entries_left), whole)


def _now() -> int:
    return time.clock_gettime_ns(_CLOCK_OF_FILES)


_Kind: TypeAlias = Literal["plain", "marked", "others", "repository", "hooks", "inner"]
_GIT = frozenset[_Kind](["repository", "hooks", "inner"])


class _Here(NamedTuple):
    """The folder that is looked at."""

    path: str
    """Ends with a slash, unless it is the root."""
    kind: _Kind
    inode: int
    touched: bool
    """Whether something came or went in it since, or the folder itself did."""
    new: bool
    """Whether it came here since: then all in it has, however old it is."""


class _CutShort(Exception):
    """Entries or time are used up."""


@dataclass(slots=True)
class _Walk:
    root: str
    since: int
    known: _Seen
    entries_left: int
    deadline: float
    planted: list[tuple[Planted, int]] = field(default_factory=list[tuple[Planted, int]])
    """With the time of each, in nanoseconds."""
    seen: _Seen = field(default_factory=_Seen)
    whole: bool = True

    def go(self) -> bool:
        """Look at everything, or as far as it is allowed: whether that was all."""
        try:
            top = os.open(self.root, _FOLDER)
            self._folder(top, "", "plain", _Here("", "plain", 0, touched=False, new=False))
        except (OSError, _CutShort):
            return False
        return self.whole

    def _folder(self, fd: int, name: str, kind: _Kind, above: _Here) -> None:
        """Look at a folder and all below. Closes it."""
        try:
            found = self._listed(fd)
            if _BARE.issubset(one.name for one in found):
                kind = "repository"
            about = os.fstat(fd)
            place = above.inode, name, about.st_ino
            here = self._arrived(place, about.st_ctime_ns, kind, above)
            for one in found:
                self._entry(fd, one, here)
        finally:
            os.close(fd)

    def _listed(self, fd: int) -> list[os.DirEntry[str]]:
        self._allowed()
        with os.scandir(fd) as listed:
            found = list(islice(listed, self.entries_left + 1))
        self.entries_left -= len(found)
        self._allowed(going_on=self.entries_left >= 0)
        return found

    def _arrived(self, place: _Place, when: int, kind: _Kind, above: _Here) -> _Here:
        """Remember a folder; tell of it, if it is a repository that was not here before."""
        _, name, inode = place
        touched = when >= self.since
        new = above.new or (touched and self._came(place, above))
        path = f"{above.path}{name}/" if name else ""
        self.seen.folders.add(place)
        if kind == "repository":
            self.seen.repositories.add(place)
            if new or (touched and place not in self.known.repositories):
                self._plant("git repository", path.rstrip("/") or ".", when)
        return _Here(path, kind, inode, touched, new)

    def _came(self, place: _Place, above: _Here) -> bool:
        """Whether a folder that was touched may have come to its place. A move touches both."""
        parent, name, _ = place
        if (parent, name, _CLOSED) in self.known.folders:
            return True
        return above.touched and place not in self.known.folders

    def _entry(self, fd: int, entry: os.DirEntry[str], here: _Here) -> None:
        if entry.is_dir(follow_symlinks=False):
            if here.kind != "repository" or entry.name not in _NOT_LOOKED_INTO:
                self._into(fd, entry.name, here)
            return
        what = _steers(entry.name.lower(), here.kind)
        link = entry.is_symlink()
        if (what or link) and (when := self._changed(entry, here)):
            path = here.path + entry.name
            if what := (self._astray(path) or what) if link else what:
                self._plant(what, path, when)

    def _into(self, fd: int, name: str, here: _Here) -> None:
        size = len(os.fsencode(here.path)) + len(os.fsencode(name))
        if here.path.count("/") > _MOST_DEPTH or size > _LONGEST:
            self.whole = False
            return
        try:
            with suppress(FileNotFoundError, NotADirectoryError):  # a job may be at work still
                inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
                self._folder(inner, name, _kind(name, here), here)
        except PermissionError:  # for others, too, until somebody opens it
            self.seen.folders.add((here.inode, name, _CLOSED))

    def _allowed(self, *, going_on: bool = True) -> None:
        if not going_on or time.monotonic() > self.deadline:
            raise _CutShort

    def _changed(self, entry: os.DirEntry[str], here: _Here) -> int:
        """When it changed, if that is of interest; else 0."""
        try:
            about = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # a job may be at work still
            return 0
        # An empty file steers nothing, and a sandbox may need it there for as long as a job runs.
        new = here.new or about.st_ctime_ns >= self.since
        return about.st_ctime_ns if new and about.st_size else 0

    def _astray(self, path: str) -> str:
        """What a link is that leads out of the workspace; empty where it does not."""
        self._allowed()
        where = leads(f"{self.root}/{path}")
        if where is None:
            return "maze of links"
        inside = f"{where}/".startswith((f"{self.root}/", *_HARMLESS))
        return "" if inside else "link out of the workspace"

    def _plant(self, what: str, path: str, when: int) -> None:
        self._allowed(going_on=len(self.planted) < _MOST_PLANTED)
        self.planted.append((Planted(what, path), when))


def _kind(name: str, above: _Here) -> _Kind:
    """What a folder is, by its name and by where it lies."""
    parent = above.kind
    lower = name.lower()
    if lower == ".git":
        return "repository"
    if parent == "repository":
        return "hooks" if name == "hooks" else "inner"
    if parent != "plain":
        return parent
    if lower in _OF_OTHERS:
        return "others"
    if lower == "workflows":
        return "marked" if above.path.lower().endswith(".github/") else "plain"
    return "marked" if lower in _FOLDERS else "plain"


def _steers(name: str, kind: _Kind) -> str:
    """What a file is that steers something; empty where it does not."""
    if name == ".git":
        return "git repository"
    if kind == "hooks":
        return "" if name.endswith(".sample") else "git hook"
    if kind in _GIT:
        return "git settings" if name in _SETTINGS else ""
    return "protected file" if kind == "marked" or (kind == "plain" and name in _FILES) else ""
