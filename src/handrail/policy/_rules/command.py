"""Commands in rules: words, then flags by their exact names, then operands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from handrail.policy._rules.errors import InvalidRule


def _stays_inside(text: str) -> bool:
    """Return whether no part, as in ``html:a`` or ``x @ file:a``, is a path leading out.

    A URL has such a part.
    """
    return not any(
        part.startswith(("/", "~")) or ".." in part.split("/") for part in _PARTS.split(text)
    )


def _is_inside(text: str) -> bool:
    """Return whether a text is a path inside its directory, and not a list of options.

    Many programs read options from the file ``a`` if a word is ``@a``.
    """
    return not text.startswith("@") and _stays_inside(text)


_PARTS = re.compile(r"[:=\s]")
_JQ_LOADS = re.compile(r"\b(?:import|include|modulemeta)\b")
_GIT_VERIFIES = re.compile(r"%[-+ ]?G|signature")
_SED_LINES = re.compile(r"(?:\d+|\$)(?:,\+?(?:\d+|\$))?p")
_SUBPATH = re.compile(r"(?:\./|[A-Za-z0-9_][A-Za-z0-9_-]*/)[A-Za-z0-9_./+-]*")
_NUMBER = re.compile(r"[+-]?[0-9]+")
_VALUE = re.compile(r"-[0-9]*")
_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.:+][A-Za-z0-9_.@:+-]*")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)

KINDS: dict[str, Callable[[str], bool]] = {
    "text": lambda _: True,
    "path": lambda text: _is_inside(text) or text == "/dev/null",
    "file": lambda text: _is_inside(text) and not text.startswith("-") and text != "",
    "subpath": lambda text: _is_inside(text) and _SUBPATH.fullmatch(text) is not None,
    "dot_path": lambda text: text.startswith("./") and KINDS["subpath"](text),
    "number": lambda text: _NUMBER.fullmatch(text) is not None,
    "name": lambda text: _NAME.fullmatch(text) is not None,
    "word": lambda text: _WORD.fullmatch(text) is not None,
    "assignment": lambda text: _ASSIGNMENT.fullmatch(text) is not None,
    "sed_lines": lambda text: _SED_LINES.fullmatch(text) is not None,
    "jq_filter": lambda text: _JQ_LOADS.search(text) is None,
    "revision": _stays_inside,
    "git_format": lambda text: _GIT_VERIFIES.search(text) is None,
}
"""Operand and flag value kinds, each with its test.

``file`` is a ``path`` that cannot be ``-`` or a flag. ``subpath`` contains a folder, so it cannot
be a subcommand. ``dot_path`` starts with ``./``. ``word`` has no dot, so it cannot name a file with
a suffix. ``sed_lines`` are lines to print, as ``1,20p``. ``jq_filter`` loads no files. ``revision``
is a path or a git revision, as ``@{u}``. ``git_format`` prints no signature, because git would run
gpg.
"""

_LETTER_FLAG_CHARS = 2
"""Characters in a single-letter flag."""


class Flag(NamedTuple):
    """A flag by its exact name, with its value kind.

    ``takes`` is empty (no value), ``:`` (a value) or ``=`` (a value after ``=`` only).
    """

    name: str
    takes: str
    kind: str


class Operand(NamedTuple):
    """An operand kind, and how often it can occur."""

    kind: str
    least: int
    most: float


class Word(NamedTuple):
    """A command's word, with its kind."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command by its first words. An allow rule also lists the flags and operands it accepts."""

    words: tuple[str, ...]
    flags: tuple[Flag, ...] | None = ()
    """None accepts every flag."""
    operands: tuple[Operand, ...] | None = ()
    """None accepts every operand."""
    read_only: bool = False
    """Whether the command only reads."""
    without_cd: bool = False
    """Whether the rule applies only if no ``cd`` comes before the command."""
    getopt: bool = False
    """Whether its one-letter flags can be combined and have values attached, as in ``-rn5``."""
    wide: bool = False
    """Whether ``*`` is its last word: then its consequences still need approval."""
    recursive: tuple[str, ...] = ()
    """Flags making it read everything below its paths, or ``*`` if it always does."""

    def read_words(self, argv: Sequence[str]) -> tuple[Word, ...] | None:
        """Return the words after the command's own, each with its kind; None if they differ."""
        if tuple(argv[: len(self.words)]) != self.words:
            return None
        try:
            return tuple(self._read_rest(argv[len(self.words) :]))
        except _Unlisted:
            return None

    def is_recursive(self, argv: Sequence[str]) -> bool:
        """Return whether the command reads everything below the paths it names."""
        return "*" in self.recursive or any(
            flag == word
            or (
                len(flag) == _LETTER_FLAG_CHARS and word[:1] == "-" != word[1:2] and flag[1] in word
            )
            for flag in self.recursive
            for word in argv
        )

    def _read_rest(self, words: Sequence[str]) -> Iterator[Word]:
        operands: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--" and self._ends_flags():
                operands += rest
            elif word.startswith("-") and word != "-":
                yield from self._read_flag(word, rest)
            else:
                operands.append(word)
        yield from self._read_operands(operands)

    def _ends_flags(self) -> bool:
        """Return whether ``--`` only ends the flags.

        A program not known to use getopt may take it for an operand, as xxd does, unless the rule
        accepts any text.
        """
        kinds = [operand.kind for operand in self.operands or ()]
        return self.operands is None or (bool(kinds) and self.getopt) or "text" in kinds

    def _read_flag(self, word: str, rest: Iterator[str]) -> Iterator[Word]:
        if self.flags is None:
            glued = range(_LETTER_FLAG_CHARS, 1 if word[1] == "-" else len(word))
            for value in (word.partition("=")[2], *(word[start:] for start in glued)):
                yield Word("path", value)  # it may be a path
            return
        name, equals, value = word.partition("=")
        known = [flag for flag in self.flags if flag.name == (name if equals else word)]
        if equals and known:
            takes = next(
                (flag for flag in known if flag.takes and len(name) > _LETTER_FLAG_CHARS), None
            )
            yield _check_value(takes, value)
        elif any(not flag.takes for flag in known) or self._is_number(word):
            return
        elif known:
            takes = next((flag for flag in known if flag.takes == ":"), None)
            yield _check_value(takes, _next_value(rest))
        elif self.getopt:  # `tree -Io` has two flags: decision 045
            yield from _read_letters(word, self.flags, rest)
        else:
            raise _Unlisted

    def _is_number(self, word: str) -> bool:
        return (
            word[1:].isdecimal()
            and word.isascii()
            and any(flag.name == "-#" for flag in self.flags or ())
        )

    def _read_operands(self, words: list[str]) -> Iterator[Word]:
        if self.operands is None:
            for word in words:
                yield Word("path", word)
            return
        left = list(words)
        for index, operand in enumerate(self.operands):
            later = sum(other.least for other in self.operands[index + 1 :])
            count = 0
            while count < operand.most and len(left) > later and self._takes(operand, left[0]):
                yield Word(operand.kind, left.pop(0))
                count += 1
            if count < operand.least:
                raise _Unlisted
        if left:
            raise _Unlisted

    def _takes(self, operand: Operand, word: str) -> bool:
        """Return whether an operand can be this word.

        A program not known to use getopt may read flags even after ``--``.
        """
        may_be_a_flag = word.startswith("-") and word != "-" and operand.kind != "text"
        return KINDS[operand.kind](word) and (self.getopt or not may_be_a_flag)


class _Unlisted(Exception):
    """A word missing from the rule."""


def _check_value(flag: Flag | None, value: str | None) -> Word:
    if flag is None or value is None or not KINDS[flag.kind](value):
        raise _Unlisted
    return Word(flag.kind, value)


def _next_value(rest: Iterator[str]) -> str | None:
    """Return the word after a flag if it can only be its value, not another flag."""
    value = next(rest, None)
    looks_like_a_flag = value is not None and value.startswith("-") and not _VALUE.fullmatch(value)
    return None if looks_like_a_flag else value


def _read_letters(word: str, flags: Sequence[Flag], rest: Iterator[str]) -> Iterator[Word]:
    """Read combined single-letter flags, as ``-la``. The last one can take a value."""
    if word.startswith("--"):
        raise _Unlisted
    for end, letter in enumerate(word[1:], _LETTER_FLAG_CHARS):
        known = [flag for flag in flags if flag.name == f"-{letter}" and flag.takes != "="]
        if not known:
            raise _Unlisted
        if all(flag.takes for flag in known):
            yield _check_value(known[0], word[end:] or _next_value(rest))
            return


def parse_flag(text: str) -> Flag:
    """Read a flag: ``-l``, ``-n:number``, ``--format=text``, or ``-#`` for ``-20``."""
    named = re.fullmatch(r"(--?[A-Za-z0-9#][A-Za-z0-9._-]*)(?:([:=])([a-z_]*))?", text)
    if named is None:
        raise InvalidRule(f"invalid flag {text!r}; write '-l', '-n:number' or '--format=text'")
    name, takes, kind = named[1], named[2] or "", named[3] or "text"
    if kind not in KINDS:
        raise InvalidRule(f"flag {text!r}: {_describe_unknown_kind(kind)}")
    return Flag(name, takes, kind)


def parse_operand(text: str) -> Operand:
    """Read an operand: ``path``, ``path?`` (at most one), ``path*`` or ``path+`` (at least one)."""
    kind, often = text.rstrip("*?+"), text[len(text.rstrip("*?+")) :]
    if kind not in KINDS:
        raise InvalidRule(f"operand {text!r}: {_describe_unknown_kind(kind)}")
    if often not in ("", "?", "*", "+"):
        raise InvalidRule(
            f"invalid operand {text!r}; write '{kind}', '{kind}?', '{kind}*' or '{kind}+'"
        )
    least = 1 if often in ("", "+") else 0
    return Operand(kind, least, 1 if often in ("", "?") else float("inf"))


def _describe_unknown_kind(kind: str) -> str:
    return f"unknown kind {kind!r}; use one of {', '.join(KINDS)}"
