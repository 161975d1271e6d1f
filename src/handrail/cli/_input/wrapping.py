"""Breaks input rows between words. prompt_toolkit alone breaks them anywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence

from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.utils import get_cwidth

_MIN_ROOM = 4
_PIECES = re.compile(r"\S+|\s")


class WholeWords(Processor):
    """Fills a row with spaces where the next word does not fit. The text itself is unchanged."""

    def __init__(self, margin: int) -> None:
        self._margin = margin

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Return the line with these spaces, and a map between its places and the text's."""
        given = transformation_input
        text = "".join(fragment[1] for fragment in given.fragments)
        gaps = find_gaps(text, max(given.width - self._margin, _MIN_ROOM))
        if not gaps:
            return Transformation(given.fragments)
        filled: list[tuple[str, str]] = []
        at = 0
        for fragment in given.fragments:
            for character in fragment[1]:
                if at in gaps:
                    filled.append(("", " " * gaps[at]))
                filled.append((fragment[0], character))
                at += 1
        places = list(gaps.items())
        return Transformation([*filled], lambda at: _shown(places, at))


def find_gaps(text: str, room: int) -> dict[int, int]:
    """Return where a row ends before a word, and by how many spaces too early."""
    gaps: dict[int, int] = {}
    column = 0
    for piece in _PIECES.finditer(text):
        size = get_cwidth(piece[0])
        if not piece[0].isspace() and column and room - column < size <= room:
            gaps[piece.start()] = room - column
            column = 0
        column = (column + size) % room
    return gaps


def _shown(gaps: Sequence[tuple[int, int]], at: int) -> int:
    """Return a text position's place on the row."""
    return at + sum(size for place, size in gaps if place <= at)
