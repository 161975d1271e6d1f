"""What differs between an old text and the closest part of a file, made visible for a model."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from handrail.tools._alike import BLANKS, alike
from handrail.tools._closest import Row
from handrail.tools._shown import shown

_ROWS = 24
"""Rows that are shown."""
_WIDTH = 140
"""Characters of a row."""
_BEFORE = 40
"""Characters before the first difference in a row that is too long."""
LEGEND = "Line by line (where blanks differ, · is a space and → a tab)"
_VISIBLE = str.maketrans({" ": "·", "\t": "→", "\r": "␍"})


def differing(old: Sequence[str], rows: Sequence[Row]) -> str:
    """Two texts line by line: as the file has it, and as the old text has it."""
    shown_rows = [line for row in rows for line in _lines(old, row)]
    some = shown_rows[:_ROWS]
    if len(shown_rows) > _ROWS:
        some.append(f"... {len(shown_rows) - _ROWS} more rows like these")
    return "\n".join(some)


def _lines(old: Sequence[str], row: Row) -> Iterator[str]:
    number = str(row.line + 1)
    if row.line < 0:
        yield _row("yours", "", shown(old[row.mine]), 0)
    elif row.mine < 0:
        yield _row("file", number, shown(row.theirs), 0)
    elif old[row.mine] == row.theirs:
        yield _row("both", number, shown(row.theirs), 0)
    else:
        yield from _both(old[row.mine], row.theirs, number)


def _both(mine: str, theirs: str, number: str) -> Iterator[str]:
    blank = _differ_in_blanks(mine, theirs)
    one, two = (_visible(line, blank=blank) for line in (mine, theirs))
    differs = zip(one, two, strict=False)
    at = next((at for at, (a, b) in enumerate(differs) if a != b), min(len(one), len(two)))
    yield _row("yours", "", one, at)
    yield _row("file", number, two, at)


def _differ_in_blanks(mine: str, theirs: str) -> bool:
    """Whether blanks differ at the ends of two lines, or nothing else differs."""
    ends = [
        (line[: len(line) - len(line.lstrip(BLANKS))], line[len(line.rstrip(BLANKS)) :])
        for line in (mine, theirs)
    ]
    return ends[0] != ends[1] or "".join(alike(mine).split()) == "".join(alike(theirs).split())


def _visible(line: str, *, blank: bool) -> str:
    seen = shown(line.translate(_VISIBLE) if blank else line)
    return "".join(_with_code(one) for one in seen[: _WIDTH * 4]) + seen[_WIDTH * 4 :]


def _with_code(one: str) -> str:
    """A character with its code point, if it looks like another."""
    if one.isascii() or one in "·→␍" or (alike(one) == one and not unicodedata.combining(one)):
        return one
    return f"{one}<U+{ord(one):04X}>"


def _row(who: str, number: str, text: str, at: int) -> str:
    start = at - _BEFORE if at > _WIDTH - _BEFORE else 0
    cut = text[start : start + _WIDTH]
    cut = f"...{cut}" if start else cut
    cut = f"{cut}..." if len(text) > start + _WIDTH else cut
    return f"{who:>5} {number:>6} |{cut}"
