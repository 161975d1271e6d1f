"""Finds commands of git that lose work, reach other machines or change settings."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from handrail.policy._consequences.removals import is_made
from handrail.policy._consequences.table import (
    Argv,
    Kind,
    git_settings,
    has_flag,
    is_harmless,
    operands_of,
)
from handrail.policy._rules.shell_command import ShellCommand
from handrail.policy._shell.wrappers import matches, program_name

_FILE_NAME = re.compile(r".*\.[A-Za-z]\w{0,9}")
_USUAL_PATHS = frozenset(
    "src lib test tests docs app scripts pkg packages Makefile Dockerfile README LICENSE".split()
)
"""Names that are files or folders rather than branches."""
_PLACES = """
    --global --system --local --worktree --show-origin --show-scope --null -z --name-only --bool
    --int --path
"""
_READS = """
    --get --get-all --get-regexp --get-urlmatch --get-color --get-colorbool --list -l get list
"""


def find_git_losses(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield the consequences of a git command that its flags alone do not tell."""
    if matches(argv, ("git", "restore")):
        staged, worktree = has_flag(argv, ("-S", "--staged")), has_flag(argv, ("-W", "--worktree"))
        if worktree or not staged:
            yield "work"
    elif matches(argv, ("git", "checkout")) and _checks_out_files(argv, command):
        yield "work"
    elif matches(argv, ("git", "clone")):
        if not any(word.startswith((".", "/", "~", "file://")) for word in operands_of(argv)[1:2]):
            yield "hosts"
    elif matches(argv, ("git", "config")) and _changes_settings(argv):
        yield "settings"


def expand_aliases(argv: Argv) -> Iterator[Argv]:
    """Yield what ``git -c alias.x=... x`` runs."""
    for at, word in enumerate(argv):
        if word.lower().startswith("alias.") and argv[at - 1] == "-c":
            yield ("git", *word.partition("=")[2].split(), *argv[at + 2 :])


def find_checked_out(command: ShellCommand) -> set[str]:
    """Return the words after ``git checkout`` that can name a branch, a file or a folder."""
    return {
        operand
        for argv in command.possible
        if program_name(argv[0]) == "git" and matches(argv, ("git", "checkout"))
        for operand in operands_of(argv)[1:]
    }


def _changes_settings(argv: Argv) -> bool:
    """Return whether ``git config`` changes a setting that others obey, or one of the user."""
    at = argv.index("config") + 1 if "config" in argv else 1
    words = argv[at:]
    operands = [word for word in words if not word.startswith("-")]
    removes = any(word.startswith(("--un", "--re", "--ed", "-e")) for word in words)
    reads = is_harmless(argv, _READS.split(), _PLACES.split(), after=at)
    if reads or (len(operands) <= 1 and not removes):
        return False
    shared = any(word.startswith(("--gl", "--sy")) for word in words)
    return shared or any(word.lower().startswith(git_settings()) for word in operands)


def _checks_out_files(argv: Argv, command: ShellCommand) -> bool:
    """Return whether a checkout may overwrite files of the work tree."""
    rest = argv[argv.index("checkout") + 1 :] if "checkout" in argv else argv[1:]
    if "--" in rest:
        return len(rest) > rest.index("--") + 1
    if any(word.startswith("--pathspec-from") for word in rest):
        return True
    operands = [word for word in rest if not word.startswith("-")]
    if has_flag(("git", *rest), ("--ours", "--theirs")):
        return not all(map(is_made, operands))
    if has_flag(("git", *rest), ("-b", "--orphan", "--detach", "-t", "--track")):
        return False
    return len(operands) > 1 or any(_names_files(word, command) for word in operands)


def _names_files(word: str, command: ShellCommand) -> bool:
    is_path = word in (".", "..") or word.startswith(("./", "../", ":")) or word.endswith("/")
    is_path = is_path or word in _USUAL_PATHS or word in command.paths
    return is_path or "*" in word or _FILE_NAME.fullmatch(posixpath.basename(word)) is not None
