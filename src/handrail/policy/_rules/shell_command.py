"""A shell command, read in two ways: strictly, for allow rules; roughly, for deny and ask rules.

Neither reading is a security boundary; the sandbox is. No rule allows a command unless it can be
read strictly.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from handrail.policy._rules.command import Command, Word
from handrail.policy._rules.index import CommandIndex
from handrail.policy._rules.rule import Level, Rule
from handrail.policy._shell.grammar import agrees, grammar_commands
from handrail.policy._shell.rough import (
    certain_arguments,
    created_files,
    emptied_files,
    glob_words,
    possible_commands,
    possible_redirects,
    runs_unread_text,
)
from handrail.policy._shell.strict import SimpleCommand, lex
from handrail.policy._shell.wrappers import program_name, runs_its_input, runs_text, unwrap

MAX_COMMAND_CHARS = 10_000
MAX_SIMPLE_COMMANDS = 50
MAX_PIPES = 500
"""An incomplete pipeline takes the grammar quadratic time, in which no other thread runs."""
MAX_POSSIBLE_COMMANDS = 2_000
MAX_POSSIBLE_WORDS = 60_000
"""Limit over all possible commands: nested programs share words."""
MAX_COMPUTED_COMMANDS = 200
"""Commands such as ``$x push``: each may be any program."""
COMPUTED = re.compile(r"[$`]")
"""A computed part in a word."""
_NO_PATHS = ("text", "number", "sed_lines", "jq_filter", "git_format")
"""Word kinds that name no path."""
_INSTALLED = re.compile(
    r"(?:[\w.-]+/)*(?:(?:\.venv|venv|\.env|env)/bin|node_modules/\.bin)/([\w.-]+)"
)
"""A program installed by the project, by its path."""
_KNOWN = re.compile(
    r"(?P<temporary>\$\{?TMPDIR\b\}?)|(?P<home>\$\{?HOME\b\}?(?=/[\w.]))"
    r"|(?P<here>\$\{?PWD\b\}?|\$\(\s*(?:pwd|git rev-parse --show-toplevel)\s*\)|`pwd`)"
    r"|(?P<made>\$\(\s*mktemp(?:\s++(?:-[dqut]++|--directory|(?>[\w./-]*X{3}[\w.]*)))*\s*+\))"
)
_VALUES = {"temporary": "/tmp", "home": "~", "here": ".", "made": "/tmp/made"}  # noqa: S108
"""In the sandbox, where commands have their own temporary folder."""
_HOLDS_MADE = re.compile(r"\b([A-Za-z_]\w*)=[\"']?/tmp/made\b", re.ASCII)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*+)|\{([A-Za-z_]\w*+)\})")
_SETS_KNOWN = re.compile(r"\b(?:TMPDIR|HOME|PWD)=|\bmktemp\s*\(\)")
_QUOTED = re.compile(r"""(['"])([^'"\s]+)\1""")
_JOINT = re.compile(r"(?<=[\w ./:~-])(['\"])[ \t]*+[+.][ \t]*+\1")
"""Two joined code strings."""
Usable: TypeAlias = Callable[[Rule], bool]
"""Whether a rule applies to this call, now."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A shell command, read both ways."""

    text: str
    simple: tuple[SimpleCommand, ...] | None
    """Its simple commands, if bash, dash and zsh certainly agree on them; else None."""
    possible: tuple[tuple[str, ...], ...]
    """Every command it may run."""
    files: tuple[str, ...]
    """Every file it may redirect to or from."""
    emptied: tuple[str, ...] = ()
    """Files it may overwrite with nothing."""
    created: tuple[str, ...] = ()
    """Files it overwrites with a command's output."""
    arguments: frozenset[tuple[str, ...]] = frozenset()
    """Possible commands starting with another program's argument."""
    unread: bool = False
    """Whether a shell runs what another program prints."""
    globs: tuple[str, ...] = ()
    """Words replaced by file names in the shell."""
    paths: frozenset[str] = frozenset()
    """Words that could name a branch, and name a workspace file or folder instead."""
    unreadable: str = ""
    """Why the text is too big to read, leaving the command unknown, or ""."""

    def __hash__(self) -> int:
        return hash(self.text)  # hashing every word would take long

    def seen_from(self, folders: Sequence[str]) -> ShellCommand:
        """Return the command with paths in one of these folders relative to it.

        Its text, and words without such a path, stay unchanged.
        """
        if not folders:
            return self

        def shorten(words: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(_shorten(word, folders, home=self.simple is None) for word in words)

        seen = replace(
            self,
            simple=self.simple
            and tuple(replace(command, argv=shorten(command.argv)) for command in self.simple),
            possible=tuple(dict.fromkeys(map(shorten, self.possible))),
            files=shorten(self.files),
            emptied=shorten(self.emptied),
            created=shorten(self.created),
            arguments=frozenset(map(shorten, self.arguments)),
            globs=shorten(self.globs),
        )
        return self if seen == self else seen

    @property
    def programs(self) -> set[str]:
        """The names of programs it may run, without those only in arguments."""
        return {program_name(argv[0]) for argv in self.possible if argv not in self.arguments}

    @property
    def is_readable(self) -> bool:
        """Whether the text is small enough to be read at all."""
        return not self.unreadable

    @property
    def too_big(self) -> str:
        """Why the command is too big to be allowed without approval; else empty."""
        if len(self.simple or ()) > MAX_SIMPLE_COMMANDS:
            return (
                f"it runs {len(self.simple or ())} commands, and at most {MAX_SIMPLE_COMMANDS} are "
                "allowed without approval"
            )
        return self.unreadable


@lru_cache(maxsize=256)
def read_shell_command(text: str) -> ShellCommand:
    """Read a shell command, unless it is too big."""
    if unreadable := _describe_size(text):
        return ShellCommand(text, None, (), (), unreadable=unreadable)
    # one parser can allow, two can only deny: each is wrong about some text: decision 016
    simple = lex(text)
    if simple is not None and agrees(text, simple) is False:
        simple = None  # a second opinion can only make the decision stricter
    if simple is not None and all(_runs_nothing_else(command.argv) for command in simple):
        argvs = tuple(dict.fromkeys(command.argv for command in simple))
        return ShellCommand(text, simple, argvs, ())
    possible = dict.fromkeys(possible_commands(text))
    if simple is None:
        possible |= dict.fromkeys(grammar_commands(text))
    argvs = tuple(argv for argv in possible if argv)
    if unreadable := _describe_number(argvs):
        return ShellCommand(text, None, (), (), unreadable=unreadable)
    return ShellCommand(
        text,
        simple,
        argvs,
        possible_redirects(text),
        emptied_files(text),
        created_files(text),
        certain_arguments(text),
        runs_unread_text(text),
        glob_words(text),
    )


def _describe_size(text: str) -> str:
    counted = (
        (len(text), MAX_COMMAND_CHARS, "characters"),
        (text.count("|"), MAX_PIPES, "pipes"),
    )
    return _describe_excess(counted)


def _describe_number(commands: Sequence[tuple[str, ...]]) -> str:
    computed = sum(COMPUTED.search(argv[0]) is not None for argv in commands)
    counted = (
        (len(commands), MAX_POSSIBLE_COMMANDS, "possible commands"),
        (sum(map(len, commands)), MAX_POSSIBLE_WORDS, "words in possible commands"),
        (computed, MAX_COMPUTED_COMMANDS, "commands with a computed name"),
    )
    return _describe_excess(counted)


def _describe_excess(counted: Iterable[tuple[int, int, str]]) -> str:
    """Return which number is larger than its limit; empty if none is."""
    return next(
        (
            f"the command has {number:,} {what}, and handrail checks at most {limit:,}"
            for number, limit, what in counted
            if number > limit
        ),
        "",
    )


def read_known_values(text: str) -> ShellCommand:
    """Read a shell command with the known values of some variables and substitutions.

    It says more about what a command may touch, but a rule cannot allow a command by it.
    """
    if _SETS_KNOWN.search(text):
        return read_shell_command(text)
    known = _KNOWN.sub(lambda found: _VALUES[found.lastgroup or ""], text)
    made = set(_HOLDS_MADE.findall(known))
    if made:
        known = _VARIABLE.sub(
            lambda used: _VALUES["made"] if (used[1] or used[2]) in made else used[0], known
        )
    return read_shell_command(known)


@lru_cache(maxsize=8)
def join_literals(text: str) -> str:
    """Return program text with added strings joined into one."""
    return _JOINT.sub("", text)


def find_strings_in_code(command: ShellCommand) -> set[str]:
    """Return strings in a command's program text, as in ``python -c``."""
    if not any(runs_text(argv) for argv in command.possible if argv not in command.arguments):
        return set()
    return {text for _, text in _QUOTED.findall(join_literals(command.text))}


def _shorten(word: str, folders: Sequence[str], *, home: bool) -> str:
    """Return a path, or a setting with one, relative to its folder.

    With ``home``, a tilde may be a home folder.
    """
    name, equals, value = word.rpartition("=")
    path = posixpath.expanduser(value) if home else value
    if ".." not in path:  # a link may lead to another folder, which has another parent
        path = posixpath.normpath(path)
    for folder in folders if path.startswith("/") else ():
        if path == folder:
            return f"{name}{equals}."
        if path.startswith(f"{folder}/"):
            return f"{name}{equals}{path[len(folder) + 1 :]}"
    return word


def _runs_nothing_else(argv: tuple[str, ...]) -> bool:
    """Return whether a command certainly starts no other, so its words need no search."""
    inner = unwrap(argv)
    return not inner.commands and not inner.nested and not runs_its_input(argv)


def paths_in(word: str, folder: str) -> Iterator[str]:
    """Yield the possible paths in a word: the whole word, and the part after ``=`` or ``:``.

    Each is given unchanged, and relative to a folder if there is one.
    """
    for path in dict.fromkeys((word, word.rpartition("=")[2], word.rpartition(":")[2])):
        if path and not path.startswith("-"):
            yield path
            if folder:
                yield posixpath.join(folder, path)


@dataclass(frozen=True, slots=True)
class MatchedCommand:
    """A simple command, its working folder, and the rule allowing it."""

    argv: tuple[str, ...]
    folder: str
    """Relative to the folder in which the shell command starts."""
    rule: Rule | None = None
    command: Command | None = None
    words: tuple[Word, ...] = ()

    @property
    def paths(self) -> Iterator[str]:
        """The paths it may name: every word except kinds that name no path.

        Each is given as if a preceding ``cd`` had succeeded, and as if it had failed.
        """
        own = len(self.command.words) if self.command is not None else 1
        named = (word.text for word in self.words if word.kind not in _NO_PATHS)
        for word in (*self.argv[1:own], *named):
            yield from paths_in(word, self.folder)


def match_commands(
    commands: tuple[SimpleCommand, ...], rules: CommandIndex, usable: Usable
) -> tuple[MatchedCommand, ...]:
    """Return simple commands, each with a usable rule allowing it, if any."""
    folder, matched = "", list[MatchedCommand]()
    for simple in commands:
        matched.append(_match_command(simple.argv, folder, rules, usable))
        if simple.argv[0] == "cd":
            folder = posixpath.join(folder, (*simple.argv[1:], "~")[0])
    return tuple(matched)


def match_spellings(
    spelled: ShellCommand, command: ShellCommand, rules: CommandIndex, usable: Usable
) -> tuple[MatchedCommand, ...]:
    """Match a command as it is spelled, and with paths relative to the workspace."""
    relative = match_commands(command.simple or (), rules, usable)
    if spelled is command:
        return relative
    absolute = match_commands(spelled.simple or (), rules, usable)
    return tuple(
        part if own.rule is None else replace(own, argv=part.argv, folder=part.folder)
        for own, part in zip(absolute, relative, strict=True)
    )


def _match_command(
    argv: tuple[str, ...], folder: str, rules: CommandIndex, usable: Usable
) -> MatchedCommand:
    found = MatchedCommand(argv, folder)
    for rule, command in rules.rules_allowing(argv):
        if usable(rule) and not (command.without_cd and folder not in ("", ".")):
            words = command.read_words(argv)
            if words is not None and (found.rule is None or rule.level is not Level.BUILT_IN):
                found = MatchedCommand(argv, folder, rule, command, words)
                if rule.level is not Level.BUILT_IN:
                    break  # a written rule decides rather than a built-in one
    installed = _INSTALLED.fullmatch(argv[0])
    if found.rule is None and installed is not None and ".." not in argv[0]:
        same = _match_command((installed[1], *argv[1:]), folder, rules, usable)
        # Only system programs may read, not workspace files.
        if same.command is not None and not same.command.read_only:
            found = replace(same, argv=argv)
    return found
