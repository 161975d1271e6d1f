"""Text in columns, for people."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

_MIN_LAST_CELLS = 12
"""The narrowest last column wrapped here. The terminal wraps a narrower one."""


def columns(
    rows: Sequence[Sequence[str]], *, gap: int = 2, width: int | None = None
) -> Iterator[str]:
    """Yield rows as aligned columns. A row's last cell is not padded.

    With a terminal's ``width``, an overlong last cell is wrapped within its column.
    """
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    margin = sum(widths[:-1]) + gap * (len(widths) - 1)
    room = (width or 0) - margin
    for *firsts, last in rows:
        before = "".join(_pad(cell, wide + gap) for cell, wide in zip(firsts, widths, strict=False))
        for line in _wrap(last, room) if room >= _MIN_LAST_CELLS else [last]:
            yield (before + line).rstrip()
            before = " " * margin


def _pad(cell: str, width: int) -> str:
    return cell + " " * (width - cells(cell))


def _wrap(text: str, room: int) -> Iterator[str]:
    """Yield text in fitting lines, broken between words where possible."""
    while cells(text) > room:
        fits = next(n for n in range(len(text), 0, -1) if cells(text[:n]) <= room)
        at = text.rfind(" ", 1, fits + 1)
        yield text[: at if at > 0 else fits]
        text = text[at + 1 if at > 0 else fits :]
    yield text


def cells(text: str) -> int:
    """Return a text's width in terminal cells."""
    if text.isascii():
        return len(text)
    return sum(map(_character_cells, text))


_WIDE = {"F": 2, "W": 2}
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"
_MARKS = frozenset({"Mn", "Me"})


def _character_cells(character: str) -> int:
    if character in _JOINERS or unicodedata.category(character) in _MARKS:
        return 0
    return _WIDE.get(unicodedata.east_asian_width(character), 1)


def max_cells(text: str) -> int:
    """Return a text's maximum width in cells, keeping lines within their limit.

    Every character outside ASCII is taken as wide, except combining marks: the width tables in
    Python and in a terminal can differ.
    """
    return len(text) if text.isascii() else sum(map(_max_character_cells, text))


def pieces(text: str, width: int) -> Iterator[str]:
    """Yield text in pieces with at most ``width`` cells."""
    start = used = 0
    for index, character in enumerate(text):
        wide = _max_character_cells(character)
        if used + wide > width:
            yield text[start:index]
            start, used = index, 0
        used += wide
    yield text[start:]


def _max_character_cells(character: str) -> int:
    if character.isascii():
        return 1
    return 0 if unicodedata.category(character) in _MARKS else 2


def quantity(number: int, what: str) -> str:
    """Return a number with a noun, as in "2 runs"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def is_utf8(encoding: str) -> bool:
    """Return whether an encoding is UTF-8."""
    return encoding.lower().replace("-", "").replace("_", "") == "utf8"
