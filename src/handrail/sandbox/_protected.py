"""Names in a workspace that programs outside the sandbox act on, and secrets that none may read."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from handrail.sandbox._words import Unavailable

HELD: Final = """
    .agents .claude .codex .cursor .devcontainer .gemini .handrail .husky .idea .mcp.json .vscode
""".split()
"""Held even where they are missing: an editor or an agent that finds them does what they say."""
IN_GIT: Final = (".git/hooks", ".git/config")
KEPT: Final = """
    .bash_login .bash_logout .bash_profile .bashrc .envrc .profile .ssh .venv .zlogin .zprofile
    .zshenv .zshrc handrail.toml
""".split()
"""Read-only where they exist. A place for `handrail.toml` would be in sight of every `ls` and `*`;
a new one counts for nothing until somebody has looked at it."""
_MOST_MODULES: Final = 100
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
"""Of the home folder."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to protect at one moment. Equal scenes need equal mounts."""

    kept: tuple[str, ...]
    """Real paths that are read-only."""
    missing: tuple[str, ...]
    """Names in the workspace that nobody may make."""
    secret: tuple[str, ...]
    """Real paths that nobody may read."""


def beneath(path: str, folder: str) -> bool:
    """Whether a path is in a folder, or is it. Both are real and absolute."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def scene(
    root: str, opened: Collection[str], secret: Collection[str], besides: Iterable[str]
) -> Scene:
    """Look at a workspace. A held name that is a link cannot be held, so it is refused."""
    kept = [one for one in besides if not any(beneath(one, other) for other in secret)]
    missing: list[str] = []
    for name, held in _names(root):
        if opened and any(beneath(name, one) for one in opened):
            continue
        kind = _kind(f"{root}/{name}")
        if kind == stat.S_IFLNK:
            kept += _behind(root, name, held=held)
        elif kind:
            kept.append(f"{root}/{name}")
        elif held:
            missing.append(name)
    return Scene(tuple(kept), tuple(missing), tuple(secret))


def _names(root: str) -> Iterator[tuple[str, bool]]:
    """Each name, and whether it is held even where it is missing."""
    git = _kind(f"{root}/.git")
    if git == stat.S_IFDIR:
        yield from ((name, True) for name in IN_GIT)
        yield ".git/config.worktree", False
        yield from _modules(root)
    elif git:
        yield ".git", True
    yield from ((name, True) for name in HELD)
    yield from ((name, False) for name in KEPT)


def _modules(root: str) -> Iterator[tuple[str, bool]]:
    """What steers the repositories of submodules, one level down. A link on the way is held."""
    top = ".git/modules"
    kind = _kind(f"{root}/{top}")
    if kind == stat.S_IFLNK:
        yield top, True
    elif kind == stat.S_IFDIR:
        found = sorted(one.name for one in os.scandir(f"{root}/{top}"))
        if len(found) > _MOST_MODULES:  # too many for bubblewrap
            yield top, True
            return
        for one in found:
            linked = _kind(f"{root}/{top}/{one}") == stat.S_IFLNK
            parts = [""] if linked else ["/config", "/hooks"]
            yield from ((f"{top}/{one}{part}", linked) for part in parts)


def _kind(path: str) -> int:
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return 0


def _behind(root: str, name: str, *, held: bool) -> list[str]:
    """Where a link leads, if that is in the workspace; the link itself cannot be held."""
    if held:
        raise Unavailable(
            f"{name} in the workspace is a symbolic link, which a command could replace. "
            f"Make it a file or folder of its own, or pass writable=({name!r},) to leave it open."
        )
    target = os.path.realpath(f"{root}/{name}")
    return [target] if target != root and beneath(target, root) and _kind(target) else []


def kept_in(root: str, named: Collection[str]) -> list[str]:
    """The real paths in a workspace of what the host program wants kept, wherever it may lie."""
    real = [os.path.realpath(one) for one in named]
    for name, path in zip(named, real, strict=True):
        if beneath(root, path):
            raise Unavailable(f"The workspace lies in {name}, where no command may write.")
        for link in _links(name):
            if beneath(link, root) and not any(beneath(link, one) for one in real):
                raise Unavailable(
                    f"{name} cannot be kept: {link} is a symbolic link in the workspace, which a "
                    "command could replace."
                )
    inside = sorted({one for one in real if beneath(one, root)})
    gone = next((one for one in inside if not _kind(one)), None)
    if gone is not None:
        raise Unavailable(f"{gone} cannot be kept: it is not there, and a command could make it.")
    return inside


def _links(path: str) -> set[str]:
    """The links that a path passes, by where they really are."""
    found: set[str] = set()
    todo = [Path(path)]
    while todo:
        last = todo.pop()
        for step in (last, *last.parents):
            folder = os.path.realpath(step.parent)
            link = os.path.join(folder, step.name)  # noqa: PTH118  there are many
            if link not in found and _kind(link) == stat.S_IFLNK:
                found.add(link)
                todo.append(Path(folder, os.readlink(link)))  # noqa: PTH115
    return found


def named_secrets(root: str, masked: Iterable[str]) -> list[str]:
    """Where secrets may be: in the home folder, and where the host program says."""
    home = os.path.expanduser("~")  # noqa: PTH111  there may be none, which is no reason to fail
    return [*(f"{home}/{name}" for name in SECRETS), *(f"{Path(root, name)}" for name in masked)]


def secrets(named: Iterable[str], written: Collection[str]) -> list[str]:
    """The real paths that no command may read: those that exist, and hold nothing to be written."""
    real = sorted({os.path.realpath(one) for one in named if _kind(one)})
    return [
        one
        for one in real
        if _kind(one)
        and not any(beneath(folder, one) for folder in written)
        and not any(one != other and beneath(one, other) for other in real)
    ]
