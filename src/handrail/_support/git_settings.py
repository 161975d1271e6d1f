"""Finds hooks, further settings and programs named by a repository's settings."""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from handrail._support.systems import READ

_MAX_SETTINGS_FILES: Final = 20
_MAX_SETTINGS_BYTES: Final = 1 << 20
_INCLUDES: Final = frozenset(["include.path", "includeif.path"])
_RUNNING: Final = frozenset(
    "core.fsmonitor diff.command diff.external diff.textconv filter.clean filter.process "
    "filter.smudge merge.driver".split()
)
"""Settings with programs git runs to show files and differences."""
_NAMING: Final = frozenset(["core.hookspath", *_INCLUDES, *_RUNNING])
"""Settings whose values are hooks, further settings, or programs."""
_HARMLESS: Final = re.compile(r"(?i:true|false|yes|no|on|off|[01])|git-lfs [a-z-]+( -- %f)?")
"""Values naming no workspace program."""
_SECTION: Final = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"(?:[^"\\]|\\.)*")?\s*\]')
_CONTINUED: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\\r?\n")
_VALUE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"?|\\(.)|([#;])|([^"\\#;]+)')
_ESCAPE: Final = re.compile(r"\\(.)")
_MOVED: Final = re.compile("hookspath|worktree|include", re.IGNORECASE)
"""Settings moving hooks or settings elsewhere, in any spelling."""
_RESHAPED: Final = re.compile(
    r"(?:^|\])[^\S\n]*+(?:bare\b(?!\s*=\s*(?:false|no|off|0)\b)|worktree\b)",
    re.IGNORECASE | re.MULTILINE,
)
"""Settings ignored by git next to a `commondir`, if they have a value."""
_BRANCH = "ref: refs/heads/"
COMMONDIR_PLACEHOLDER: Final = ".\n"
"""The content for a `commondir` leading git to the same place."""
_UNREAD: Final = "include.path"
"""The setting to name if there are too many settings to read."""
_MAX_MODULES: Final = 100
_MAX_MODULE_ENTRIES: Final = 2_000
_REPOSITORY: Final = ("HEAD", "config")
"""Files making a folder in `.git/modules` a submodule's repository."""
_NO_MODULES: Final = ("branches", "hooks", "info", "lfs", "logs", "objects", "refs")
"""Repository folders without repositories inside."""


class GitPaths(NamedTuple):
    """Workspace paths obeyed by git because its settings name them."""

    hooks: tuple[str, ...] = ()
    """Folders named by ``core.hooksPath``, relative to the workspace."""
    settings: tuple[str, ...] = ()
    """Files named by ``include.path`` and ``includeIf``, relative to the workspace."""


def find_git_paths(root: str) -> GitPaths:
    """Return the workspace paths named by the repository's and the user's settings.

    ``includeIf`` conditions are ignored: each may hold at another time. ``root`` is a real path.
    """
    hooks: dict[str, None] = {}
    included: dict[str, None] = {}
    for folder, key, value in _iterate_settings(_settings_files(root)):
        if key == "core.hookspath":
            hooks |= dict.fromkeys(_inside(root, root, value))
        elif key in _INCLUDES and value:
            included |= dict.fromkeys(_inside(root, folder, value))
    return GitPaths(tuple(hooks), tuple(included))


def find_git_program(root: str) -> str:
    """Return a repository setting with a program git may run to read, or "".

    Its submodules' settings are included: ``git status`` uses them.
    """
    top = ".git/modules"
    modules = list_modules(root, top) if os.path.isdir(f"{root}/{top}") else {}  # noqa: PTH112
    if modules is None:
        return _UNREAD
    files = [*_settings_files(root)[:2], *(f"{root}/{name}/config" for name in modules)]
    for _, key, value in _iterate_settings(files):
        if key in _RUNNING and not _HARMLESS.fullmatch(value):
            return key
        if key == _UNREAD and not value:
            return _UNREAD
    return ""


def find_branch(folder: str) -> str:
    """Return the branch of the repository around a folder, by its files; empty if there is none."""
    path = folder
    while not os.path.lexists(f"{path}/.git") and path != (above := os.path.dirname(path)):  # noqa: PTH120
        path = above
    git = f"{path}/.git"
    elsewhere = _read_start(git).removeprefix("gitdir:").strip()  # of a worktree
    head = _read_start(f"{os.path.join(path, elsewhere) if elsewhere else git}/HEAD")  # noqa: PTH118
    return head.strip().removeprefix(_BRANCH) if head.startswith(_BRANCH) else ""


def is_plain_repository(folder: str) -> bool:
    """Return whether a repository's own settings leave its hooks and settings in `.git`."""
    git = f"{folder}/.git"
    texts = [_read_start(f"{git}/{name}") for name in ("config", "config.worktree")]
    common = f"{git}/commondir"
    return (not os.path.lexists(common) or is_commondir_placeholder(common)) and not any(
        len(text) >= _MAX_SETTINGS_BYTES or _MOVED.search(text) for text in texts
    )


def is_commondir_placeholder(path: str) -> bool:
    """Return whether a file leads git to the same place, as a sandbox's placeholder does."""
    return not os.path.islink(path) and _read_start(path) == COMMONDIR_PLACEHOLDER  # noqa: PTH114


def can_have_commondir(git: str) -> bool:
    """Return whether git works as before if a repository's `.git` has a `commondir`.

    Beside one, git ignores `core.bare` and `core.worktree`.
    """
    return not _RESHAPED.search(_read_start(f"{git}/config"))


def has_worktree_settings(git: str) -> bool:
    """Return whether git may read `config.worktree` in a repository's `.git`."""
    return "worktreeconfig" in _read_start(f"{git}/config").lower()


def list_modules(root: str, top: str) -> dict[str, bool] | None:
    """Return a folder's repositories, and whether each is a link, or None for too many.

    Submodule names have slashes, and submodules can have submodules. A command can add and remove
    files such as HEAD, so no folder is skipped because of them.
    """
    modules, waiting, left = dict[str, bool](), [top], _MAX_MODULE_ENTRIES
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(f"{root}/{folder}") as scanned:
                entries = list(itertools.islice(scanned, left))
        except FileNotFoundError:
            continue
        except OSError:  # what cannot be listed is protected as a whole
            return None
        left -= len(entries)
        if any(entry.name in _REPOSITORY and not entry.is_dir() for entry in entries):
            modules[folder] = False
        inner = [entry for entry in entries if entry.name not in _NO_MODULES]
        links = [entry for entry in inner if entry.is_symlink() and not entry.is_file()]
        folders = [entry for entry in inner if entry.is_dir(follow_symlinks=False)]
        modules |= {f"{folder}/{entry.name}": True for entry in links}
        waiting += [f"{folder}/{entry.name}" for entry in folders]
        if left <= 0 or len(modules) > _MAX_MODULES:  # too many to read or to mount
            return None
    return modules


def _iterate_settings(files: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield settings from files and their included files, each with its folder.

    If there are too many to read, the last one is an include without a value.
    """
    waiting, most = list(files), len(files) + _MAX_SETTINGS_FILES
    for path in waiting:  # grows while it is read
        folder = os.path.dirname(path)  # noqa: PTH120
        for key, value in _read_settings(path):
            if key in _INCLUDES and len(waiting) >= most:
                yield folder, _UNREAD, ""
                return
            yield folder, key, value
            waiting += [_resolve(folder, value)] if key in _INCLUDES and value else []


def _settings_files(root: str) -> list[str]:
    """Return the files from which git reads settings in a workspace."""
    folder = f"{root}/.git"
    if pointer := _read_start(folder).removeprefix("gitdir:").strip():
        folder = _resolve(root, pointer)
    common = _resolve(folder, _read_start(f"{folder}/commondir").strip() or ".")
    home = os.path.expanduser("~")  # noqa: PTH111  without a home folder, pathlib would raise
    own = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    user = (f"{home}/.gitconfig", f"{own}/git/config", "/etc/gitconfig")
    return [f"{common}/config", f"{folder}/config.worktree", *user]


def _resolve(folder: str, value: str) -> str:
    return os.path.normpath(os.path.join(folder, os.path.expanduser(value)))  # noqa: PTH111, PTH118


def _inside(root: str, folder: str, value: str) -> Iterator[str]:
    """Yield a path relative to the workspace, as it is spelled and where its links lead."""
    spelled = _resolve(folder, value)
    for path in (spelled, os.path.realpath(spelled)):
        if path.startswith(f"{root}/"):
            yield path[len(root) + 1 :]


def _read_settings(path: str) -> tuple[tuple[str, str], ...]:
    """Return a file's settings naming other files, or nothing if it cannot be read."""
    try:
        about = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return ()
    return _parse_settings(path, (about.st_ino, about.st_mtime_ns, about.st_size))


@lru_cache(maxsize=64)
def _parse_settings(path: str, _state: object) -> tuple[tuple[str, str], ...]:
    section, found, text = "", list[tuple[str, str]](), _read_start(path)
    if len(text) >= _MAX_SETTINGS_BYTES:
        found.append((_UNREAD, ""))
    for line in _CONTINUED.sub(r"\1", text.removeprefix("\ufeff")).split("\n"):
        at = 0
        while named := _SECTION.match(line, at):
            section, at = named[1].lower(), named.end()
        name, _, value = line[at:].partition("=")
        key = f"{section.partition('.')[0]}.{name.strip().lower()}"
        if key in _NAMING and (named_value := _read_value(value)) and "\0" not in named_value:
            found.append((key, named_value))
    return tuple(found)


def _read_value(raw: str) -> str:
    """Return a value without quotes, escapes and the comment after it."""
    text = ""
    for quoted, escaped, comment, plain in _VALUE.findall(raw.strip()):
        if comment:
            break
        text += _ESCAPE.sub(r"\1", quoted) + escaped + plain
    return text.strip()


def _read_start(path: str) -> str:
    """Return a regular file's start, or "" if it cannot be read."""
    try:
        fd = os.open(path, READ)
    except (OSError, ValueError):
        return ""
    try:
        regular = stat.S_ISREG(os.fstat(fd).st_mode)
        return os.fsdecode(os.read(fd, _MAX_SETTINGS_BYTES)) if regular else ""
    finally:
        os.close(fd)
