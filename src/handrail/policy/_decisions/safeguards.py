"""Safeguards: changes that need approval in every mode, whatever the rules allow."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import dropwhile, takewhile

from handrail import READ, WRITE, Access
from handrail.policy._shell.wrappers import program_name


def _by_name(names_by_reason: Mapping[str, str]) -> dict[str, str]:
    return {name: reason for reason, names in names_by_reason.items() for name in names.split()}


_FOLDERS = _by_name(
    {
        "git runs hooks and commands from {}": ".git",
        "git runs the hooks in {}": ".husky",
        "handrail reads settings and rules from {}": ".handrail",
        "{} holds keys and credentials": ".ssh .gnupg .aws .kube .docker",
        "your editor runs tasks from {}": ".vscode .idea .devcontainer",
        "coding agents obey the files in {}": ".claude .cursor .codex .gemini .agents",
        "Python runs code from {}": ".venv",
        "direnv loads {}": ".direnv",
    }
)
"""Folders in which every change needs approval, each with the reason."""
_FILES = _by_name(
    {
        "your shell runs it": (
            ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv "
            ".zprofile .zlogin .zlogout .kshrc .login .cshrc .tcshrc"
        ),
        "your shell takes key bindings from it": ".inputrc",
        "git runs commands from it": ".gitconfig .gitmodules .gitattributes",
        "ripgrep takes options from it": ".ripgreprc",
        "coding agents start the servers in it": ".mcp.json",
        "coding agents obey it": "agents.md claude.md gemini.md",
        "direnv runs it": ".envrc",
        "package managers obey it": ".npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pypirc",
        "it holds passwords": ".netrc",
        "curl takes options from it": ".curlrc",
        "wget takes options from it": ".wgetrc",
        "vim runs it": ".vimrc .exrc",
        "tmux runs it": ".tmux.conf",
        "pre-commit runs commands from it": ".pre-commit-config.yaml",
        "handrail takes settings from it": "handrail.toml",
        "pytest runs it": "conftest.py",
        "Python runs it at startup": "sitecustomize.py usercustomize.py",
        "it decides who can log in": "authorized_keys",
    }
)
"""Files that other programs run or obey, each with the reason."""
_PATHS = _by_name(
    {
        "CI runs it": ".github/workflows .github/actions .circleci .gitlab-ci.yml",
        "git runs hooks and commands from it": "git~1",
    }
)
"""Parts of paths, each with the reason."""
_TRAILING = re.compile(r"[. ]+(?=/|$)")


def normalize_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """Return additional protected paths in the form that ``find_protection`` compares."""
    resources = (Access(WRITE, f"file:{path}").resource for path in paths)
    return tuple(
        dict.fromkeys(_fold_path(resource.removeprefix("file:")) for resource in resources)
    )


def find_protection(access: Access, additional: Sequence[str] = ()) -> str:
    """Return why a change needs approval in every mode; empty if it does not.

    The file need not exist. ``additional`` are more protected paths: see ``normalize_paths``.
    """
    scheme, _, path = access.resource.partition(":")
    if access.verb == READ or scheme != "file":
        return ""
    folded = _fold_path(path)
    segments = folded.split("/")
    if not _FOLDERS.keys().isdisjoint(segments):
        folder = next(segment for segment in segments if segment in _FOLDERS)
        return _FOLDERS[folder].format(folder)
    if segments[-1] in _FILES:
        return _FILES[segments[-1]]
    if any(_is_within(folded, other) for other in additional):
        return "your application protects it"
    return next((reason for part, reason in _PATHS.items() if part in folded), "")


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/" if folder else "")


def _fold_path(path: str) -> str:
    """Fold a path as lenient file systems do: no case, no width, no invisible characters."""
    if path.isascii():
        return _TRAILING.sub("", path.lower())
    text = unicodedata.normalize("NFKD", path).casefold()
    visible = "".join(
        character for character in text if unicodedata.category(character) not in ("Cf", "Mn")
    )
    return _TRAILING.sub("", visible)


_WIDE = re.compile(
    r"(?:/[^/]*|~[^/]*|\$\{?HOME\}?|/(?:home|Users)/[^/]+|\.)(?:/\*)?|/[^/]+/\*"
    r"|(?:\.\./)*\.\.(?:/\*)?|\*"
)
"""The root and its direct children, home folders, the current folder, and folders above it."""
_DISK = re.compile(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mapper|dm-|md)\S*")
_FIND_OPTION = re.compile(r"-[HLP]|-O\d*|-D|--|[a-z,]+")
_ENDS = frozenset(["shutdown", "reboot", "halt", "poweroff"])
_DISKS = frozenset(["fdisk", "parted", "wipefs", "sfdisk", "sgdisk", "blkdiscard"])
_RECURSIVE = {
    "rm": "delete",
    "shred": "delete",
    "srm": "delete",
    "chmod": "change",
    "chown": "change",
    "chgrp": "change",
}
"""Programs with a recursive option, and what they do to files."""


def describe_catastrophe(argv: Sequence[str]) -> str:
    """Return how a command could damage the whole system; empty if it could not."""
    name = program_name(argv[0])
    if name not in _CHECKED_PROGRAMS and not name.startswith("mkfs"):
        return ""
    return next((damage for check in _CHECKS if (damage := check(name, argv[1:]))), "")


def _check_recursion(name: str, words: Sequence[str]) -> str:
    operands = [word for word in words if not word.startswith("-")]
    if name not in _RECURSIVE or not _is_recursive(words):
        return ""
    if "--no-preserve-root" in words:
        return f"{name} would {_RECURSIVE[name]} the root of the file system"
    if "" in operands or not operands:
        return f"{name} would {_RECURSIVE[name]} files that only the shell can name"
    wide = _first_match(_WIDE, operands)
    return f"{name} would {_RECURSIVE[name]} all of {wide}" if wide else ""


def _check_find(name: str, words: Sequence[str]) -> str:
    if name != "find" or "-delete" not in words:
        return ""
    after_options = dropwhile(_FIND_OPTION.fullmatch, words)
    folders = takewhile(lambda word: not word.startswith(("-", "(", "!")), after_options)
    wide = _first_match(_WIDE, [word for word in folders if _tidy_path(word) != "."])
    return f"find would delete all of {wide}" if wide else ""


def _check_move(name: str, words: Sequence[str]) -> str:
    operands = [word for word in words if not word.startswith("-")]
    wide = _first_match(_WIDE, operands[:-1]) if name == "mv" else ""
    return f"mv would move all of {wide}" if wide[:1] in ("/", "~", "$") else ""


def _check_system(name: str, words: Sequence[str]) -> str:
    if name == "kill" and ("-1" in words[1:] or list(words) == ["-1"]):
        return "kill would end every process"
    return f"{name} would stop or restart this machine" if name in _ENDS else ""


def _check_disk(name: str, words: Sequence[str]) -> str:
    if name.startswith("mkfs") or name in _DISKS:
        return f"{name} would change a disk"
    hit = _first_match(_DISK, _option_values(words)) if name in ("dd", "tee", "cp", "shred") else ""
    return f"{name} would overwrite {hit}" if hit else ""


_CHECKED_PROGRAMS = _RECURSIVE.keys() | _ENDS | _DISKS | {"find", "mv", "kill", "dd", "tee", "cp"}
_CHECKS = (_check_recursion, _check_find, _check_move, _check_system, _check_disk)


def find_overwritten_disk(redirects: Iterable[str]) -> str:
    """Return the disk that a redirection would overwrite; empty if none."""
    return _first_match(_DISK, redirects)


def _is_recursive(words: Sequence[str]) -> bool:
    return any(
        (word[:3] in ("--r", "--n") and ("--recursive".startswith(word) or "--no-pre" in word))
        or (word[:1] == "-" and word[1:2] != "-" and ("r" in word or "R" in word))
        for word in words
    )


def _option_values(words: Iterable[str]) -> list[str]:
    return [word.partition("=")[2] or word for word in words]


def _first_match(pattern: re.Pattern[str], words: Iterable[str]) -> str:
    return next((word for word in words if pattern.fullmatch(_tidy_path(word))), "")


def _tidy_path(word: str) -> str:
    """Return a path in normal form."""
    return re.sub("^/+", "/", posixpath.normpath(word)) if word else ""
