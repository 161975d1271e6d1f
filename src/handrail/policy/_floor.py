"""The floor: what is asked about in every mode, whatever rules allow."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import dropwhile, takewhile

from handrail import READ, WRITE, Access
from handrail.policy._wrappers import base

_FOLDERS = frozenset(
    """
    .git .handrail .ssh .gnupg .aws .kube .docker .vscode .idea .husky .claude .cursor .codex
    .gemini .agents .devcontainer .venv .direnv
    """.split()
)
"""Nothing below these is written without a question."""
_FILES = frozenset(
    """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile
    .zlogin .zlogout .kshrc .login .cshrc .tcshrc .inputrc .gitconfig .gitmodules .gitattributes
    .ripgreprc .mcp.json .envrc .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pypirc .netrc .curlrc
    .wgetrc .vimrc .exrc .tmux.conf .pre-commit-config.yaml handrail.toml agents.md claude.md
    gemini.md conftest.py sitecustomize.py usercustomize.py authorized_keys
    """.split()
)
"""Files that run, or that steer what runs, on somebody's behalf."""
_TRAILING = re.compile(r"[. ]+(?=/|$)")
_PLACES = ("github/workflows", ".github/actions", ".circleci", ".gitlab-ci.yml", "git~1")


def own(paths: Iterable[str]) -> tuple[str, ...]:
    """Paths that a host program wants protected besides, as accesses are compared with them."""
    resources = (Access(WRITE, f"file:{one}").resource for one in paths)
    return tuple(dict.fromkeys(_plain(one.removeprefix("file:")) for one in resources))


def protected(access: Access, besides: Sequence[str] = ()) -> bool:
    """Whether an access would change what no mode lets pass unasked, there already or not.

    ``besides`` are files and folders that are protected, too; see ``own``.
    """
    scheme, _, path = access.resource.partition(":")
    if access.verb == READ or scheme != "file":
        return False
    plain = _plain(path)
    segments = plain.split("/")
    return (
        not _FOLDERS.isdisjoint(segments)
        or segments[-1] in _FILES
        or any(place in plain for place in _PLACES)
        or any(plain == one or plain.startswith(f"{one}/" if one else "") for one in besides)
    )


def _plain(path: str) -> str:
    """A path as forgiving file systems read it: no case, no width, no invisible characters."""
    if path.isascii():
        return _TRAILING.sub("", path.lower())
    text = unicodedata.normalize("NFKD", path).casefold()
    seen = "".join(one for one in text if unicodedata.category(one) not in ("Cf", "Mn"))
    return _TRAILING.sub("", seen)


_WIDE = re.compile(
    r"(?:/[^/]*|~[^/]*|\$\{?HOME\}?|/(?:home|Users)/[^/]+|\.)(?:/\*)?|/[^/]+/\*"
    r"|(?:\.\./)*\.\.(?:/\*)?|\*"
)
"""The root and what lies directly in it; somebody's home; all that is here, or above."""
_DISK = re.compile(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mapper|dm-|md)\S*")
_FIND_OPTION = re.compile(r"-[HLP]|-O\d*|-D|--|[a-z,]+")
_ENDS = frozenset(["shutdown", "reboot", "halt", "poweroff"])
_DISKS = frozenset(["fdisk", "parted", "wipefs", "sfdisk", "sgdisk", "blkdiscard"])
_OVER_ALL = frozenset(["rm", "chmod", "chown", "chgrp", "shred", "srm"])


def catastrophic(argv: Sequence[str]) -> str:
    """What a command would wreck beyond the workspace; empty where it would not."""
    name = base(argv[0])
    if name not in _LOOKED_AT and not name.startswith("mkfs"):
        return ""
    return next((found for check in _CHECKS if (found := check(name, argv[1:]))), "")


def _over_all(name: str, words: Sequence[str]) -> str:
    operands = [word for word in words if not word.startswith("-")]
    if name not in _OVER_ALL or not _recursive(words):
        return ""
    if "--no-preserve-root" in words:
        return f"{name} on the root of the file system"
    if "" in operands or not operands:
        return f"{name} on what only the shell will know"
    wide = _first(_WIDE, operands)
    return f"{name} on all of {wide}" if wide else ""


def _found(name: str, words: Sequence[str]) -> str:
    if name != "find" or "-delete" not in words:
        return ""
    after_options = dropwhile(_FIND_OPTION.fullmatch, words)
    places = takewhile(lambda word: not word.startswith(("-", "(", "!")), after_options)
    wide = _first(_WIDE, [word for word in places if _tidy(word) != "."])
    return f"find -delete on all of {wide}" if wide else ""


def _moved(name: str, words: Sequence[str]) -> str:
    operands = [word for word in words if not word.startswith("-")]
    wide = _first(_WIDE, operands[:-1]) if name == "mv" else ""
    return f"mv of all of {wide}" if wide[:1] in ("/", "~", "$") else ""


def _machine(name: str, words: Sequence[str]) -> str:
    if name == "kill" and ("-1" in words[1:] or list(words) == ["-1"]):
        return "kill of every process"
    return f"{name} of this machine" if name in _ENDS else ""


def _disk(name: str, words: Sequence[str]) -> str:
    if name.startswith("mkfs") or name in _DISKS:
        return f"{name} on a disk"
    hit = _first(_DISK, _values(words)) if name in ("dd", "tee", "cp", "shred") else ""
    return f"{name} over {hit}" if hit else ""


_LOOKED_AT = _OVER_ALL | _ENDS | _DISKS | {"find", "mv", "kill", "dd", "tee", "cp"}
_CHECKS = (_over_all, _found, _moved, _machine, _disk)


def wrecks(redirects: Iterable[str]) -> str:
    """A disk that a redirection would overwrite; empty where none."""
    return _first(_DISK, redirects)


def _recursive(words: Sequence[str]) -> bool:
    return any(
        (word[:3] in ("--r", "--n") and ("--recursive".startswith(word) or "--no-pre" in word))
        or (word[:1] == "-" and word[1:2] != "-" and ("r" in word or "R" in word))
        for word in words
    )


def _values(words: Iterable[str]) -> list[str]:
    return [word.partition("=")[2] or word for word in words]


def _first(pattern: re.Pattern[str], words: Iterable[str]) -> str:
    return next((word for word in words if pattern.fullmatch(_tidy(word))), "")


def _tidy(word: str) -> str:
    """A path without detours."""
    return re.sub("^/+", "/", posixpath.normpath(word)) if word else ""
