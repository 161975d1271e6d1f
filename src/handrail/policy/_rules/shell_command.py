"""A shell command, read in two ways: strictly, for allow rules; roughly, for deny and ask rules.

Neither reading is a security boundary; the sandbox is. A command that cannot be read strictly is
never allowed by a rule.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from handrail.policy._rules.command import Command, Word
from handrail.policy._rules.index import CommandIndex
from handrail.policy._rules.rule import Level, Rule
from handrail.policy._shell.grammar import agrees, grammar_commands
from handrail.policy._shell.rough import possible_commands, possible_redirects
from handrail.policy._shell.strict import SimpleCommand, lex
from handrail.policy._shell.wrappers import runs_its_input, unwrap

MAX_COMMAND_CHARS = 10_000
MAX_SIMPLE_COMMANDS = 50
_NO_PATHS = ("text", "number", "sed_lines", "jq_filter", "git_format")
"""Kinds of words that name no path."""
Usable: TypeAlias = Callable[[Rule], bool]
"""Whether a rule applies to this call, now."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A shell command, read both ways."""

    text: str
    simple: tuple[SimpleCommand, ...] | None
    """Its simple commands, if bash, dash and zsh certainly agree on them; else None."""
    possible: tuple[tuple[str, ...], ...]
    """Every command that it may run."""
    files: tuple[str, ...]
    """Every file that it may redirect to or from."""

    @property
    def is_readable(self) -> bool:
        """Whether the text is short enough to be read at all."""
        return len(self.text) <= MAX_COMMAND_CHARS

    @property
    def too_big(self) -> str:
        """Why the command is too big to be allowed without approval; else empty."""
        if len(self.text) > MAX_COMMAND_CHARS:
            return (
                f"the command has {len(self.text):,} characters, and handrail checks at most "
                f"{MAX_COMMAND_CHARS:,}"
            )
        if len(self.simple or ()) > MAX_SIMPLE_COMMANDS:
            return (
                f"it runs {len(self.simple or ())} commands, and at most {MAX_SIMPLE_COMMANDS} are "
                "allowed without approval"
            )
        return ""


@lru_cache(maxsize=256)
def read_shell_command(text: str) -> ShellCommand:
    """Read a shell command. One that is too long is not read at all."""
    if len(text) > MAX_COMMAND_CHARS:
        return ShellCommand(text, None, (), ())
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
    return ShellCommand(text, simple, argvs, possible_redirects(text))


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
    """A simple command, the folder that it runs in, and the rule that allows it."""

    argv: tuple[str, ...]
    folder: str
    """Relative to the folder in which the shell command starts."""
    rule: Rule | None = None
    command: Command | None = None
    words: tuple[Word, ...] = ()

    @property
    def paths(self) -> Iterator[str]:
        """The paths that it may name: every word except those of a kind that names no path.

        Each is given as if a preceding ``cd`` had succeeded, and as if it had failed.
        """
        own = len(self.command.words) if self.command is not None else 1
        named = (word.text for word in self.words if word.kind not in _NO_PATHS)
        for word in (*self.argv[1:own], *named):
            yield from paths_in(word, self.folder)


def match_commands(
    commands: tuple[SimpleCommand, ...], rules: CommandIndex, usable: Usable
) -> tuple[MatchedCommand, ...]:
    """Return simple commands, each with a usable rule that allows it, if there is one."""
    folder, matched = "", list[MatchedCommand]()
    for simple in commands:
        matched.append(_match_command(simple.argv, folder, rules, usable))
        if simple.argv[0] == "cd":
            folder = posixpath.join(folder, (*simple.argv[1:], "~")[0])
    return tuple(matched)


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
    return found
