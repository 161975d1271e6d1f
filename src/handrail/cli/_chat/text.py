"""A model's text as it streams in: safe to print piece by piece, and wrapped between words."""

from __future__ import annotations

import re
from itertools import accumulate

from handrail.approvals import make_printable

MARGIN = "  "
"""Starts each row of a model's text, so that none of them looks like a row of handrail's."""
_MAX_HELD_CHARS = 40
"""Characters of an unfinished word to hold back: an escape sequence may arrive in pieces."""
_TAB = " " * 4
_MAX_LINE_BREAKS = 3
"""Consecutive line breaks to print, so that empty rows push nothing off the screen."""
_MIN_COLUMNS = 20
_PIECE = re.compile(r"\r?\n| +|(?:(?!\r?\n)[^ \n]){1,200}")
_WORD = re.compile(r"[^ \n]{1,200}")


def safe(text: str) -> str:
    """Escape everything in a text that a terminal would obey; keep spaces and line breaks."""
    even = text.replace("\r\n", "\n").replace("\t", _TAB)
    return _WORD.sub(lambda word: make_printable(word[0]).text, even)


def columns(text: str) -> int:
    """Return the most columns that a text can take; terminals differ for non-ASCII characters."""
    return sum(1 if character.isascii() else 2 for character in text)


def truncate(text: str, width: int) -> str:
    """Return as much of a safe text as fits in a row, with an ellipsis if some is missing."""
    if columns(text) <= width:
        return text
    return text[: count_fitting(text, width - 2)] + "…"


class StreamedText:
    """Prepares a growing text for printing. Its output is safe and never ends inside a word."""

    def __init__(self, width: int) -> None:
        self._width = max(width - len(MARGIN), _MIN_COLUMNS)
        self._held = ""
        self._column = 0
        self._gap = 0
        """Spaces to print before the next word, if that word is on the same row."""
        self._breaks = _MAX_LINE_BREAKS
        """Line breaks since the last word."""

    @property
    def is_mid_row(self) -> bool:
        """Whether the last printed row is unfinished."""
        return self._column > 0

    def feed(self, text: str) -> str:
        """Add a piece, and return the text that can be printed now."""
        pieces = _PIECE.findall(self._held + text.replace("\t", _TAB))
        self._held = ""
        if pieces and len(pieces[-1]) < _MAX_HELD_CHARS and not pieces[-1].endswith((" ", "\n")):
            self._held = pieces.pop()
        return "".join(map(self._put, pieces))

    def end(self) -> str:
        """Return the rest, with a line break if a row is unfinished."""
        held, self._held = self._held, ""
        rest = self._put(held) if held else ""
        line_break = "\n" if self._column else ""
        self._column, self._gap, self._breaks = 0, 0, _MAX_LINE_BREAKS
        return rest + line_break

    def _put(self, piece: str) -> str:
        if piece.endswith("\n"):
            self._breaks += 1
            self._column = self._gap = 0
            return "\n" if self._breaks <= _MAX_LINE_BREAKS else ""
        if piece.startswith(" "):
            self._gap += len(piece)
            return ""
        return self._word(make_printable(piece).text)

    def _word(self, word: str) -> str:
        self._breaks = 0
        gap, self._gap = self._gap, 0
        if not self._column:
            gap = min(gap, self._width // 2)
            return MARGIN + " " * gap + self._fill_rows(word, gap)
        if self._column + gap + columns(word) <= self._width:
            return " " * gap + self._fill_rows(word, self._column + gap)
        return f"\n{MARGIN}{self._fill_rows(word, 0)}"

    def _fill_rows(self, word: str, column: int) -> str:
        """Return a word that starts at a column, split into rows if it is longer than one."""
        rows: list[str] = []
        while columns(word) > self._width - column:
            at = max(count_fitting(word, self._width - column), 0 if column else 1)
            rows.append(word[:at])
            word, column = word[at:], 0
        self._column = column + columns(word)
        return f"\n{MARGIN}".join([*rows, word])


def count_fitting(text: str, width: int) -> int:
    """Return how many characters of a safe text fit in a row."""
    used = accumulate(map(columns, text))
    return next((place for place, column in enumerate(used) if column > width), len(text))
