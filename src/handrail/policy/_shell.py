"""A shell line as judges read it: strictly, to allow; roughly, to find what may not be run.

Neither reading is a boundary: that is the sandbox's work. What cannot be read strictly is never
allowed by a rule.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from handrail.policy._command import Command, Word
from handrail.policy._index import Commands
from handrail.policy._lexer import Simple, lex
from handrail.policy._rough import commands, redirects
from handrail.policy._rule import Rule
from handrail.policy._tree import agrees
from handrail.policy._tree import commands as parsed
from handrail.policy._wrappers import feeds_on_lines, unwrap

MOST_CHARS = 10_000
MOST_COMMANDS = 50
_NO_PATHS = ("text", "number", "lines")
"""Kinds of words that name nothing."""
Usable: TypeAlias = Callable[[Rule], bool]
"""Whether a rule counts for this call, now."""


@dataclass(frozen=True, slots=True)
class Line:
    """One command line, read both ways."""

    text: str
    plain: tuple[Simple, ...] | None
    """Its commands, where bash, dash and zsh certainly read them alike."""
    rough: tuple[tuple[str, ...], ...]
    """Every command that it might run."""
    files: tuple[str, ...]
    """Where it might redirect to or from."""

    @property
    def looked_into(self) -> bool:
        """Whether its commands are known, as far as its text tells."""
        return len(self.text) <= MOST_CHARS

    @property
    def too_big(self) -> str:
        """Why it is too big to be allowed without a question; empty where it is not."""
        if len(self.text) > MOST_CHARS:
            return f"it has {len(self.text)} characters, and more than {MOST_CHARS} are not read"
        if len(self.plain or ()) > MOST_COMMANDS:
            return f"it has {len(self.plain or ())} commands"
        return ""


@lru_cache(maxsize=256)
def read_line(text: str) -> Line:
    """Read a command line; one that is too long to be judged is not looked into."""
    if len(text) > MOST_CHARS:
        return Line(text, None, (), ())
    plain = lex(text)
    if plain is not None and agrees(text, plain) is False:
        plain = None  # a second opinion may only tighten
    if plain is not None and all(_runs_nothing_else(one.argv) for one in plain):
        return Line(text, plain, tuple(dict.fromkeys(one.argv for one in plain)), ())
    rough = dict.fromkeys(commands(text))
    if plain is None:
        rough |= dict.fromkeys(parsed(text))
    return Line(text, plain, tuple(argv for argv in rough if argv), redirects(text))


def _runs_nothing_else(argv: tuple[str, ...]) -> bool:
    """Whether a command surely starts no other: then there is nothing to look for in its words."""
    inner = unwrap(argv)
    return not inner.commands and not inner.lines and not feeds_on_lines(argv)


def paths_in(word: str, folder: str) -> Iterator[str]:
    """What may be a path in a word: all of it, or what stands behind ``=`` or ``:``.

    As it stands, and seen from a folder.
    """
    for path in dict.fromkeys((word, word.rpartition("=")[2], word.rpartition(":")[2])):
        if path and not path.startswith("-"):
            yield path
            if folder:
                yield posixpath.join(folder, path)


@dataclass(frozen=True, slots=True)
class Part:
    """One command of a plain line, where it stands, and the rule that allows it."""

    argv: tuple[str, ...]
    folder: str
    """Where it runs, seen from where the line starts."""
    rule: Rule | None = None
    command: Command | None = None
    words: tuple[Word, ...] = ()

    @property
    def paths(self) -> Iterator[str]:
        """The paths that it may name, where a rule allows it: all but what is surely none.

        Seen from where a ``cd`` leads, and from where it would not have led: it may have failed.
        """
        own = len(self.command.words) if self.command is not None else 1
        named = (word.text for word in self.words if word.kind not in _NO_PATHS)
        for word in (*self.argv[1:own], *named):
            yield from paths_in(word, self.folder)


def parts(line: tuple[Simple, ...], rules: Commands, usable: Usable) -> tuple[Part, ...]:
    """The commands of a plain line, each with a rule that allows it and is usable now."""
    folder, made = "", list[Part]()
    for simple in line:
        made.append(_part(simple.argv, folder, rules, usable))
        if simple.argv[0] == "cd":
            folder = posixpath.join(folder, (*simple.argv[1:], "~")[0])
    return tuple(made)


def _part(argv: tuple[str, ...], folder: str, rules: Commands, usable: Usable) -> Part:
    for rule, command in rules.allowing(argv):
        if usable(rule) and not (command.here and folder not in ("", ".")):
            words = command.reading(argv)
            if words is not None:
                return Part(argv, folder, rule, command, words)
    return Part(argv, folder)
