"""Workspace files that programs outside execute or trust, and secrets in the home folder."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from handrail._support.git_settings import find_git_paths, is_plain_repository
from handrail._support.obeyed_names import OBEYED_NAMES
from handrail.sandbox._git_names import GitName, Reserved, file_type, list_git_names
from handrail.sandbox._values import Restriction, SandboxUnavailable

_NAMES: Final = [row for row in OBEYED_NAMES if row.held != "never"]
"""Some are protected even if they are missing: an editor or an agent obeys them as soon as they
exist. The others are not: a mount point for each would appear in every `ls` and `*`."""
_HELD: Final = [row for row in _NAMES if row.parts[0] != ".git"]
MAX_RESTRICTED: Final = 1_000
"""Files restricted by rules, as mounts. More make each command slow to start."""
SECRETS: Final = """
    .aws .azure .bash_history .boto .cargo/credentials .cargo/credentials.toml
    .claude/.credentials.json .codex/auth.json .config/BraveSoftware .config/chromium
    .config/gcloud .config/gh .config/git/credentials .config/google-chrome .config/op
    .config/rclone .config/sops .docker .gem/credentials .gemini/oauth_creds.json .git-credentials
    .gnupg .gradle/gradle.properties .kube .local/share/fish/fish_history .local/share/keyrings
    .m2/settings.xml .mozilla .my.cnf .mysql_history .netrc .node_repl_history .npmrc
    .password-store .pgpass .psql_history .pypirc .python_history .s3cfg .sqlite_history .ssh
    .terraform.d/credentials.tfrc.json .thunderbird .vault-token .zsh_history
""".split()
"""Paths in the home folder unreadable for commands."""


@dataclass(frozen=True, slots=True)
class ProtectedPaths:
    """The paths to protect at one moment. Equal values need equal mounts."""

    kept: tuple[str, ...]
    """Read-only real paths."""
    missing: tuple[str, ...]
    """Names commands cannot create in the workspace."""
    secret: tuple[str, ...]
    """Real paths commands cannot read."""
    hidden: tuple[str, ...] = ()
    """Real paths in writable folders hidden from this command by a rule."""
    files: tuple[str, ...] = ()
    """Missing names held by small files until the command ends: git rejects a folder."""
    removed: tuple[str, ...] = ()
    """Missing names to remove after the command, if it creates them."""
    opened: tuple[str, ...] = ()
    """Real folder paths writable for this command only."""


def is_beneath(path: str, folder: str) -> bool:
    """Return whether a path is a folder or inside it. Both are real and absolute."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def is_beneath_any(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is one of these folders or inside one."""
    return any(is_beneath(path, folder) for folder in folders)


def folders_above(path: str) -> list[str]:
    """Return the folders containing an absolute path."""
    return [path[:at] or "/" for at, letter in enumerate(path) if letter == "/"]


def list_protected_names(opened: Collection[str]) -> tuple[str, ...]:
    """Return the names protected in every workspace, minus the writable ones."""
    names = (row.name for row in _NAMES)
    return tuple(name for name in names if not is_beneath_any(name, opened))


def find_protected(
    root: str,
    opened: Collection[str],
    secret: Collection[str],
    besides: Collection[str],
    *,
    reserved: Iterable[str] = (),
) -> ProtectedPaths:
    """Return the paths to protect. Raises SandboxUnavailable for a link at a reserved name.

    ``besides`` are more real paths to protect, ``reserved`` more names commands cannot create. If
    the root itself is read-only, nothing inside needs more.
    """
    if root in besides:
        return ProtectedPaths((root,), (), tuple(secret))
    kept = [path for path in besides if not is_beneath_any(path, secret)]
    missing: dict[Reserved, list[str]] = {"folder": list(reserved), "file": [], "removed": []}
    real = {root: True}
    for name, reserving, refuses_link in _protectable_names(root):
        if opened and is_beneath_any(name, opened):
            continue
        path = f"{root}/{name}"
        kind = file_type(path)
        if kind == stat.S_IFLNK or (kind and not _is_real(path, real)):
            kept += _link_target(root, name, refused=refuses_link)
        elif kind:
            kept.append(path)
        elif reserving and os.path.isdir(folder := os.path.dirname(path)):  # noqa: PTH112, PTH120
            writable = reserving != "file" or os.access(folder, os.W_OK, effective_ids=True)
            missing[reserving if writable else "removed"].append(name)
    kept = outermost([*_paths_of_git(root, opened, kept), *kept])
    files, removed = missing["file"], missing["removed"]
    return ProtectedPaths(
        tuple(kept), tuple(missing["folder"]), tuple(secret), (), tuple(files), tuple(removed)
    )


def _is_real(path: str, known: dict[str, bool]) -> bool:
    """Return whether no link is above a path. ``known`` has the answers for folders."""
    folder = os.path.dirname(path)  # noqa: PTH120  before every command
    if folder not in known:
        known[folder] = os.path.realpath(folder) == folder
    return known[folder]


def _protectable_names(root: str) -> Iterator[GitName]:
    yield from list_git_names(root)
    for row in _HELD:
        always = row.held == "always"
        yield GitName(row.name, "folder" if always else "", refuses_link=always)


def _paths_of_git(root: str, opened: Collection[str], kept: Collection[str]) -> list[str]:
    """Return what git's settings name in the workspace, without what is protected already."""
    found: list[str] = []
    for name in itertools.chain(*find_git_paths(root)):
        path = os.path.realpath(f"{root}/{name}")
        free = is_beneath_any(name, opened)
        known = is_beneath_any(path, (*kept, *found))
        if not free and not known and is_beneath(path, root) and path != root and file_type(path):
            found.append(path)
    return found


def has_index_hook(root: str, folder: str) -> bool:
    """Return whether a hook may run when git writes a folder's repository index.

    The index of a repository around the workspace cannot be written.
    """
    while folder != root and not file_type(f"{folder}/.git"):
        folder = os.path.dirname(folder)  # noqa: PTH120  before every command
    kind = file_type(f"{folder}/.git")
    if not kind:
        return False
    hooks = (".git/hooks", *find_git_paths(folder).hooks)
    return (
        kind != stat.S_IFDIR
        or not is_plain_repository(folder)
        or any(file_type(f"{folder}/{path}/post-index-change") for path in hooks)
    )


def _link_target(root: str, name: str, *, refused: bool) -> list[str]:
    """Return a link's target, if it is in the workspace. A link cannot be protected."""
    if refused:
        raise SandboxUnavailable(
            f"{name} in the workspace is a symbolic link, which a command could replace. "
            f"Replace it by a file or folder, or pass writable=({name!r},) to leave it unprotected."
        )
    target = os.path.realpath(f"{root}/{name}")
    return [target] if target != root and is_beneath(target, root) and file_type(target) else []


def find_restricted(
    root: str,
    written: Collection[str],
    restricted: Mapping[str, Restriction],
    *,
    masked: Collection[str],
) -> tuple[list[str], list[str]]:
    """Return the real paths in writable folders hidden by rules, and those protected by them.

    A missing or masked path needs nothing. One leading elsewhere can be read there anyway.
    """
    found: dict[Restriction, list[str]] = {"hidden": [], "read-only": []}
    for name, restriction in restricted.items():
        path = os.path.realpath(f"{root}/{name}")
        inside = is_beneath_any(path, written)
        free = not is_beneath(root, path) and not is_beneath_any(path, masked)
        if inside and free and file_type(path):
            found[restriction].append(path)
    hidden = outermost(found["hidden"])
    if len(hidden) > MAX_RESTRICTED or len(found["read-only"]) > MAX_RESTRICTED:
        raise SandboxUnavailable(
            f"Rules restrict more than {MAX_RESTRICTED:,} files of the workspace, too many for "
            "bubblewrap. Write rules about whole folders, such as `file:secrets/**`."
        )
    return hidden, outermost(found["read-only"])


def outermost(paths: Iterable[str]) -> list[str]:
    """Return paths without those inside others."""
    outer: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        if not outer or not is_beneath(path, outer[-1]):
            outer.append(path)
    return outer


def find_kept(root: str, named: Collection[str]) -> list[str]:
    """Return the workspace's real paths to preserve unchanged."""
    real = [os.path.realpath(path) for path in named]
    for name, path in zip(named, real, strict=True):
        if path != root and is_beneath(root, path):
            raise SandboxUnavailable(
                f"The workspace is inside {name}, which read_only protects. Choose another path."
            )
        for link in find_links(name):
            if is_beneath(link, root) and not is_beneath_any(link, real):
                raise SandboxUnavailable(
                    f"{name} cannot be protected: {link} is a symbolic link in the workspace, "
                    "which a command could replace."
                )
    inside = sorted({path for path in real if is_beneath(path, root)})
    gone = next((path for path in inside if not file_type(path)), None)
    if gone is not None:
        raise SandboxUnavailable(
            f"{gone} cannot be protected: it does not exist, and a command could create it."
        )
    return inside


def find_links(path: str) -> set[str]:
    """Return the links on a path, by their real paths."""
    links: set[str] = set()
    todo = [Path(path)]
    while todo:
        last = todo.pop()
        for step in (last, *last.parents):
            folder = os.path.realpath(step.parent)
            link = os.path.join(folder, step.name)  # noqa: PTH118  there are many
            if link not in links and file_type(link) == stat.S_IFLNK:
                links.add(link)
                todo.append(Path(folder, Path(link).readlink()))
    return links


def list_secret_names(root: str, masked: Iterable[str]) -> list[str]:
    """Return possible secret locations: in the home folder, and the masked paths."""
    home = os.path.expanduser("~")  # noqa: PTH111  without a home folder, pathlib would raise
    return [*(f"{home}/{name}" for name in SECRETS), *(f"{Path(root, name)}" for name in masked)]


def find_secrets(named: Iterable[str], written: Collection[str]) -> list[str]:
    """Return the real paths no command can read: existing ones without writable folders."""
    real = sorted({os.path.realpath(path) for path in named if file_type(path)})
    return [
        path
        for path in real
        if file_type(path)
        and not any(is_beneath(folder, path) for folder in written)
        and not any(path != other and is_beneath(path, other) for other in real)
    ]
