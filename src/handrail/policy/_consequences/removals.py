"""Finds deleted or emptied files that no tool would make again."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import TypeAlias

from handrail.policy._consequences.table import (
    Argv,
    Kind,
    has_flag,
    operands_of,
    values_of,
)
from handrail.policy._rules.shell_command import COMPUTED, ShellCommand
from handrail.policy._shell.wrappers import matches, program_name

Check: TypeAlias = Callable[[Argv, ShellCommand], Iterator[Kind]]
"""Yields the consequences of one command within a shell command."""

_MADE_NAMES = frozenset(
    """
    node_modules __pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .eggs
    htmlcov .nyc_output .next .nuxt .turbo .parcel-cache .cache .gradle .svelte-kit .angular
    .terraform .ipynb_checkpoints cmake-build-debug cmake-build-release _build .vite .expo
    storybook-static test-results playwright-report
    """.split()
)
"""Folder names that builds, tests and tools recreate, wherever they are."""
_BUILT_NAMES = frozenset(
    """
    build dist out target coverage tmp .tmp .coverage junit.xml coverage.xml coverage.json
    .DS_Store tsconfig.tsbuildinfo nohup.out venv package-lock.json yarn.lock pnpm-lock.yaml
    bun.lockb poetry.lock uv.lock Pipfile.lock Cargo.lock Gemfile.lock composer.lock go.sum
    """.split()
)
"""The same at the top of a workspace, or at the end of a path."""
_MADE_SUFFIXES = (
    ".pyc .pyo .o .obj .class .log .tmp .swp .swo .egg-info .dist-info .tsbuildinfo .pid .gcda"
).split()
_TEMPORARY = ("/tmp/", "/var/tmp/", "/dev/null", "/dev/tcp/", "/dev/udp/")  # noqa: S108

_REMOVERS = frozenset("find fd xargs rm cd true".split())
_DELETERS = frozenset("rm shred unlink srm wipe trash truncate rimraf".split())
_PLACEHOLDERS = frozenset(["{}", "+", ";", "\\;"])
_ALL_OF_IT = frozenset([".", "..", "/", "~", "*"])
_NARROWING = re.compile(
    r"-i?(?:name|path|wholename|regex)|-newer\w*|-[acm](?:time|min)|-size|-empty|-user|-group|-perm"
    r"|-samefile|-inum"
)
"""``find`` tests for choosing files. Their values may still match every name."""
_EVERY_NAME = re.compile(r"[*?./]*")
_RENAMERS = frozenset(["mv", "ln"])
_OTHER_FILES = frozenset("! -not -newer -mtime".split())
"""Search words that make it find files with other names."""
_IS_OPTION = re.compile(r"[+<>/%]?\d\w*+$|(?!of=)\w++=")
"""Sizes, and ``dd`` options except for its output file."""
_RM = re.compile(r"(?<!-)\brm\b")
"""The program, not the end of a flag such as ``--rm``."""
_EMPTY_FILES = frozenset(["__init__.py", "py.typed", ".gitkeep", ".keep"])
"""Usually empty files."""
_EMPTY_INPUT = re.compile(r"(?<!<)<\s*/dev/null")
_STARTS_WITH_CD = re.compile(r"\s*cd\s+[^\s;&|]+\s*&&")
_LISTS_ALL = frozenset(["git", "ls-files", "-z", "-c", "--cached", ".", "--full-name"])
_NAMING = frozenset("-name -iname -path -wholename -regex -g --glob -e".split())


def is_made(path: str) -> bool:
    """Return whether a path names something temporary or recreated by tools."""
    if COMPUTED.search(path):
        return False
    if path.startswith(_TEMPORARY):
        return ".." not in path
    parts = posixpath.normpath(path.rstrip("*")).split("/")
    if ".." in parts or path.startswith("~") or parts == ["."]:
        return False
    if not _MADE_NAMES.isdisjoint(parts) or not _BUILT_NAMES.isdisjoint((parts[0], parts[-1])):
        return True
    return parts[-1].endswith(tuple(_MADE_SUFFIXES))


def is_kept(path: str) -> bool:
    """Return whether emptying a file loses something. For a log it may, unless it is temporary."""
    is_log = path.endswith(".log") and not path.startswith(_TEMPORARY)
    return is_log or not (is_made(path) or posixpath.basename(path) in _EMPTY_FILES)


def find_removed(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether ``rm`` may delete something else than what tools or the same text made."""
    operands = {word for word in operands_of(argv) if word not in _PLACEHOLDERS}
    if operands:
        outside = _runs_in_temporary_folder(command)
        renamed = _find_renamed(argv, command)
        if any(
            _is_at(path, renamed)
            or not (is_made(path) or _is_created(path, command) or (outside and _is_inside(path)))
            for path in operands
        ):
            yield "files"
            if _clones(command):
                yield "workspace"
    elif _RM.search(command.text) and not _finds_only_made(command):
        yield "files"
        if any(map(_lists_everything, command.possible)):
            yield "workspace"


def _lists_everything(argv: Argv) -> bool:
    """Return whether git lists all tracked files."""
    return matches(argv, ("git", "ls-files")) and all(
        word in _LISTS_ALL or word == argv[0] for word in argv
    )


def find_deleted(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether ``find`` may delete something else than what tools made, or everything."""
    if _finds_everything(argv) and _deletes_found(argv, command):
        yield "workspace"
    if "-delete" in argv and "-empty" not in argv and not _finds_made(argv):
        yield "files"


def find_named_files(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether a program such as ``shred`` names something else than what tools made."""
    words = [word.removeprefix("of=") for word in operands_of(argv) if not _IS_OPTION.match(word)]
    if any(is_kept(path) and not _is_created(path, command) for path in words):
        yield "files"


def find_copied_over(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether ``cp /dev/null file`` empties a file."""
    del command
    *copied, target = operands_of(argv) or ("",)
    if "/dev/null" in copied and not is_made(target):
        yield "files"


def find_moved_away(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether ``mv`` moves something out of the workspace, or where it is lost."""
    del command
    targets = list(values_of(argv, ("-t", "--target-directory")))
    *moved, target = [*operands_of(argv), *targets] or ("",)
    moved = [path for path in moved if not targets or path not in targets]
    outside = target.startswith(("/", "~", "..")) or COMPUTED.search(target)
    if outside and not all(is_made(path) or path.startswith(("/", "~")) for path in moved):
        yield "files"
        if not _ALL_OF_IT.isdisjoint(path.removeprefix("./") for path in moved):
            yield "workspace"


def find_linked_over(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether ``ln -f`` replaces a file by nothing."""
    del command
    if "/dev/null" in argv and has_flag(argv, ("-f", "--force")):
        yield "files"


def find_emptied_by_tee(argv: Argv, command: ShellCommand) -> Iterator[Kind]:
    """Yield whether ``tee`` overwrites files with nothing."""
    appends = {"-a", "--append"} & set(argv)
    if _EMPTY_INPUT.search(command.text) and not appends and any(map(is_kept, operands_of(argv))):
        yield "files"


@lru_cache(maxsize=8)
def _runs_in_temporary_folder(command: ShellCommand) -> bool:
    """Return whether a text starts with ``cd /tmp/x &&``, and stays there."""
    folders = [(*argv, "~")[1] for argv in command.possible if argv[0] == "cd"]
    return (
        _STARTS_WITH_CD.match(command.text) is not None
        and f"{folders[0]}/".startswith(_TEMPORARY)
        and all(_is_inside(folder) for folder in folders[1:])
    )


def _is_inside(path: str) -> bool:
    """Return whether a path is certainly below a command's folder."""
    return ".." not in path and not COMPUTED.search(path) and path[:1] not in ("/", "~", "-", "")


def _finds_everything(argv: Argv) -> bool:
    """Return whether a search finds all workspace files: by no name, or by every name."""
    words = list(_without_exclusions(argv))
    paths = [word for word in takewhile(lambda word: word[:1] not in "-(!", words[1:]) if word]
    tops = {posixpath.normpath(path.removesuffix("/*")) for path in paths or ["."]}
    chosen = [
        value
        for flag, value in pairwise([*words, ""])
        if _NARROWING.fullmatch(flag) and not _EVERY_NAME.fullmatch(value or "x")
    ]
    return not _ALL_OF_IT.isdisjoint(tops) and (not chosen or bool({"!", "-not"} & set(words)))


def _deletes_found(argv: Argv, command: ShellCommand) -> bool:
    """Return whether a text deletes what a search finds."""
    if _runs_in_temporary_folder(command):
        return False
    return "-delete" in argv or any(
        (program_name(other[0]) == "mv" and _moves_found(other))
        or (
            program_name(other[0]) in _DELETERS
            and all(word in _PLACEHOLDERS or COMPUTED.search(word) for word in operands_of(other))
        )
        for other in command.possible
        if other not in command.arguments
    )


def _moves_found(argv: Argv) -> bool:
    """Return whether ``mv`` moves found files out of the workspace."""
    targets = [*values_of(argv, ("-t", "--target-directory")), *operands_of(argv)[-1:]]
    return any(word.startswith(("/", "~", "..")) for word in targets)


def _find_renamed(argv: Argv, command: ShellCommand) -> set[str]:
    """Return the names given to other files before a command, by ``mv`` or ``ln``."""
    renamed = _find_all_renamed(command)
    earlier = takewhile(lambda other: other != argv, command.possible) if renamed else ()
    return {path for other in earlier for path in renamed.get(other, ())}


@lru_cache(maxsize=8)
def _find_all_renamed(command: ShellCommand) -> Mapping[Argv, Sequence[str]]:
    """Return the names that each ``mv`` or ``ln`` in a text gives to other files."""
    renamed: dict[Argv, Sequence[str]] = {}
    for argv in command.possible:
        is_git = matches(argv, ("git", "mv"))
        if is_git or program_name(argv[0]) in _RENAMERS:
            *sources, target = operands_of(argv)[is_git:] or ("",)
            names = [target, *(posixpath.basename(source) for source in sources if target == ".")]
            if target and not all(map(is_made, sources)):
                renamed[argv] = [*map(posixpath.normpath, names)]
    return renamed


@lru_cache(maxsize=8)
def _clones(command: ShellCommand) -> bool:
    """Return whether a text clones a repository."""
    clones = (("git", "clone"), ("gh", "repo", "clone"), ("hg", "clone"))
    return any(matches(argv, words) for argv in command.possible for words in clones)


def _is_at(path: str, places: AbstractSet[str]) -> bool:
    """Return whether a path is among some places, or below one."""
    path = posixpath.normpath(path.rstrip("*") or ".")
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _is_created(path: str, command: ShellCommand) -> bool:
    """Return whether the same text made a file, as with ``cat > file``."""
    return posixpath.normpath(path) in _find_created(command.created)


@lru_cache(maxsize=8)
def _find_created(paths: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(posixpath.normpath, paths))


@lru_cache(maxsize=8)
def _finds_only_made(command: ShellCommand) -> bool:
    """Return whether everything removed comes from searches for recreated files."""
    commands = [argv for argv in command.possible if argv not in command.arguments]
    searches = [argv for argv in commands if program_name(argv[0]) in ("find", "fd")]
    words = " ".join(word for argv in commands for word in argv[1:])
    names = {program_name(argv[0]) for argv in commands}
    others = {name for name in names if name not in words}  # an argument is no program
    return bool(searches) and others <= _REMOVERS and all(map(_finds_made, searches))


def _finds_made(argv: Argv) -> bool:
    """Return whether a search is only for files recreated by tools."""
    words = list(_without_exclusions(argv))
    named = [value for flag, value in pairwise(words) if flag in _NAMING]
    names = [word.strip("*/").removeprefix("*") for word in named]
    choices = sum(word in ("-o", "-or", ",") for word in words)
    return (
        _OTHER_FILES.isdisjoint(words)
        and not (choices and "-prune" in words)
        and len(named) > choices
        and all(
            is_made(word) or name in _MADE_NAMES or f".{name}" in _MADE_SUFFIXES
            for word, name in zip(named, names, strict=True)
        )
    )


def _without_exclusions(argv: Argv) -> Iterator[str]:
    """Yield a search's words without ``-not -path x``, which only makes it narrower."""
    skipped = 0
    for at, word in enumerate(argv):
        if word in ("!", "-not") and argv[at + 1 : at + 2] == ("-path",):
            skipped = 3
        if skipped:
            skipped -= 1
        else:
            yield word
