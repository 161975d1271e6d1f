"""Screen rows: text in roles, safe to print, broken between words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from handrail.approvals import make_printable
from handrail.cli._base.columns import max_cells

GUTTER = "  "
"""Starts each row in a model's text: none looks like a row by handrail."""
MAX_PROSE_COLUMNS = 100
_MAX_SENT_ROWS = 10
"""Rows shown from a message."""
_MIN_ROOM = 8
"""The fewest columns for a word behind a margin. A deeper margin is cut."""
_PIECES = re.compile(r".{1,200}[^\x00-\xff]{0,20}", re.DOTALL)
"""Makes a long word printable in pieces. None begins with a mark on the letter before it."""


class Span(NamedTuple):
    """Some text in one role."""

    text: str
    role: str = "text"


Row: TypeAlias = tuple[Span, ...]
Word: TypeAlias = tuple[Span, ...]
"""Text without a space. Its parts can have different roles."""
BREAK: Word = ()
"""Ends a row, wherever it is among words."""


@lru_cache(maxsize=4096)
def printable(word: str) -> str:
    """Return a word with everything escaped that a terminal would obey, hide or move."""
    if word.isascii() and word.isprintable() and "\\u{" not in word:
        return word
    return "".join(make_printable(piece[0], prose=True).text for piece in _PIECES.finditer(word))


_BLANKS = re.compile("( +)")


def safe_line(text: str) -> str:
    """Return an outside line made safe to print, with its spaces."""
    return "".join(
        piece if piece.startswith(" ") else printable(piece)
        for piece in _BLANKS.split(text.replace("\t", "    "))
    )


def plain(row: Row) -> str:
    """Return a row's text."""
    return "".join([span.text for span in row])


def width_of(spans: Iterable[Span]) -> int:
    """Return the most columns spans can take."""
    return sum([max_cells(span.text) for span in spans])


SIGN = Span("❯ ", "accent")  # noqa: RUF001  a sign, not a quotation mark
"""Starts what the person says."""
_ONE_BLANK = Span(" ")
_role = attrgetter("role")


@lru_cache(maxsize=8192)
def _word_width(word: Word) -> int:
    return width_of(word)


class Flow:
    """Fills rows with words. No row is wider than the limit, and no fitting word is split."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._hang: Row = ()
        self._row: list[Span] = []
        self._column = 0
        self._empty = True
        """Whether the current row has no word yet."""

    def copy(self) -> Flow:
        """Return a copy in the same state."""
        other = Flow(self._width)
        vars(other).update(vars(self), _row=list(self._row))
        return other

    def begin(self, first: Row, hang: Row) -> None:
        """Start a row with this margin; rows continuing it have the other one."""
        self._hang = hang
        self._start(first)

    def _start(self, margin: Row) -> None:
        self._row = list(margin)
        self._column = width_of(margin)
        self._empty = True

    def put(self, words: Sequence[Word]) -> Iterator[Row]:
        """Add words, and yield each row as soon as it is full."""
        for word in words:
            if not word:
                yield self._take()
                self._start(self._hang)
                continue
            size = _word_width(word)
            if not self._empty:
                if self._column + 1 + size <= self._width:
                    self._row.append(_ONE_BLANK)
                    self._column += 1
                else:
                    yield self._take()
                    self._start(self._hang)
            if self._column + size <= self._width:
                self._row += word
                self._column += size
                self._empty = False
            else:
                yield from self._break(word)

    def _break(self, word: Word) -> Iterator[Row]:
        for span in word:
            for piece in self._split(span):
                if piece is None:
                    yield self._take()
                    self._start(self._hang)
                else:
                    self._row.append(piece)
                    self._column += width_of((piece,))
                    self._empty = False

    def _split(self, span: Span) -> Iterator[Span | None]:
        """Yield the parts of a word longer than a row, with None for each new row."""
        text = span.text
        while text:
            at = count_fitting(text, self._width - self._column)
            if at:
                yield Span(text[:at], span.role)
            text = text[at:]
            if text:
                yield None

    def _take(self) -> Row:
        spans, self._row = self._row, []
        same = groupby(spans, _role)
        return strip_end(tuple([Span("".join([s.text for s in row]), role) for role, row in same]))

    def end(self) -> Iterator[Row]:
        """Yield the last row."""
        yield self._take()


def count_fitting(text: str, width: int) -> int:
    """Return how many characters in a safe text fit in a width."""
    if len(text) * 2 <= width:
        return len(text)
    used = 0
    for index, character in enumerate(text):
        used += max_cells(character)
        if used > width:
            return index
    return len(text)


def fit_margin(margin: Row, width: int) -> Row:
    """Return a margin leaving room for words."""
    return margin if width_of(margin) <= max(width - _MIN_ROOM, 0) else (Span(GUTTER),)


def fold(row: Row, room: int) -> list[Row]:
    """Split a row with spaces into rows with a width, between words where one fits."""
    text = plain(row)
    if max_cells(text) <= room:
        return [row]
    cuts = [0]
    while cuts[-1] < len(text):
        start = cuts[-1]
        at = start + max(count_fitting(text[start:], room), 1)
        if at < len(text) and (blank := text.rfind(" ", start + 1, at + 1)) > 0:
            words = text[start : blank + 1].strip(" ")
            at = blank + 1 if words else at
        cuts.append(at)
    return [_slice(row, *pair) for pair in pairwise(cuts)]


def sent_rows(text: str, width: int) -> list[Row]:
    """Return the user's message as rows."""
    room = max(min(width, MAX_PROSE_COLUMNS) - len(GUTTER), 1)
    lines = [(Span(safe_line(line), "title"),) for line in text.split("\n")]
    rows = [row for line in lines for row in fold(line, room)]
    if len(rows) > _MAX_SENT_ROWS + 1:
        more = f"… {len(rows) - _MAX_SENT_ROWS:,} more rows"
        rows[_MAX_SENT_ROWS:] = [(Span(more, "muted"),)]
    return [(Span(GUTTER) if number else SIGN, *row) for number, row in enumerate(rows)]


def _slice(row: Row, start: int, end: int) -> Row:
    spans: list[Span] = []
    for span in row:
        if start < len(span.text) and end > 0:
            spans.append(Span(span.text[max(start, 0) : end], span.role))
        start, end = start - len(span.text), end - len(span.text)
    return strip_end(tuple(spans))


def strip_end(row: Row) -> Row:
    """Return a row without spaces at its end."""
    while row and not row[-1].text.strip(" "):
        row = row[:-1]
    return (*row[:-1], Span(row[-1].text.rstrip(" "), row[-1].role)) if row else ()
