"""Colors code, line by line as it streams in, with the state each line leaves to the next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from handrail.cli._screen.rows import Span

_MAX_COLORED_ROWS = 400
"""Colored rows in a block."""
_MAX_COLORED_CHARS = 2_000
"""Longest colored line."""


class _Language(NamedTuple):
    words: str
    note: str = "#"
    """Pattern for the start of a comment to the line's end."""
    long: tuple[tuple[str, str, str], ...] = ()
    """Parts that can continue over lines: how it starts, how it ends, and its role."""
    defines: str = "def class function fn func struct enum interface trait type"
    runs: bool = False
    """Whether a line's first word is a program."""


_PYTHON = _Language(
    "False None True and as assert async await break case class continue def del elif else except "
    "finally for from global if import in is lambda match nonlocal not or pass raise return try "
    "while with yield",
    long=(('"""', '"""', "code.text"), ("'''", "'''", "code.text")),
)
_BRACES = _Language(
    "abstract async await bool break case catch char class const continue default defer delete do "
    "double else enum export extends extern false final finally float fn for foreach from func "
    "function go goto if impl implements import in int interface let long loop match mod module "
    "mut namespace new nil null override package private protected pub public return select self "
    "short signed sizeof static string struct super switch template this throw throws trait true "
    "try type typedef typeof undefined union unsafe unsigned use using val var virtual void where "
    "while yield",
    note="//",
    long=(("/*", "*/", "code.note"), ("`", "`", "code.text")),
)
_SHELL = _Language(
    "case do done elif else esac exit export fi for function if in local return select then until "
    "while",
    note=r"(?<![^\s;])#",
    runs=True,
)
_SQL = _Language(
    "add all alter and as asc begin between by case commit create cross default delete desc "
    "distinct drop else end exists false foreign from full group having if in index inner insert "
    "into is join key left like limit not null on or order outer primary references right rollback "
    "select set table then true union unique update values view when where with",
    note="--",
    long=(("/*", "*/", "code.note"),),
)
_DATA = _Language("true false null yes no on off")
_FAMILIES: Mapping[str, tuple[str, _Language]] = MappingProxyType(
    {
        "python": ("python py python3 pycon ruby rb", _PYTHON),
        "braces": (
            (
                "c cc cpp c++ cs csharp css dart go groovy h hpp java javascript js json5 jsonc "
                "jsx kotlin kt less php rs rust scala scss swift ts tsx typescript zig"
            ),
            _BRACES,
        ),
        "shell": ("bash console dockerfile fish makefile sh shell shell-session zsh", _SHELL),
        "sql": ("mysql postgres postgresql sql sqlite", _SQL),
        "data": ("cfg conf ini json jsonl properties toml yaml yml", _DATA),
        "diff": ("diff patch", _Language("")),
        "text": ("plain plaintext text txt", _Language("")),
    }
)
_LANGUAGES = {name: family for family, (names, _) in _FAMILIES.items() for name in names.split()}


def is_known(language: str) -> bool:
    """Return whether this language is colored, so its name need not be shown."""
    return not language or language.lower() in _LANGUAGES


@cache
def _pattern(family: str) -> re.Pattern[str]:
    language = _FAMILIES[family][1]
    starts = "|".join(re.escape(start) for start, _, _ in language.long) or "(?!)"
    return re.compile(
        rf"(?P<long>{starts})"
        rf"|(?P<note>{language.note}.*)"
        r"""|(?P<text>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)"""
        r"|(?P<number>\b\d[\w.]*)"
        r"|(?P<name>[^\W\d]\w*)"
    )


@cache
def _words(family: str) -> tuple[frozenset[str], frozenset[str]]:
    language = _FAMILIES[family][1]
    return frozenset(language.words.split()), frozenset(language.defines.split())


class Highlighter:
    """Colors the lines in one code block."""

    def __init__(self, language: str) -> None:
        self._family = _LANGUAGES.get(language.lower(), "text")
        self._open: tuple[str, str] | None = None
        """How a comment or text from an earlier line ends, and its role."""
        self._rows = 0

    def color(self, line: str) -> tuple[Span, ...]:
        """Return a line in roles. Its text is not changed."""
        self._rows += 1
        if self._rows > _MAX_COLORED_ROWS or len(line) > _MAX_COLORED_CHARS:
            return (Span(line),)
        if self._family == "diff":
            return (Span(line, _DIFF_ROLES.get(line[:1], "text")),)
        if self._family == "text":
            return (Span(line),)
        return tuple(self._spans(line))

    def _spans(self, line: str) -> Iterator[Span]:
        at = 0
        if self._open is not None:
            at, span = self._close(line, 0, 0)
            yield span
        after = ""
        while found := _pattern(self._family).search(line, at):
            if found.start() > at:
                yield Span(line[at : found.start()])
            kind, at = found.lastgroup, found.end()
            if kind == "long":
                start = found[0]
                self._open = next(
                    (end, role) for begin, end, role in self._language.long if begin == start
                )
                at, span = self._close(line, found.start(), found.end())
                yield span
            else:
                yield Span(found[0], self._role(kind or "", line, found, after))
            after = found[0]
        if line[at:]:
            yield Span(line[at:])

    @property
    def _language(self) -> _Language:
        return _FAMILIES[self._family][1]

    def _close(self, line: str, start: int, search: int) -> tuple[int, Span]:
        """Return where an open comment or text ends in a line, and its part here."""
        end, role = self._open or ("", "")
        found = line.find(end, search)
        until = len(line) if found < 0 else found + len(end)
        if found >= 0:
            self._open = None
        return until, Span(line[start:until], role)

    def _role(self, kind: str, line: str, found: re.Match[str], after: str) -> str:
        if kind != "name":
            return f"code.{kind}"
        words, defines = _words(self._family)
        if (found[0].lower() if self._family == "sql" else found[0]) in words:
            return "code.word"
        first = self._language.runs and not line[: found.start()].strip(" $")
        return "code.name" if after in defines or first else "text"


_DIFF_ROLES = {"+": "added", "-": "removed"}
