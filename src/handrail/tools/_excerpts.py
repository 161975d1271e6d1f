"""What grep shows of what it found: one page, file by file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from handrail.tools._hits import File, Row
from handrail.tools._scope import Mode
from handrail.tools._search import quoted
from handrail.tools._shown import hidden, shown

CHARACTERS: Final = 20_000
"""Of one page."""


class Page(NamedTuple):
    """A page of results."""

    text: str
    shown: int
    """Matching lines in it, or files where only those were asked for."""
    clipped: bool
    """Whether a long line in it is not whole."""
    unseen: str
    """What to say of characters in it that cannot be seen."""


class _Piece(NamedTuple):
    text: str
    matches: int
    clipped: bool = False
    raw: str = ""


def page(files: Sequence[File], mode: Mode, *, offset: int, limit: int) -> Page:
    """The matches after ``offset``, as many as are wanted and fit."""
    taken, room, found = list[_Piece](), CHARACTERS, False
    pieces = _excerpts(files, offset, limit) if mode == "content" else _names(files, mode)
    wanted = pieces if mode == "content" else _from(pieces, offset, limit)
    for piece in wanted:
        room -= len(piece.text) + 1
        if room < 0 and found:
            break
        taken.append(piece)
        found |= piece.matches > 0
    return Page(
        text="\n".join(one.text for one in taken),
        shown=sum(one.matches for one in taken),
        clipped=any(one.clipped for one in taken),
        unseen=hidden("\n".join(one.raw for one in taken)),
    )


def _from(pieces: Iterator[_Piece], offset: int, limit: int) -> Iterator[_Piece]:
    for number, piece in enumerate(pieces):
        if offset <= number < offset + limit:
            yield piece


def _names(files: Sequence[File], mode: Mode) -> Iterator[_Piece]:
    for file in files:
        lines = f": {file.rows[0].number:,}" if mode == "count" else ""
        yield _Piece(f"{quoted(file.path)}{lines}", 1)


def _excerpts(files: Sequence[File], offset: int, limit: int) -> Iterator[_Piece]:
    left = limit
    for file in files:
        if offset < file.matches and left > 0:
            yield _Piece(("\n" if left < limit else "") + quoted(file.path), 0)
            for piece in _of(file, offset, left):
                left -= piece.matches
                yield piece
        offset = max(offset - file.matches, 0)


def _of(file: File, skip: int, most: int) -> Iterator[_Piece]:
    """Some matching lines of a file, and what stands around them."""
    begun = False
    for row in _window(file.rows, skip, most):
        mark = ":" if row.matched else "-"
        apart = "--\n" if row.apart and begun else ""
        text = f"{apart}{row.number}{mark} {shown(row.text)}"
        yield _Piece(text, int(row.matched), row.clipped, row.text)
        begun = True
    if not file.rows:
        yield _Piece("(matches, but is no text)", 1)
    elif file.binary:
        yield _Piece("(what follows in this file is no text and was not searched)", 0)


def _window(rows: Sequence[Row], skip: int, most: int) -> Iterator[Row]:
    before = list[Row]()
    for row in rows:
        if row.matched:
            skip -= 1
            if skip < 0:
                most -= 1
                if most < 0:
                    return
                yield from before
                yield row
            before = []
        elif skip < 0 and not row.apart and not before:
            yield row
        else:
            before = [row] if row.apart else [*before, row]
