"""Commands as rules name them: words, then flags by their exact names, then operands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from handrail.policy._errors import Unusable


def _inside(text: str) -> bool:
    """A path that does not leave the directory it starts in, and no address."""
    return not text.startswith(("/", "~")) and ".." not in text.split("/") and "://" not in text


_LINES = re.compile(r"(?:\d+|\$)(?:,\+?(?:\d+|\$))?p")
_PLACE = re.compile(r"(?:\./|[A-Za-z0-9_][A-Za-z0-9_-]*/)[A-Za-z0-9_./+-]*")
_NUMBER = re.compile(r"[+-]?[0-9]+")
_VALUE = re.compile(r"-[0-9]*")
_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.@:+][A-Za-z0-9_.@:+-]*")
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)

KINDS: dict[str, Callable[[str], bool]] = {
    "text": lambda _: True,
    "path": lambda text: _inside(text) or text == "/dev/null",
    "file": lambda text: _inside(text) and not text.startswith("-") and text != "",
    "place": lambda text: _inside(text) and _PLACE.fullmatch(text) is not None,
    "here": lambda text: text.startswith("./") and KINDS["place"](text),
    "number": lambda text: _NUMBER.fullmatch(text) is not None,
    "name": lambda text: _NAME.fullmatch(text) is not None,
    "setting": lambda text: _SETTING.fullmatch(text) is not None,
    "lines": lambda text: _LINES.fullmatch(text) is not None,
}
"""What a value may be: any text; a path inside the workspace; the same, but never what is piped
in; a path that is plainly one, with a folder; one that begins with ``./``; a number; a plain name;
``KEY=value``; lines that sed prints, as ``1,20p``."""


_SHORT = 2
"""The length of a flag of one letter."""


class Flag(NamedTuple):
    """A flag by its exact name, and what it takes: nothing, a value, or a value after ``=``."""

    name: str
    takes: str
    kind: str


class Operand(NamedTuple):
    """A kind of operand, and how often it may stand."""

    kind: str
    least: int
    most: float


class Word(NamedTuple):
    """A word of a command whose kind is known."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command by its first words; for an allow, with everything that may follow them."""

    words: tuple[str, ...]
    flags: tuple[Flag, ...] | None = ()
    """None: any."""
    operands: tuple[Operand, ...] | None = ()
    """None: any."""
    reads: bool = False
    """Whether it only reads."""
    here: bool = False
    """Whether it counts only where no ``cd`` went before."""
    deep: tuple[str, ...] = ()
    """The flags that make it read all below its paths; ``*``, where it always does."""

    def reading(self, argv: Sequence[str]) -> tuple[Word, ...] | None:
        """The words after the command's own, each with its kind; None where it is not this one."""
        if tuple(argv[: len(self.words)]) != self.words:
            return None
        try:
            return tuple(self._read(argv[len(self.words) :]))
        except _Unlisted:
            return None

    def goes_deep(self, argv: Sequence[str]) -> bool:
        """Whether it reads everything below the paths that it names."""
        return "*" in self.deep or any(
            one == word or (len(one) == _SHORT and word[:1] == "-" != word[1:2] and one[1] in word)
            for one in self.deep
            for word in argv
        )

    def _read(self, words: Sequence[str]) -> Iterator[Word]:
        operands: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--" and self.operands != ():
                operands += rest
            elif word.startswith("-") and word != "-":
                yield from self._flag(word, rest)
            else:
                operands.append(word)
        yield from self._placed(operands)

    def _flag(self, word: str, rest: Iterator[str]) -> Iterator[Word]:
        if self.flags is None:
            glued = range(_SHORT, 1 if word[1] == "-" else len(word))
            for value in (word.partition("=")[2], *(word[start:] for start in glued)):
                yield Word("path", value)  # it may be one
            return
        name, equals, value = word.partition("=")
        known = [one for one in self.flags if one.name == (name if equals else word)]
        if equals and known:
            takes = next((one for one in known if one.takes and len(name) > _SHORT), None)
            yield _checked(takes, value)
        elif any(not one.takes for one in known) or self._is_number(word):
            return
        elif known:
            takes = next((one for one in known if one.takes == ":"), None)
            yield _checked(takes, _next(rest))
        else:
            yield from _short(word, self.flags, rest)

    def _is_number(self, word: str) -> bool:
        return (
            word[1:].isdecimal()
            and word.isascii()
            and any(one.name == "-#" for one in self.flags or ())
        )

    def _placed(self, words: list[str]) -> Iterator[Word]:
        if self.operands is None:
            for word in words:
                yield Word("path", word)
            return
        left = list(words)
        for place, operand in enumerate(self.operands):
            later = sum(one.least for one in self.operands[place + 1 :])
            count = 0
            while count < operand.most and len(left) > later and KINDS[operand.kind](left[0]):
                yield Word(operand.kind, left.pop(0))
                count += 1
            if count < operand.least:
                raise _Unlisted
        if left:
            raise _Unlisted


class _Unlisted(Exception):
    """A word that the rule does not name."""


def _checked(flag: Flag | None, value: str | None) -> Word:
    if flag is None or value is None or not KINDS[flag.kind](value):
        raise _Unlisted
    return Word(flag.kind, value)


def _next(rest: Iterator[str]) -> str | None:
    """The word after a flag, if it can only be its value: one with a dash may be another flag."""
    value = next(rest, None)
    looks_like_a_flag = value is not None and value.startswith("-") and not _VALUE.fullmatch(value)
    return None if looks_like_a_flag else value


def _short(word: str, flags: Sequence[Flag], rest: Iterator[str]) -> Iterator[Word]:
    """Single letters in one word, as ``-la``; the last may take a value, glued or not."""
    if word.startswith("--"):
        raise _Unlisted
    for place, letter in enumerate(word[1:], _SHORT):
        known = [one for one in flags if one.name == f"-{letter}" and one.takes != "="]
        if not known:
            raise _Unlisted
        if all(one.takes for one in known):
            yield _checked(known[0], word[place:] or _next(rest))
            return


def flag(text: str) -> Flag:
    """A flag as it is written: ``-l``, ``-n:number``, ``--format=text``, ``-#`` for ``-20``."""
    named = re.fullmatch(r"(--?[A-Za-z0-9#][A-Za-z0-9._-]*)(?:([:=])([a-z]*))?", text)
    if named is None:
        raise Unusable(f"{text!r} is no flag: write '-l', '-n:number' or '--format=text'")
    name, takes, kind = named[1], named[2] or "", named[3] or "text"
    if kind not in KINDS:
        raise Unusable(f"{text!r}: there are the kinds {', '.join(KINDS)}")
    return Flag(name, takes, kind)


def operand(text: str) -> Operand:
    """An operand as it is written: ``path``; ``path?`` for one at most, ``path*`` for many."""
    kind, often = text.rstrip("*?+"), text[len(text.rstrip("*?+")) :]
    if kind not in KINDS or often not in ("", "?", "*", "+"):
        raise Unusable(f"{text!r} is no operand: there are {', '.join(KINDS)}, each with ?, * or +")
    least = 1 if often in ("", "+") else 0
    return Operand(kind, least, 1 if often in ("", "?") else float("inf"))
