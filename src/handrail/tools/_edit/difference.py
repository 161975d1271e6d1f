"""Shows a model how old_string differs from a file's closest part."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from handrail._support.visible import spell_out
from handrail.tools._edit.lookalikes import SPACES, unify_lookalikes
from handrail.tools._edit.nearest import LinePair

_MAX_ROWS = 24
"""Rows shown."""
_MAX_ROW_CHARS = 140
"""Characters in a row."""
_CHARS_BEFORE = 40
"""Characters before the first difference in an overlong row."""
_MARKS = ("·", "→", "<U+")
_VISIBLE = str.maketrans({" ": "·", "\t": "→", "\r": "␍"})


class Difference(NamedTuple):
    """Two texts, line by line."""

    rows: str
    has_marks: bool
    """Whether characters are marked in them."""


def format_difference(old: Sequence[str], rows: Sequence[LinePair]) -> Difference:
    """Format two texts line by line: as the old text has it, and as the file has it."""
    shown_rows = [line for row in rows for line in _format_pair(old, row)]
    some = shown_rows[:_MAX_ROWS]
    if len(shown_rows) > _MAX_ROWS:
        some.append(f"... {len(shown_rows) - _MAX_ROWS} more rows")
    text = "\n".join(some)
    return Difference(text, any(mark in text for mark in _MARKS))


def _format_pair(old: Sequence[str], row: LinePair) -> Iterator[str]:
    number = str(row.line + 1)
    if row.line < 0:
        yield _format_row("yours", "", spell_out(old[row.mine]), 0)
    elif row.mine < 0:
        yield _format_row("file", number, spell_out(row.theirs), 0)
    elif old[row.mine] == row.theirs:
        yield _format_row("both", number, spell_out(row.theirs), 0)
    else:
        yield from _format_change(old[row.mine], row.theirs, number)


def _format_change(mine: str, theirs: str, number: str) -> Iterator[str]:
    spaces = _differ_in_spaces(mine, theirs)
    ours, other = (_mark_characters(line, spaces=spaces) for line in (mine, theirs))
    differs = zip(ours, other, strict=False)
    at = next((at for at, (a, b) in enumerate(differs) if a != b), min(len(ours), len(other)))
    yield _format_row("yours", "", ours, at)
    yield _format_row("file", number, other, at)


def _differ_in_spaces(mine: str, theirs: str) -> bool:
    """Return whether whitespace differs at two lines' ends, or nothing else differs."""
    ends = [
        (line[: len(line) - len(line.lstrip(SPACES))], line[len(line.rstrip(SPACES)) :])
        for line in (mine, theirs)
    ]
    return ends[0] != ends[1] or "".join(unify_lookalikes(mine).split()) == "".join(
        unify_lookalikes(theirs).split()
    )


def _mark_characters(line: str, *, spaces: bool) -> str:
    seen = spell_out(line.translate(_VISIBLE) if spaces else line)
    return (
        "".join(_with_code(character) for character in seen[: _MAX_ROW_CHARS * 4])
        + seen[_MAX_ROW_CHARS * 4 :]
    )


def _with_code(character: str) -> str:
    """Return a character, with its code point if it looks like another one."""
    if (
        character.isascii()
        or character in "·→␍"
        or (unify_lookalikes(character) == character and not unicodedata.combining(character))
    ):
        return character
    return f"{character}<U+{ord(character):04X}>"


def _format_row(who: str, number: str, text: str, at: int) -> str:
    start = at - _CHARS_BEFORE if at > _MAX_ROW_CHARS - _CHARS_BEFORE else 0
    cut = text[start : start + _MAX_ROW_CHARS]
    cut = f"...{cut}" if start else cut
    cut = f"{cut}..." if len(text) > start + _MAX_ROW_CHARS else cut
    return f"{who:>5} {number:>6} |{cut}"
