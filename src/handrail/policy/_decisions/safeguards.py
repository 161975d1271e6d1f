"""Safeguards: changes needing approval in every mode, whatever the rules allow."""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import dropwhile, pairwise, takewhile
from types import MappingProxyType

from handrail import READ, WRITE, Access
from handrail._support.git_settings import find_git_paths
from handrail._support.obeyed_names import OBEYED_NAMES, find_name, index_names
from handrail._support.own_files import (
    find_code_folders,
    find_environment,
    is_run_database,
    list_code_folders,
)
from handrail.policy._rules.shell_command import ShellCommand
from handrail.policy._shell.wrappers import program_name, without_version

_NAMES = index_names(OBEYED_NAMES)
_NONE: Mapping[str, str] = MappingProxyType({})
_APPLICATION = "your application protects it"
_HOOKS = "git runs the hooks in it"
_SETTINGS = "git runs commands from it"
_CODE = "this program imports code from {}, outside the sandbox"
_RUNS = "handrail keeps runs in it"
_ENVIRONMENT = "Python runs code from the environment {}"
_TRAILING = re.compile(r"(?<![. ])[. ]++(?=/|$)")


def normalize_paths(paths: Iterable[str], reason: str = _APPLICATION) -> dict[str, str]:
    """Return additional protected paths in the form ``find_protection`` compares."""
    resources = (Access(WRITE, f"file:{path}").resource for path in paths)
    return {_fold_path(resource.removeprefix("file:")): reason for resource in resources}


class ProtectedFiles:
    """Files whose changes need approval in every mode, in one workspace or in none.

    ``protected`` are your application's files and folders.
    """

    def __init__(
        self, workspace: str | os.PathLike[str] | None, protected: Iterable[str] = ()
    ) -> None:
        self._root = "" if workspace is None else os.path.realpath(workspace)
        spelled = "" if workspace is None else os.path.abspath(workspace)  # noqa: PTH100
        self._tops = ("", f"{spelled}/", f"{self._root}/") if self._root else ()
        """What may precede a workspace file's path. Links are not followed."""
        hooks, settings = find_git_paths(self._root) if self._root else ((), ())
        self.named = {
            **self._in_workspace(dict.fromkeys(hooks, _HOOKS)),
            **self._in_workspace(dict.fromkeys(settings, _SETTINGS)),
            **normalize_paths(protected),
        }
        """Paths named by git's settings and your application, with reasons."""
        self._code: tuple[tuple[str, ...], Mapping[str, str]] = ((), _NONE)

    def find_reasons(self, accesses: Iterable[Access]) -> Iterator[tuple[Access, str]]:
        """Yield the accesses needing approval in every mode, each with the reason."""
        named = {**self.named, **self._list_code()}
        for access in accesses:
            why = find_protection(access, named)
            if not why and self.depends_on_disk(access):
                why = self._describe_own(access.resource.removeprefix("file:"))
            if why:
                yield access, why

    def lacks_repository(self) -> bool:
        """Return whether the workspace has no `.git`, so git would obey a new one."""
        git = f"{self._root}/.git"
        has_one = os.path.isfile(git) or os.path.lexists(f"{git}/HEAD")  # noqa: PTH113  often
        return bool(self._root) and not has_one

    def depends_on_disk(self, access: Access) -> bool:
        """Return whether the reason may be another one when files appear in the workspace."""
        return access.verb != READ and access.resource.startswith(
            "file:" if self._root else "file:/"
        )

    def _list_code(self) -> Mapping[str, str]:
        """Return the workspace folders this process imports code from, as of now."""
        folders = list_code_folders() if self._root else ()
        if self._code[0] != folders:
            names = [path[len(self._root) + 1 :] for path in find_code_folders(self._root)]
            self._code = folders, self._in_workspace({name: _CODE.format(name) for name in names})
        return self._code[1]

    def _describe_own(self, path: str) -> str:
        """Return why an environment's or a run's file is protected, or ""."""
        whole = path if path.startswith("/") else f"{self._root}/{path}"
        if is_run_database(whole):
            return _RUNS
        found = find_environment(whole, self._root)
        return _ENVIRONMENT.format(found.removeprefix(f"{self._root}/")) if found else ""

    def _in_workspace(self, reasons: Mapping[str, str]) -> dict[str, str]:
        """Return workspace paths, relative and absolute, with reasons."""
        return {
            path: why
            for name, why in reasons.items()
            for path in normalize_paths((top + name for top in self._tops), why)
        }


def find_protection(access: Access, additional: Mapping[str, str] = _NONE) -> str:
    """Return why a change needs approval in every mode; empty if it does not.

    The file need not exist. ``additional`` are more protected paths: see ``normalize_paths``.
    """
    scheme, _, path = access.resource.partition(":")
    if access.verb == READ or scheme != "file":
        return ""
    folded = _fold_path(path)
    if row := find_name(_NAMES, folded.split("/")):
        return row.why
    return next((why for other, why in additional.items() if _is_within(folded, other)), "")


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


_READERS = frozenset(
    """
    [ [[ test cat head tail wc ls stat file grep egrep fgrep rg diff cmp comm cut nl od hexdump jq
    md5sum sha1sum sha256sum sha512sum cksum readlink realpath basename dirname du df pwd which type
    echo printf true false : export declare typeset local readonly unset source . more bat tac tr
    column fold rev strings
    """.split()
)
"""Programs changing no named file. A program they run counts by itself."""
_CHECKERS = frozenset(
    """
    sed sort yq eslint actionlint yamllint hadolint shellcheck mypy pyright flake8 pylint pytest
    prettier black isort ruff
    """.split()
)
"""Programs changing files only with some flags, or only without others."""
_CHANGING_FLAG = re.compile(r"-(?:(?![iow])\w)*+[iow].*|--(?:o|w|fix|in|junit|basetemp).*")
_FORMATTERS = frozenset(["prettier", "black", "isort"])
_CHECKING_FLAGS = frozenset("--check --check-only -c --list-different --diff".split())
_NAME_READERS = frozenset(
    "[ [[ test ls stat du which type echo printf basename dirname realpath readlink".split()
)
"""Programs showing no file content."""
_GIT_NAME_READERS = frozenset("check-ignore ls-files rm status".split())
_GIT_READERS = frozenset(
    """
    add blame cat-file check-ignore commit describe diff fetch grep log ls-files ls-tree push
    rev-list rev-parse shortlog show show-ref stage status
    """.split()
)
"""Git commands that do not change the files named by their words."""
_FIND_CHANGES = frozenset(
    "-delete -exec -execdir -ok -okdir -fprint -fprint0 -fprintf -fls".split()
)
_NEGATIONS, _PATTERNS = frozenset(["!", "-not"]), frozenset("-path -ipath -wholename".split())
"""``find`` words before a pattern for paths it leaves out."""
_INTERPRETERS = frozenset("bash sh dash zsh python node ruby perl".split())
_SCRIPT_FLAG = re.compile(r"-[BEIOeuvx]+")
"""Flags before a script, after which it is still only read."""
_LEFT_OUT = ("--exclude", "--exclude-dir")
"""Options whose values are what a program does not touch."""
_NEUTRAL = _READERS | frozenset("cd for case select read".split())
"""Words at the beginning of text parts without changes, if the other parts only read."""
_NAMED_READERS = "|".join(map(re.escape, sorted(_READERS)))
_REDEFINED = r"\b(?:alias|function|enable)\b|\bhash\s+-\w*p|\(\s*\)"
_UNSURE = re.compile(
    rf"{_REDEFINED}|\b(?:read|mapfile|readarray)\b|`|[$<]\(|\b(?:xargs|parallel)\b"
    rf"(?!(?:\s+(?:-[0rt]+|-[LPn]\s?\d+|-I\s?\{{\}}))*\s+(?:{_NAMED_READERS})\s)"
)
"""A program may have another meaning here, or its output may be words for a writing one."""


def find_name_readers(command: ShellCommand) -> frozenset[tuple[str, ...]]:
    """Return the commands in a shell command that show at most file names."""
    named = frozenset(argv for argv in command.possible if _shows_names(argv))
    return named if named and not _is_unsure(command.text) else frozenset()


@lru_cache(maxsize=8)
def _is_unsure(text: str) -> bool:
    """Return whether programs in a text may have other meanings. Asked for each command in it."""
    return _UNSURE.search(text) is not None


def _shows_names(argv: Sequence[str]) -> bool:
    if argv[0] == "git":
        return _git_command(argv[1:]) in _GIT_NAME_READERS
    return argv[0] in _NAME_READERS or (argv[0] == "find" and _only_reads(argv))


def changes_nothing(command: ShellCommand) -> bool:
    """Return whether every program in a command only reads, so no word names a change."""
    return (
        {"/dev/null"}.issuperset(command.files)
        and all(argv[0] in _NEUTRAL or _only_reads(argv) for argv in command.possible)
        and re.search(_REDEFINED, command.text) is None
    )


def find_written_words(
    text: str, commands: Iterable[Sequence[str]], *, read_only: bool = False
) -> set[str]:
    """Return the command words that may name files to change.

    ``text`` holds the commands. ``read_only`` says rules declare them so.
    """
    unsure = _is_unsure(text)
    return {
        word
        for argv in commands
        if unsure or not (read_only or _only_reads(argv))
        for before, word in pairwise(
            argv if unsure or "PATH=" in text else _without_exceptions(argv)
        )
        if before not in _LEFT_OUT and word.partition("=")[0] not in _LEFT_OUT
        # HEAD is nearly always a revision. A repository made from plain files is reported later.
        if word.rpartition("/")[2].upper() != "HEAD"
        if not (word.strip("./") == "venv" and _makes_environment(argv))
    }


def _without_exceptions(argv: Sequence[str]) -> Sequence[str]:
    """Return a command without words for files it leaves alone, or only runs."""
    if argv[0] == "find":
        named = zip(("", "", *argv), ("", *argv), argv, strict=False)
        return [word for one, two, word in named if one not in _NEGATIONS or two not in _PATTERNS]
    return _without_script(argv)


def _without_script(argv: Sequence[str]) -> Sequence[str]:  # skills have scripts: decision 052
    """Return a command without its script: an interpreter only reads this file."""
    at = 2 if tuple(argv[:2]) == ("uv", "run") else 0
    if without_version("".join(argv[at : at + 1])) in _INTERPRETERS:
        at += 1
        at += len(list(takewhile(_SCRIPT_FLAG.fullmatch, argv[at:])))
    names_script = at > 0 and not "".join(argv[at : at + 1]).startswith("-")
    return (*argv[:at], *argv[at + 1 :]) if names_script else argv


def _makes_environment(argv: Sequence[str]) -> bool:
    """Return whether a command makes a Python environment. The sandbox holds an existing one."""
    program, words = without_version(program_name(argv[0])), tuple(argv[1:3])
    return (
        program == "virtualenv"
        or (program == "uv" and words[:1] == ("venv",))
        or (program == "python" and words in (("-m", "venv"), ("-m", "virtualenv")))
    )


def _only_reads(argv: Sequence[str]) -> bool:
    program, words = argv[0], argv[1:]
    if program == "find":
        return _FIND_CHANGES.isdisjoint(words)
    if program == "git":
        return _git_command(words) in _GIT_READERS and not any(
            word.startswith("--ou") for word in words
        )
    if program in _CHECKERS:
        return _only_checks(program, words)
    return program in _READERS or program.startswith("-")  # options are no programs


def _only_checks(program: str, words: Sequence[str]) -> bool:
    if program in _FORMATTERS and _CHECKING_FLAGS.isdisjoint(words):
        return False
    if program == "ruff" and "check" not in words[:1]:
        return False
    return not any(map(_CHANGING_FLAG.fullmatch, words))


def makes_repository(argv: Sequence[str]) -> bool:
    """Return whether a command makes its working folder a git repository."""
    name, *operands = [word for word in argv[1:] if not word.startswith("-")] or [""]
    if argv[0] != "git" or name not in ("init", "clone"):
        return False
    folder = operands[name == "clone" :][:1] or ["." if name == "init" else ""]
    return posixpath.normpath(folder[0] or "new") == "."


def _git_command(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


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
    """Return the disk a redirection would overwrite, or ""."""
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
