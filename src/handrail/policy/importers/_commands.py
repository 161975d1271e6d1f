"""Commands from Claude Code rules, as words for handrail commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import dropwhile, takewhile

from handrail.policy._shell.rough import possible_commands
from handrail.policy._shell.strict import lex
from handrail.policy._shell.wrappers import matches, program_name, unwrap

EVERY = "*"
"""The command in a deny or an ask for every command."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=.*")
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+=-]+")


def plain_words(text: str) -> tuple[str, ...] | None:
    """Return one simple command's words, or None if it is not one, or cannot be expressed.

    Two parsers must agree, so no redirection is missed.
    """
    read = lex(text)
    if read is None or len(read) != 1 or list(read[0].argv) != shlex.split(text):
        return None
    return read[0].argv if all(map(_is_expressible, read[0].argv)) else None


def _is_expressible(word: str) -> bool:
    """Return whether a word can be part of a handrail command, split at whitespace."""
    return word.split() == [word]


def least_command(text: str) -> tuple[str, bool]:
    """Return the narrowest command matching a text completely, and whether it is exact."""
    words = plain_words(text)
    if words is not None:
        return _least_command_of_words(words)
    raw = text.split()
    plain = list(takewhile(_PLAIN.fullmatch, raw))
    command, exact = _least_command_of_words(plain)
    return command, exact and plain == raw


def _least_command_of_words(words: Sequence[str]) -> tuple[str, bool]:
    """Return the narrowest command for everything starting with these words.

    The second value says whether it is exact. A program is denied by its name, at any path and with
    any variables set before it.
    """
    usable = list(takewhile(_is_expressible, dropwhile(_ASSIGNMENT.fullmatch, words)))
    named = [program_name(usable[0]), *usable[1:]] if usable and program_name(usable[0]) else []
    for shorter in (named, named[:1]):
        if _is_seen(shorter):
            return " ".join(shorter), shorter == list(words)
    return EVERY, False


def _is_seen(words: Sequence[str]) -> bool:
    """Return whether a rule with these words matches the same words as a command."""
    wanted = tuple(words)
    return wanted != (EVERY,) and any(
        matches(argv, wanted) for argv in possible_commands(shlex.join(words))
    )


def describe_meaning(command: str) -> str:
    """Return the note on a deny or an ask that matches more than before."""
    if command == EVERY:
        return "in handrail it matches every command"
    return f"in handrail it matches everything that starts with {command}"


def describe_risk(command: str) -> str:
    """Return a warning about an allow for a program that runs others, or ""."""
    name, _, _ = command.partition(" ")
    inner = unwrap((name, "-c", "a b"))
    runs_others = inner.commands or inner.nested
    return f"it allows everything that {name} can run; review it" if runs_others else ""
