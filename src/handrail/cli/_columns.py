"""Rows of text in columns, for people."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

_LEAST = 20
"""Room for a last cell below which it is better broken by the terminal."""


def columns(
    rows: Sequence[Sequence[str]], *, gap: int = 2, width: int | None = None
) -> Iterator[str]:
    """Rows with their cells below one another; the last cell of a row is as long as it is.

    With a ``width``, which is that of a terminal, a last cell that is too long goes on below
    itself, and not at the terminal's left edge.
    """
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    margin = sum(widths[:-1]) + gap * (len(widths) - 1)
    room = (width or 0) - margin
    for *firsts, last in rows:
        before = "".join(
            _padded(cell, wide + gap) for cell, wide in zip(firsts, widths, strict=False)
        )
        for line in _folded(last, room) if room >= _LEAST else [last]:
            yield (before + line).rstrip()
            before = " " * margin


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - cells(cell))


def _folded(text: str, room: int) -> Iterator[str]:
    """Text in lines that fit, broken between words where there is a place."""
    while cells(text) > room:
        fits = next(n for n in range(len(text), 0, -1) if cells(text[:n]) <= room)
        at = text.rfind(" ", 1, fits + 1)
        yield text[: at if at > 0 else fits]
        text = text[at + 1 if at > 0 else fits :]
    yield text


def cells(text: str) -> int:
    """The cells of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    return sum(_WIDE.get(unicodedata.east_asian_width(one), 1) for one in text)


_WIDE = {"F": 2, "W": 2}


def most_cells(text: str) -> int:
    """Cells at most: whatever is not ASCII counts as wide, but for marks on a letter.

    Tables of widths are older than some terminals' letters, and no line may be longer than told.
    """
    return len(text) if text.isascii() else sum(map(_most, text))


def pieces(text: str, width: int) -> Iterator[str]:
    """Text in pieces that have so many cells at most."""
    start = used = 0
    for place, character in enumerate(text):
        wide = _most(character)
        if used + wide > width:
            yield text[start:place]
            start, used = place, 0
        used += wide
    yield text[start:]


def _most(character: str) -> int:
    if character.isascii():
        return 1
    return 0 if unicodedata.category(character) in {"Mn", "Me"} else 2
