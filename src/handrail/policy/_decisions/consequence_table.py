"""Reads the table of commands that have consequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias, cast

Kind: TypeAlias = Literal["work", "files", "data", "others", "credentials", "hosts"]
REASONS: Mapping[Kind, str] = {
    "work": "it can discard commits or uncommitted work",
    "files": "it can delete files that version control does not have",
    "data": "it can delete the content of a database or of containers",
    "others": "it can change something on other machines",
    "credentials": "it uses credentials, or changes where code comes from",
    "hosts": "it reaches another machine, or installs code from one",
}
"""Why each kind of consequence needs approval."""


@dataclass(frozen=True, slots=True)
class ConsequenceRow:
    """A command with a consequence, if it has one of the flags and none that makes it harmless."""

    kind: Kind
    words: tuple[str, ...]
    flags: frozenset[str]
    harmless: frozenset[str]


@cache
def rows() -> Mapping[str, Sequence[ConsequenceRow]]:
    """Return the rows of the table by the name of their program."""
    by_program: dict[str, list[ConsequenceRow]] = {}
    for section, line in _lines():
        if section in REASONS:
            for row in _read_row(cast("Kind", section), line):
                by_program.setdefault(row.words[0], []).append(row)
    return by_program


@cache
def git_settings() -> tuple[str, ...]:
    """Return the beginnings of git settings that name programs, credentials or servers."""
    return tuple(
        word for section, line in _lines() if section == "git config" for word in line.split()
    )


def _lines() -> Iterator[tuple[str, str]]:
    """Yield the lines of the table, each with its section."""
    section = ""
    text = files("handrail.policy").joinpath("consequences.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            yield section, line


def _read_row(kind: Kind, line: str) -> Iterator[ConsequenceRow]:
    commands, _, condition = line.partition("|")
    flags, _, harmless = condition.partition("!")
    for command in commands.split(","):
        yield ConsequenceRow(
            kind, tuple(command.split()), frozenset(flags.split()), frozenset(harmless.split())
        )
