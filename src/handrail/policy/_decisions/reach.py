"""Reads, from a command, which files it reads without naming them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from handrail.policy._shell.wrappers import program_name

FileSet: TypeAlias = Literal["names", "files", "visible files", "tracked files", "history"]
"""Names of files alone, all files, those without a leading dot, those that git tracks, or those of
any commit."""

LISTS_NAMES = frozenset("ls tree find fd fdfind du".split())
"""Programs that show the names of files, and nothing that is in them."""
_SEARCHES = frozenset("grep egrep fgrep zgrep ggrep rgrep diff".split())
_RECURSIVE_SEARCHES = frozenset("rg ag ack ack-grep rgrep".split())
_RECURSIVE_FLAGS = ("--recursive", "--dereference-recursive", "--directories")
_SHOWS_ALL = ("--hidden", "--no-ignore", "--unrestricted", "--glob", "--iglob", "--type")
"""Long flags of rg, or how they start, with which it searches files with a leading dot."""

_PATCH_BY_DEFAULT = frozenset("show diff format-patch range-diff".split())
_PATCH_BY_FLAG = frozenset(
    "log whatchanged reflog rev-list diff-tree diff-index diff-files".split()
)
_TRACKED_ONLY = frozenset("diff diff-files diff-index status".split())
_PATCH_FLAGS = (
    "--patch", "--patch-with-stat", "--patch-with-raw", "--unified", "--function-context",
    "--binary", "--word-diff", "--word-diff-regex", "--color-words", "--cc", "--check",
    "--ext-diff", "--full-diff", "--remerge-diff", "--diff-merges",
)  # fmt: skip
_PATCH_LETTERS = frozenset("puUWcLm")
_NO_PATCH_FLAGS = frozenset(["--color", "--full", "--diff"])
"""Separate flags, or flags that are too short, that others start with."""
_SUMMARY_FLAGS = frozenset(
    "-s --no-patch --stat --numstat --shortstat --summary --name-only --name-status --raw "
    "--compact-summary --dirstat --quiet".split()
)
_OBJECT_QUERIES = frozenset("-e -s -t".split())
_GLOBAL_VALUES = frozenset("-C -c --git-dir --work-tree --namespace --exec-path".split())
_MIN_FLAG_CHARS = 3


class Reach(NamedTuple):
    """The files that a command reads, of which it names at most a folder."""

    files: FileSet
    paths: tuple[str, ...] = ()
    """Paths that restrict it; none if nothing does, or if that is not certain."""


def find_reach(argv: Sequence[str]) -> Reach | None:
    """Return what a command reads without naming it; None if that is nothing, as far as is known.

    Its operands are not understood, so the result is never restricted to some folders, except to
    those that a git command names after ``--``.
    """
    name, words = program_name(argv[0]), argv[1:]
    if name == "git":
        return _find_git_reach(words)
    if name in _RECURSIVE_SEARCHES:
        return None if "--files" in words else Reach(_searched_by_default(name, words))
    recursive = name in _SEARCHES and any(map(_is_recursive, words))
    return Reach("files") if recursive else None


def _searched_by_default(name: str, words: Sequence[str]) -> FileSet:
    shows_all = name != "rg" or any(
        word.startswith(_SHOWS_ALL) or (_is_cluster(word) and set("u.gtT") & set(word[1:]))
        for word in words
    )
    return "files" if shows_all else "visible files"


def _is_recursive(word: str) -> bool:
    if _is_cluster(word):
        return bool(set("rRd") & set(word[1:]))
    return _is_flag(word, _RECURSIVE_FLAGS)


def _is_cluster(word: str) -> bool:
    return word[:1] == "-" != word[1:2]


def _is_flag(word: str, flags: Iterable[str]) -> bool:
    """Return whether a word is one of these long flags, perhaps shortened."""
    name = word.partition("=")[0]
    is_long = name.startswith("--") and len(name) >= _MIN_FLAG_CHARS
    return is_long and any(flag.startswith(name) for flag in flags)


def _find_git_reach(words: Sequence[str]) -> Reach | None:
    command, *rest = _skip_global_flags(words) or [""]
    flags, paths = _split_paths(rest)
    if command == "grep":
        anything = any(_is_flag(word, ("--untracked", "--no-index")) for word in flags)
        return Reach("files" if anything else "tracked files", paths)
    if command in ("show", "cat-file") and all(":" in word for word in _operands_only(flags)):
        return None  # it names one file of a commit, or nothing
    if command == "cat-file":
        return None if _OBJECT_QUERIES & set(flags) else Reach("history")
    if not _shows_patch(command, flags):
        return None
    return Reach("tracked files" if _is_about_now(command, flags) else "history", paths)


def _operands_only(flags: Sequence[str]) -> list[str]:
    """Return the words of ``git show`` or ``git cat-file``; of unusual flags, something else."""
    return [word for word in flags if word not in ("-p", "blob")] or [""]


def _skip_global_flags(words: Sequence[str]) -> list[str]:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in _GLOBAL_VALUES else 1]
    return rest


def _split_paths(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the words before ``--``, and the paths after it; none if one may be a pattern."""
    at = list(words).index("--") if "--" in words else len(words)
    paths = tuple(words[at + 1 :])
    plain = all(path and not set(path) & set("*?[:\\") for path in paths)
    return list(words[:at]), paths if plain else ()


def _shows_patch(command: str, flags: Sequence[str]) -> bool:
    if command == "status":
        return any(
            "v" in word if _is_cluster(word) else _is_flag(word, ["--verbose"]) for word in flags
        )
    by_flag = any(map(_is_patch_flag, flags))
    if command in _PATCH_BY_DEFAULT:
        return by_flag or not any(word.partition("=")[0] in _SUMMARY_FLAGS for word in flags)
    shown = command in _PATCH_BY_FLAG or (command == "stash" and flags[:1] in (["show"], ["list"]))
    return shown and by_flag


def _is_patch_flag(word: str) -> bool:
    if _is_cluster(word):
        return bool(_PATCH_LETTERS & set(word[1:]))
    return _is_flag(word, _PATCH_FLAGS) and word.partition("=")[0] not in _NO_PATCH_FLAGS


def _is_about_now(command: str, flags: Sequence[str]) -> bool:
    """Return whether a git command compares only files, the index and the last commit."""
    return command in _TRACKED_ONLY and all(
        word.startswith("-") or word in ("HEAD", "@") for word in flags
    )
