"""Find every command a shell command could run, by its text: for deny and ask rules.

This reader continues where the strict one gives up. It reads through quotes, substitutions and
wrappers, and treats unknown values as empty. Text with unbalanced quotes or brackets is read a
second time without regard to quotes. It may find commands that never run. Its results never allow
anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from handrail.policy._shell.scanner import CommandScanner, ScannedCommand
from handrail.policy._shell.wrappers import (
    InnerCommands,
    feeds_arguments,
    is_bare_shell,
    program_name,
    program_texts,
    runs_its_input,
    unwrap,
)

_MAX_LEVELS = 8
"""Commands nested in commands, as in ``sh -c 'sh -c ...'``."""
_MAX_INNER_CHARS = 8_000
"""Limit on nested commands. Beyond it, quotes in the text are ignored."""
_REPEATING = frozenset("echo printf cat tee head tail grep yes".split())
"""Programs that only print their arguments and input."""
_BLIND = str.maketrans(dict.fromkeys("'\"`(){}#<", "\n") | {"\\": ""})


def possible_commands(text: str) -> tuple[tuple[str, ...], ...]:
    """Return every command the text could run, with and without wrappers, in order."""
    return tuple(_explore(text).commands)


def possible_redirects(text: str) -> tuple[str, ...]:
    """Return every file the text could open with a redirection, in order."""
    return tuple(dict.fromkeys(_explore(text).targets))


def certain_arguments(text: str) -> frozenset[tuple[str, ...]]:
    """Return the commands starting with another program's argument, as in ``nice a b``."""
    findings = _explore(text)
    return frozenset(one for one in findings.arguments if one not in findings.programs)


def runs_unread_text(text: str) -> bool:
    """Return whether a shell runs output from a program that does more than repeat text.

    It may be command text, or a program's name.
    """
    return _explore(text).unread


def emptied_files(text: str) -> tuple[str, ...]:
    """Return the files the text may overwrite with nothing, as ``: > file`` does."""
    return tuple(dict.fromkeys(_explore(text).emptied))


def created_files(text: str) -> tuple[str, ...]:
    """Return the files the text overwrites with a command's output."""
    return tuple(dict.fromkeys(_explore(text).created))


def glob_words(text: str) -> tuple[str, ...]:
    """Return the words replaced by file names in the shell."""
    return tuple(dict.fromkeys(_explore(text).globs))


class ReadLine(NamedTuple):
    """A shell line, read with its environment variables' values."""

    commands: tuple[tuple[str, ...], ...]
    """Every command it could run, with and without wrappers."""
    programs: frozenset[tuple[str, ...]]
    """The commands whose first word can be a program."""
    inputs: tuple[str, ...]
    """Files read by redirections."""
    assigned: Mapping[str, tuple[str, ...]]
    """Values of variables it sets."""
    unknown: str
    """Why it may run other commands; empty if it cannot."""


def read_line(text: str, variables: Mapping[str, str]) -> ReadLine:
    """Read a line running with these environment variables.

    A variable set by the line has no known value: that assignment counts depends on the run.
    """
    values = _Environment(variables)
    findings = _explore_with(text, _Findings(shell_only=True, values=values))
    unknown = findings.unknown
    if findings.unread:
        unknown = "a shell runs the output of another program"
    return ReadLine(
        tuple(findings.commands),
        frozenset(findings.programs),
        tuple(findings.inputs),
        values.assigned,
        unknown,
    )


def started_commands(text: str, variables: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield commands from a shell text and its substitutions, with their wrappers."""
    waiting = deque([text])
    while waiting:
        scanner = CommandScanner(waiting.popleft(), _Environment(variables))
        scanner.read()
        yield from (command.argv for command in scanner.scanned)
        waiting += scanner.nested


class _Environment(dict[str, str]):
    """Environment variable values. Assignments are recorded and change none."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self.assigned: dict[str, tuple[str, ...]] = {}

    def __setitem__(self, name: str, value: str) -> None:
        self.assigned[name] = (*self.assigned.get(name, ()), value)
        self.pop(name, None)


@dataclass(slots=True)
class _Findings:
    """The results so far."""

    commands: dict[tuple[str, ...], None] = field(default_factory=dict[tuple[str, ...], None])
    programs: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    """Commands whose first word can be a program."""
    arguments: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    unread: bool = False
    targets: list[str] = field(default_factory=list[str])
    emptied: list[str] = field(default_factory=list[str])
    created: list[str] = field(default_factory=list[str])
    globs: list[str] = field(default_factory=list[str])
    inputs: list[str] = field(default_factory=list[str])
    unknown: str = ""
    shell_only: bool = False
    """Whether other interpreters' programs are not read as shell programs."""
    values: dict[str, str] = field(default_factory=lambda: {"IFS": " "})


@lru_cache(maxsize=8)
def _explore(text: str) -> _Findings:
    return _explore_with(text, _Findings())


def _explore_with(text: str, findings: _Findings) -> _Findings:
    waiting = deque([(text, 0), (text.replace("\\\n", ""), 0)])
    seen: set[str] = set()
    left = len(text) + _MAX_INNER_CHARS
    complete = True
    while waiting:
        command, level = waiting.popleft()
        if command in seen:
            continue
        seen.add(command)
        left -= len(command)
        if left < 0 or level > _MAX_LEVELS:
            complete = False
        else:
            waiting += [(more, level + 1) for more in _read(command, findings)]
    if not complete:
        findings.unknown = findings.unknown or "it has too many commands inside of commands"
        deque(_read(text.translate(_BLIND), findings), maxlen=0)
    return findings


def _read(text: str, findings: _Findings) -> Iterator[str]:
    """Read one text into the findings. Yields the commands nested in it."""
    scanner = CommandScanner(text, findings.values)
    scanner.read()
    findings.targets += scanner.targets
    findings.emptied += scanner.emptied
    findings.created += scanner.created
    findings.globs += scanner.globs
    findings.inputs += scanner.inputs
    findings.unknown = findings.unknown or _describe_unknown(scanner)
    findings.unread |= scanner.hidden or _runs_unread(scanner.scanned)
    yield from scanner.nested
    inner_commands = {command: unwrap(command.argv) for command in scanner.scanned}
    if scanner.feeds:
        fed = [command for command, inner in inner_commands.items() if _is_fed(command.argv, inner)]
        yield from scanner.bodies if fed else ()
        written = {program_name(target) for target in scanner.targets}
        open_to = [
            command
            for command in fed
            if command.piped or not written.isdisjoint(map(program_name, command.argv))
        ]
        words = all(feeds_arguments(command.argv) for command in open_to)
        for command, inner in inner_commands.items() if open_to else ():
            inner_commands[command] = _open(command.argv, inner, words=words)
    inner_commands |= {
        command: unwrap(command.argv, opened=True) for command in dict.fromkeys(scanner.naming)
    }
    for command, inner in inner_commands.items():
        findings.commands[command.argv] = None
        # one by one: to hash many long commands at once would stop the other threads
        findings.commands |= {one: None for one in inner.commands}  # noqa: C420
        arguments = {one for one in inner.arguments}  # noqa: C416
        findings.programs |= {
            one for one in (command.argv, *inner.commands) if one not in arguments
        }
        findings.arguments += inner.arguments
        yield from _read_by_shell(command.argv, inner) if findings.shell_only else inner.nested
    if scanner.doubtful:
        yield text.translate(_BLIND)


def _read_by_shell(argv: tuple[str, ...], inner: InnerCommands) -> list[str]:
    """Return nested texts without other interpreters' programs."""
    others = frozenset[str]().union(*map(program_texts, (argv, *inner.commands)))
    return [text for text in inner.nested if text not in others]


def _describe_unknown(scanner: CommandScanner) -> str:
    if scanner.doubtful:
        return "its quotes or brackets are not balanced"
    return f"the value of `{scanner.unknown}` is not known" if scanner.unknown else ""


def _runs_unread(scanned: Sequence[ScannedCommand]) -> bool:
    start = 0
    for at, command in enumerate(scanned):
        if not command.piped:
            start = at
        elif any(map(is_bare_shell, (command.argv, *unwrap(command.argv).commands))):
            printing = {program_name(before.argv[0]) for before in scanned[start:at]}
            if not printing <= _REPEATING:
                return True
    return False


def _open(argv: tuple[str, ...], inner: InnerCommands, *, words: bool) -> InnerCommands:
    """Return the commands in a command whose output another one runs, or takes for ``words``."""
    opened = unwrap(argv, opened=True)
    if words:
        arguments = {one for one in inner.arguments}  # noqa: C416  as above
        programs = {one for one in inner.commands if one not in arguments}
        opened.arguments += [command for command in opened.commands if command not in programs]
    return opened


def _is_fed(argv: tuple[str, ...], inner: InnerCommands) -> bool:
    return any(runs_its_input(command) for command in (argv, *inner.commands))
