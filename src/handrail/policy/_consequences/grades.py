"""Grades: how grave each command in a shell command is, by its consequences."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

from handrail.permissions import CommandPart, Grade
from handrail.policy._consequences.consequences import commands_in, find_consequences, kinds_of
from handrail.policy._consequences.table import Argv, Kind, operands_of
from handrail.policy._rules.shell_command import (
    COMPUTED,
    MatchedCommand,
    ShellCommand,
    read_shell_command,
)
from handrail.policy._shell.wrappers import program_name

GRADES: Mapping[Kind, Grade] = MappingProxyType(
    {
        "work": Grade.LOSES,
        "files": Grade.LOSES,
        "workspace": Grade.LOSES,
        "data": Grade.LOSES,
        "others": Grade.LEAVES,
        "settings": Grade.UNCONFINED,
        "unread": Grade.UNCONFINED,
        "secrets": Grade.LEAVES,
        "sources": Grade.LEAVES,
        "credentials": Grade.LEAVES,
        "code": Grade.UNCONFINED,
        "hosts": Grade.LEAVES,
    }
)
"""Grades by consequence."""
_LOSING = frozenset(kind for kind, grade in GRADES.items() if grade is Grade.LOSES)
_FILES: frozenset[Kind] = frozenset({"files"})
_REMOVERS = frozenset("rm rmdir unlink shred truncate".split())
"""Programs deleting or emptying their operands."""
_ANYWHERE = (".",)


def grade_parts(
    spelled: ShellCommand,
    known: ShellCommand,
    matched: Sequence[MatchedCommand],
    *,
    chosen: Collection[Argv],
    sandboxed: bool,
) -> tuple[CommandPart, ...]:
    """Return the commands in a text with their grades, or the whole text if it is not simple.

    ``known`` is the command with variable values filled in, ``matched`` its simple commands with
    the rules allowing them, and ``chosen`` those allowed by a written rule.
    """
    found = find_consequences(known, frozenset(chosen))
    if spelled.simple is None or len(spelled.simple) != len(matched):
        whole = _grade(found, sandboxed=sandboxed)
        removes = _ANYWHERE if sandboxed and _loses_only_files(found) else None
        return (CommandPart(0, len(spelled.text), whole, removes),)
    own = [
        set[Kind]() if part.argv in chosen else set(_find_own(spelled, simple.start, simple.end))
        for simple, part in zip(spelled.simple, matched, strict=True)
    ]
    shared = found.keys() - set[Kind]().union(*own)
    return tuple(
        [
            _make_part((simple.start, simple.end), part, kinds | shared, sandboxed=sandboxed)
            for simple, part, kinds in zip(spelled.simple, matched, own, strict=True)
        ]
    )


def _find_own(command: ShellCommand, start: int, end: int) -> Iterator[Kind]:
    """Yield one simple command's consequences."""
    for argv in commands_in(read_shell_command(command.text[start:end])):
        yield from kinds_of(argv, command)


def _make_part(
    place: tuple[int, int], part: MatchedCommand, kinds: Collection[Kind], *, sandboxed: bool
) -> CommandPart:
    grade = _grade(kinds, sandboxed=sandboxed or part.rule is not None)
    removes = _find_removed(part) if sandboxed and _loses_only_files(kinds) else None
    return CommandPart(*place, grade, removes)


def _grade(kinds: Collection[Kind], *, sandboxed: bool) -> Grade:
    if "unread" in kinds and not {"hosts", "others"}.isdisjoint(kinds):
        return Grade.LOSES  # it runs what another machine sends
    usual = Grade.UNKNOWN if sandboxed else Grade.UNCONFINED
    return max([usual, *(GRADES[kind] for kind in kinds)])


def _loses_only_files(kinds: Collection[Kind]) -> bool:
    return _LOSING.intersection(kinds) == _FILES and "unread" not in kinds


def _find_removed(part: MatchedCommand) -> tuple[str, ...]:
    """Return the paths a command deletes, or the whole workspace if uncertain."""
    paths = [
        posixpath.normpath(posixpath.join(part.folder, word)) for word in operands_of(part.argv)
    ]
    certain = program_name(part.argv[0]) in _REMOVERS and not any(
        COMPUTED.search(path) or path.startswith(("/", "~", "..")) for path in paths
    )
    return tuple(paths) if certain else _ANYWHERE
