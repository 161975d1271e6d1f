"""Names in `.git` obeyed by git: settings, hooks, and files leading to other settings."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias

from handrail._support.git_settings import (
    can_have_commondir,
    has_worktree_settings,
    list_modules,
)
from handrail._support.obeyed_names import OBEYED_NAMES

_HELD: Final = [row for row in OBEYED_NAMES if row.held != "never" and row.parts[0] == ".git"]
_MODULES: Final = ".git/modules"
_WORKTREES: Final = ".git/worktrees"
_MAX_WORKTREES: Final = 50
"""Worktrees whose files are protected one by one. For more, their whole folder is."""
Reserved: TypeAlias = Literal["", "folder", "file", "removed"]
"""What happens to a missing name while a command runs: nothing, or a placeholder is there, or it is
removed after the command. Not every repository can have every placeholder."""


class GitName(NamedTuple):
    """A path in a workspace to protect."""

    name: str
    reserved: Reserved = ""
    refuses_link: bool = False
    """Whether there must be no link at this name."""


def list_git_names(root: str) -> Iterator[GitName]:
    """Yield what to protect in a workspace's repository.

    A workspace without one has its name reserved: git would obey a new one. An empty folder is such
    a placeholder, from another command.
    """
    if file_type(f"{root}/.git") != stat.S_IFDIR or not has_entries(f"{root}/.git"):
        yield GitName(".git", "folder", refuses_link=True)
        return
    yield from _list_module_names(root)
    yield from _list_worktree_names(root)
    yield GitName(".git/commondir", "file" if can_have_commondir(f"{root}/.git") else "removed")
    if has_worktree_settings(f"{root}/.git"):
        yield GitName(".git/config.worktree", "file")
    for row in _HELD:
        always = row.held == "always"
        yield GitName(row.name, "folder" if always else "", refuses_link=always)


def _list_module_names(root: str) -> Iterator[GitName]:
    """Yield submodule settings and hooks. A link is protected itself."""
    modules = None if _is_link(f"{root}/{_MODULES}") else list_modules(root, _MODULES)
    if modules is None:
        yield GitName(_MODULES, refuses_link=True)
        return
    for name, linked in sorted(modules.items()):
        if linked:
            yield GitName(name, refuses_link=True)
            continue
        own = has_worktree_settings(f"{root}/{name}")
        yield GitName(f"{name}/config")
        yield GitName(f"{name}/config.worktree", "file" if own else "")
        yield GitName(f"{name}/hooks", "folder")
        yield GitName(f"{name}/commondir", "file")


def _list_worktree_names(root: str) -> Iterator[GitName]:
    """Yield the files leading a linked worktree, wherever it is, to its settings."""
    try:
        with os.scandir(f"{root}/{_WORKTREES}") as scanned:
            entries = sorted(entry.name for entry in islice(scanned, _MAX_WORKTREES + 1))
    except FileNotFoundError:
        return
    except OSError:
        entries = [""] * (_MAX_WORKTREES + 1)
    if len(entries) > _MAX_WORKTREES or _is_link(f"{root}/{_WORKTREES}"):
        yield GitName(_WORKTREES, refuses_link=True)
        return
    own = has_worktree_settings(f"{root}/.git")
    for name in (f"{_WORKTREES}/{entry}" for entry in entries):
        if _is_link(f"{root}/{name}"):
            yield GitName(name, refuses_link=True)
        else:
            yield GitName(f"{name}/commondir")
            yield GitName(f"{name}/gitdir")
            yield GitName(f"{name}/config.worktree", "file" if own else "")


def _is_link(path: str) -> bool:
    return file_type(path) == stat.S_IFLNK


def has_entries(path: str) -> bool:
    """Return whether a path is there, and is not an empty folder."""
    try:
        with os.scandir(path) as scanned:
            return next(scanned, None) is not None
    except FileNotFoundError:
        return os.path.lexists(path)
    except OSError:  # a file, or an unreadable folder
        return True


def file_type(path: str) -> int:
    """Return a file's type, without following a link, or 0 if there is none."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return 0
