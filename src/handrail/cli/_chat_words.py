"""What a model says, as it comes: safe to print in pieces, and broken where a word ends."""

from __future__ import annotations

import re
from itertools import accumulate

from handrail.approvals import displayed

MARGIN = "  "
"""Before each row of a model's words: none of them looks like a row of ours."""
_HELD = 40
"""Characters of a word that wait for its end: what a terminal obeys may come in pieces."""
_TAB = " " * 4
_MOST_BREAKS = 3
"""Line ends in a row that are shown: nothing is pushed off the screen by empty rows."""
_NARROWEST = 20
_PIECE = re.compile(r"\r?\n| +|(?:(?!\r?\n)[^ \n]){1,200}")
_WORD = re.compile(r"[^ \n]{1,200}")


def safe(text: str) -> str:
    """Text that a terminal only shows: blanks and line ends as they are, all else written out."""
    even = text.replace("\r\n", "\n").replace("\t", _TAB)
    return _WORD.sub(lambda word: displayed(word[0]).text, even)


def columns(text: str) -> int:
    """The most that a text can take of a row: terminals differ in what is not ASCII."""
    return sum(1 if one.isascii() else 2 for one in text)


def fitting(text: str, width: int) -> str:
    """As much of a safe text as fits into a row, and a sign that there is more."""
    if columns(text) <= width:
        return text
    return text[: fits(text, width - 2)] + "…"


class Words:
    """A text that grows. What it gives is safe to print, and never ends in the middle of a word."""

    def __init__(self, width: int) -> None:
        self._width = max(width - len(MARGIN), _NARROWEST)
        self._held = ""
        self._column = 0
        self._gap = 0
        """Blanks that are printed with the word behind them, if there is one on that row."""
        self._breaks = _MOST_BREAKS
        """Line ends since the last word."""

    @property
    def amid(self) -> bool:
        """Whether the row that was printed last goes on."""
        return self._column > 0

    def feed(self, text: str) -> str:
        """Take a piece; what may be printed now."""
        pieces = _PIECE.findall(self._held + text.replace("\t", _TAB))
        self._held = ""
        if pieces and len(pieces[-1]) < _HELD and not pieces[-1].endswith((" ", "\n")):
            self._held = pieces.pop()
        return "".join(map(self._put, pieces))

    def end(self) -> str:
        """The rest; the row is ended, if one was begun."""
        held, self._held = self._held, ""
        rest = self._put(held) if held else ""
        ended = "\n" if self._column else ""
        self._column, self._gap, self._breaks = 0, 0, _MOST_BREAKS
        return rest + ended

    def _put(self, piece: str) -> str:
        if piece.endswith("\n"):
            self._breaks += 1
            self._column = self._gap = 0
            return "\n" if self._breaks <= _MOST_BREAKS else ""
        if piece.startswith(" "):
            self._gap += len(piece)
            return ""
        return self._word(displayed(piece).text)

    def _word(self, word: str) -> str:
        self._breaks = 0
        gap, self._gap = self._gap, 0
        if not self._column:
            gap = min(gap, self._width // 2)
            return MARGIN + " " * gap + self._filled(word, gap)
        if self._column + gap + columns(word) <= self._width:
            return " " * gap + self._filled(word, self._column + gap)
        return f"\n{MARGIN}{self._filled(word, 0)}"

    def _filled(self, word: str, column: int) -> str:
        """A word from a column on; one that is longer than a row goes on in the next."""
        rows: list[str] = []
        while columns(word) > self._width - column:
            at = max(fits(word, self._width - column), 0 if column else 1)
            rows.append(word[:at])
            word, column = word[at:], 0
        self._column = column + columns(word)
        return f"\n{MARGIN}".join([*rows, word])


def fits(text: str, width: int) -> int:
    """How many characters of a safe text fit into a row."""
    used = accumulate(map(columns, text))
    return next((place for place, column in enumerate(used) if column > width), len(text))
