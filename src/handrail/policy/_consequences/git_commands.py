"""Finds git commands that lose work, reach other machines or change settings."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import pairwise

from handrail.policy._consequences.removals import is_made
from handrail.policy._consequences.table import (
    Argv,
    Kind,
    git_settings,
    has_flag,
    is_harmless,
    operands_of,
    values_of,
)
from handrail.policy._rules.shell_command import ShellCommand
from handrail.policy._shell.wrappers import matches, program_name

_FILE_NAME = re.compile(r".*\.[A-Za-z]\w{0,9}")
_USUAL_PATHS = frozenset(
    "src lib test tests docs app scripts pkg packages Makefile Dockerfile README LICENSE".split()
)
"""Names for files or folders rather than branches."""
_BY_ENVIRONMENT = re.compile(
    r"(?:^|[\s;&|(\"'])GIT_(?:CONFIG(?:_PARAMETERS|_GLOBAL|_SYSTEM)?|CONFIG_KEY_\d+|EXEC_PATH)=[\"']?([^\s\"';]*)"
)
"""Variables holding git settings, or naming a settings file or a folder with programs."""
_PLAIN_SETTING = re.compile(
    r"(?:user\.(?:name|email)|advice\.\w+|color\.\w+|core\.(?:quotepath|autocrlf)|init\.defaultbranch"
    r"|safe\.directory|(?:commit|tag)\.gpgsign|pull\.\w+|push\.default|fetch\.prune)(?:=.*)?|/dev/null",
    re.IGNORECASE,
)
"""Settings after which git does nothing else than its command says."""
_SECRET_SETTING = re.compile(r"\.extraheader|(?:token|passwd|password|secret)$", re.IGNORECASE)
_EXTRACTS = re.compile(r"-?[a-wyzA-Z]*+x[a-zA-Z]*|--extract|--get|-[a-hj-zA-Z]*+i[a-zA-Z]*")
_ARCHIVERS = frozenset("tar bsdtar gtar cpio pax".split())
_MAX_ALIASES = 3
"""Aliases expanded in one command."""
_PLACES = """
    --global --system --local --worktree --show-origin --show-scope --null -z --name-only --bool
    --int --path
"""
_READS = """
    --get --get-all --get-regexp --get-urlmatch --get-color --get-colorbool --list -l get list
"""


def find_git_losses(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield a git command's consequences beyond those visible in its flags."""
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
    yield from _find_shown_or_removed(argv)


def _find_shown_or_removed(argv: Argv) -> Iterator[Kind]:
    """Yield whether git shows a secret from its settings, or deletes all files."""
    if matches(argv, ("git", "config")) and any(map(_SECRET_SETTING.search, argv[1:])):
        yield "secrets"
    if matches(argv, ("git", "rm")) and _removes_everything(argv):
        yield "workspace"


def _removes_everything(argv: Argv) -> bool:
    """Return whether ``git rm -r .`` deletes all files, and not only the index forgets them."""
    everything = not {".", "*", "./", ":/"}.isdisjoint(operands_of(argv))
    return everything and not has_flag(argv, ("--cached", "-n", "--dry-run"))


def has_many_aliases(argv: Argv) -> bool:
    """Return whether a command sets more aliases than are followed: each may run all the others."""
    return sum(word.lower().count("alias.") for word in argv) > _MAX_ALIASES


def expand_aliases(argv: Argv) -> Iterator[Argv]:
    """Yield what ``git -c alias.x=... x`` runs."""
    for at, word in enumerate(argv):
        if word.lower().startswith("alias.") and argv[at - 1] == "-c":
            yield ("git", *word.partition("=")[2].split(), *argv[at + 2 :])


def find_git_by_environment(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether environment settings may give a git command another meaning."""
    values = [found[1] for found in _BY_ENVIRONMENT.finditer(command.text)]
    for argv in command.possible:
        if program_name(argv[0]) == "git":
            values += values_of(argv, ("--config-env",))
            values += [
                word
                for before, word in pairwise(argv)
                if before == "-c" and word.lower().startswith("include")
            ]
            values += [word for word in argv if word.startswith("--exec-path=")]
    if any(not _PLAIN_SETTING.fullmatch(value) for value in values):
        yield "unread"


def find_restored(command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a text overwrites files with those in a commit, without a checkout."""
    commands = [argv for argv in command.possible if argv not in command.arguments]
    archives = any(matches(argv, ("git", "archive")) for argv in commands)
    if archives and any(_extracts_here(argv) for argv in commands):
        yield "work"
    shown = {
        posixpath.normpath(word.rpartition(":")[2])
        for argv in commands
        if matches(argv, ("git", "show")) or matches(argv, ("git", "cat-file"))
        for word in argv
        if ":" in word
    }
    if not shown.isdisjoint(map(posixpath.normpath, command.created)):
        yield "work"


def _extracts_here(argv: Argv) -> bool:
    """Return whether an archive is unpacked over workspace files."""
    folders = [*values_of(argv, ("-C", "--directory"))]
    extracts = program_name(argv[0]) in _ARCHIVERS and any(map(_EXTRACTS.fullmatch, argv[1:]))
    return extracts and not (folders and all(map(is_made, folders)))


def find_checked_out(command: ShellCommand) -> set[str]:
    """Return the words after ``git checkout`` that can name a branch, a file or a folder."""
    return {
        operand
        for argv in command.possible
        if program_name(argv[0]) == "git" and matches(argv, ("git", "checkout"))
        for operand in operands_of(argv)[1:]
    }


def _changes_settings(argv: Argv) -> bool:
    """Return whether ``git config`` changes a user setting or one others obey."""
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
    """Return whether a checkout may overwrite work tree files."""
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
