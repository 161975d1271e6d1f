"""Commands of other people's rules, in the words that ours name them by."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from itertools import dropwhile, takewhile
from typing import Any

from handrail.policy._lexer import lex
from handrail.policy._rough import commands
from handrail.policy._wrappers import base, matches, unwrap

EVERY = "*"
"""The command of a deny or an ask that means all of them."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=.*")
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+=-]+")


def words_of(text: str) -> tuple[str, ...] | None:
    """The words of a text that is one plain command; None where it is not, or ours cannot say it.

    Two readers have to agree, so that no redirection is left out unseen.
    """
    read = lex(text)
    if read is None or len(read) != 1 or list(read[0].argv) != shlex.split(text):
        return None
    return read[0].argv if all(map(sayable, read[0].argv)) else None


def sayable(word: str) -> bool:
    """Whether a word can stand in a command of ours, where blanks part words."""
    return word.split() == [word]


def refused(text: str) -> tuple[str, bool]:
    """The least command of ours that means all of a text, and whether it is all there."""
    words = words_of(text)
    if words is not None:
        return refused_words(words)
    raw = text.split()
    plain = list(takewhile(_PLAIN.fullmatch, raw))
    command, exact = refused_words(plain)
    return command, exact and plain == raw


def refused_words(words: Sequence[str]) -> tuple[str, bool]:
    """The least command of ours that means all that begins with these words, and whether exactly.

    A program is refused by its name, wherever it lies, and whatever is set before it.
    """
    kept = list(takewhile(sayable, dropwhile(_ASSIGNMENT.fullmatch, words)))
    named = [base(kept[0]), *kept[1:]] if kept and base(kept[0]) else []
    for shorter in (named, named[:1]):
        if _is_seen(shorter):
            return " ".join(shorter), shorter == list(words)
    return EVERY, False


def _is_seen(words: Sequence[str]) -> bool:
    """Whether ours sees these words where they are a line: of syntax, it sees what is inside."""
    wanted = tuple(words)
    return wanted != (EVERY,) and any(matches(one, wanted) for one in commands(shlex.join(words)))


def meaning(named: Iterable[str]) -> str:
    """What to know of a deny or an ask that means more than it did."""
    several = list(named)
    if EVERY in several:
        return "it means every command here"
    return f"it means everything that begins with {', '.join(several)} here"


def allowing(named: Iterable[str]) -> dict[str, Any]:
    """A rule that allows these commands, whatever follows them."""
    several = list(named)
    command = several if len(several) > 1 else several[0]
    return {"decide": "allow", "command": command, "flags": "any", "operands": "any"}


def warning(named: Iterable[str]) -> str:
    """What to know of an allow that lets a program run others; empty where it does not."""
    for command in named:
        name = command.split()[0]
        inner = unwrap((name, "-c", "a b"))
        if inner.commands or inner.lines:
            return f"as there, it allows whatever {name} is told to run: think again"
    return ""
