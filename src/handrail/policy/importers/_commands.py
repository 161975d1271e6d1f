"""Commands from other agents' rules, as words for handrail commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from itertools import dropwhile, takewhile
from typing import Any

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
    return read[0].argv if all(map(is_expressible, read[0].argv)) else None


def is_expressible(word: str) -> bool:
    """Return whether a word can be part of a handrail command, split at whitespace."""
    return word.split() == [word]


def least_command(text: str) -> tuple[str, bool]:
    """Return the narrowest command matching a text completely, and whether it is exact."""
    words = plain_words(text)
    if words is not None:
        return least_command_of_words(words)
    raw = text.split()
    plain = list(takewhile(_PLAIN.fullmatch, raw))
    command, exact = least_command_of_words(plain)
    return command, exact and plain == raw


def least_command_of_words(words: Sequence[str]) -> tuple[str, bool]:
    """Return the narrowest command for everything starting with these words.

    The second value says whether it is exact. A program is denied by its name, at any path and with
    any variables set before it.
    """
    usable = list(takewhile(is_expressible, dropwhile(_ASSIGNMENT.fullmatch, words)))
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


def describe_meaning(named: Iterable[str]) -> str:
    """Return the note on a deny or an ask that matches more than before."""
    several = list(named)
    if EVERY in several:
        return "in handrail it matches every command"
    return f"in handrail it matches everything that starts with {', '.join(several)}"


def allow_table(named: Iterable[str]) -> dict[str, Any]:
    """Return a rule allowing these commands with any arguments."""
    several = list(named)
    command = several if len(several) > 1 else several[0]
    return {"decide": "allow", "command": command, "flags": "any", "operands": "any"}


def describe_risk(named: Iterable[str]) -> str:
    """Return a warning about an allow for a program that runs others, or ""."""
    for command in named:
        name = command.split()[0]
        inner = unwrap((name, "-c", "a b"))
        if inner.commands or inner.nested:
            return f"it allows everything that {name} can run; review it"
    return ""
