"""Reads the table of commands with consequences, and compares commands with its rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from typing import Literal, TypeAlias, cast

from handrail.policy._shell.words import GLOB
from handrail.policy._shell.wrappers import matches

SAME_ROWS = {"podman": "docker", "nerdctl": "docker", "podman-compose": "docker-compose"}
"""Programs sharing another one's commands."""
Argv: TypeAlias = tuple[str, ...]
Kind: TypeAlias = Literal[
    "work",
    "files",
    "workspace",
    "data",
    "others",
    "settings",
    "unread",
    "secrets",
    "sources",
    "credentials",
    "code",
    "hosts",
]
REASONS: Mapping[Kind, str] = {
    "work": "it can discard commits or uncommitted work",
    "files": "it can delete files that version control does not have",
    "workspace": "it can delete everything in the workspace, or a whole repository",
    "data": "it can delete the content of a database or of containers",
    "others": "it can change something on other machines",
    "settings": "it changes settings that programs obey",
    "unread": "a shell would run text that cannot be checked",
    "secrets": "it prints a secret",
    "sources": "it installs code from an address that it names",
    "credentials": "it uses credentials, or changes where code comes from",
    "code": "it puts code into a file that test runners or builds load by themselves",
    "hosts": "it reaches another machine, or installs code from one",
}
"""Why each consequence needs approval."""
_CLUSTER = re.compile(r"-[A-Za-z0-9]+")
_TRIES = re.compile(
    r"-[A-Za-z]*n[A-Za-z]*|--(?:dry-run(?:=\w+)?|just-print|snapshot|syntax-check|list-(?:tasks|hosts))"
)
"""Flags with which a program only says what it would do, wherever they are."""
_DOES_ANYWAY = re.compile(r"--no-d.*|--dry-run=(?!client$|server$|true$).*")
_NO = frozenset("false no 0 off none never".split())
_MIN_ABBREVIATION = 4
"""Minimum characters in a long flag's abbreviation, with its dashes."""
_ABOUT_ITSELF = frozenset(["--help", "--version", "-V", "version", "help"])
"""Words after which a program only describes itself."""


@dataclass(frozen=True, slots=True)
class ConsequenceRow:
    """A command with a consequence, if it has one of the flags and none making it harmless."""

    kind: Kind
    words: tuple[str, ...]
    flags: frozenset[str]
    harmless: frozenset[str]
    bare: frozenset[str] = frozenset()
    """Flags without a value: what follows them is not one."""


@cache
def rows() -> Mapping[str, Sequence[ConsequenceRow]]:
    """Return the table's rows by program name."""
    by_program: dict[str, list[ConsequenceRow]] = {}
    for section, line in _lines():
        if section in REASONS:
            for row in _read_row(cast("Kind", section), line):
                by_program.setdefault(row.words[0], []).append(row)
    return by_program


@cache
def rows_by_second_word() -> Mapping[str, Sequence[ConsequenceRow]]:
    """Return the rows with a word after the program, by this word."""
    by_word: dict[str, list[ConsequenceRow]] = {}
    for row in chain.from_iterable(rows().values()):
        for word in row.words[1:2]:
            by_word.setdefault(word, []).append(row)
    return by_word


@cache
def git_settings() -> tuple[str, ...]:
    """Return prefixes of git settings that name programs, credentials or servers."""
    return tuple(
        word for section, line in _lines() if section == "git config" for word in line.split()
    )


def _lines() -> Iterator[tuple[str, str]]:
    """Yield the table's lines, each with its section."""
    section = ""
    text = files("handrail.policy").joinpath("consequences.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            yield section, line


def _read_row(kind: Kind, line: str) -> Iterator[ConsequenceRow]:
    commands, _, condition = line.partition("|")
    flags, _, exceptions = condition.partition("!")
    harmless, _, bare = exceptions.partition("~")
    words = [frozenset(part.split()) for part in (flags, harmless, bare)]
    for command in commands.split(","):
        yield ConsequenceRow(kind, tuple(command.split()), *words)


def is_meant(argv: Argv, row: ConsequenceRow) -> bool:
    """Return whether a row is about a command."""
    return (
        matches(argv, row.words)
        and (not row.flags or has_flag(argv, row.flags))
        and not is_harmless(argv, row.harmless, row.bare, after=_count_words(argv, row))
        and not (is_about_itself(argv) or (argv[:-1] == row.words and argv[-1] == "--help"))
    )


def is_about_itself(argv: Argv) -> bool:
    """Return whether a program only prints its version or its help."""
    return len(argv) == 2 and argv[1] in _ABOUT_ITSELF  # noqa: PLR2004


def is_harmless(
    argv: Argv, harmless: Collection[str], bare: Collection[str] = (), *, after: int = 1
) -> bool:
    """Return whether a word makes a command harmless, and is certainly no operand or value.

    Before it, only flags in ``bare`` can be. A flag for a trial can also follow operands. The first
    ``after`` words name the command.
    """
    letters = _letters_of([*bare, *harmless])
    words = argv[: argv.index("--")] if "--" in argv else argv
    first, before = True, ""
    for word, following in zip(words[after:], (*words[after + 1 :], ""), strict=False):
        may_be_value = len(before) > 1 and before[0] == "-" and not _is_bare(before, bare, letters)
        if (
            not may_be_value
            and (first or _TRIES.fullmatch(word))
            and _is_one_of(word, harmless, letters)
        ):
            return following not in _NO and not any(map(_DOES_ANYWAY.fullmatch, words))
        first &= word.startswith("-")
        before = word
    return False


def _count_words(argv: Argv, row: ConsequenceRow) -> int:
    """Return how many words precede those following a row's words."""
    at = 1
    for word in row.words[1:]:
        at = argv.index(word, at) + 1 if word in argv[at:] else at + 1
    return at


def _letters_of(flags: Iterable[str]) -> frozenset[str]:
    return frozenset(flag[1] for flag in flags if len(flag) == 2)  # noqa: PLR2004


def _is_bare(word: str, bare: Collection[str], letters: frozenset[str]) -> bool:
    is_cluster = _CLUSTER.fullmatch(word) is not None and letters.issuperset(word[1:])
    return "=" in word or word in bare or is_cluster


def _is_one_of(word: str, harmless: Collection[str], letters: frozenset[str]) -> bool:
    """Return whether a word is harmless: exactly, or as a letter among flags without values."""
    in_cluster = _CLUSTER.fullmatch(word) is not None and letters.issuperset(word[1:])
    return word in harmless or (in_cluster and not _letters_of(harmless).isdisjoint(word[1:]))


def has_flag(argv: Argv, flags: Iterable[str]) -> bool:
    """Return whether a command has one of these flags: alone, in a cluster, or abbreviated."""
    return any(_may_be_flag(word, flag) for word in argv[1:] for flag in flags)


def _may_be_flag(word: str, flag: str) -> bool:
    name = word.partition("=")[0]
    if name == flag:
        return True
    if flag.startswith("--"):
        return len(name) >= _MIN_ABBREVIATION and flag.startswith(name) and name.startswith("--")
    is_short = flag.startswith("-") and len(flag) == 2  # noqa: PLR2004
    return is_short and _CLUSTER.fullmatch(word) is not None and flag[1] in word


def operands_of(argv: Argv) -> list[str]:
    """Return a command's words, without flags."""
    words = list(argv[1:])
    if "--" in words:
        at = words.index("--")
        return [word for word in words[:at] if not word.startswith("-")] + words[at + 1 :]
    return [word for word in words if not word.startswith("-")]


def values_of(argv: Argv, flags: Sequence[str]) -> Iterator[str]:
    """Yield flag values, separate or attached."""
    for word, value in zip(argv, (*argv[1:], ""), strict=True):
        name, equals, attached = word.partition("=")
        if name in flags:
            yield attached if equals else value
        elif word[:2] in flags and not word.startswith("--"):
            yield word[2:]


@lru_cache(maxsize=1024)
def find_in_table(program: str, words: Argv) -> tuple[Kind, ...]:
    """Return the table's entry for a program, or for any program if it is computed: ``$``."""
    if program != "$":
        other = rows().get(SAME_ROWS.get(program, ""), ())
        meant: Iterable[ConsequenceRow] = (*rows().get(program, ()), *other)
    else:
        second = rows_by_second_word()
        named = second if any(map(GLOB.search, words)) else dict.fromkeys(words)
        meant = (row for word in named for row in second.get(word, ()))
    found: list[Kind] = [row.kind for row in meant if is_meant((row.words[0], *words), row)]
    return tuple(dict.fromkeys(found))
