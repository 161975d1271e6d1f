"""Tables in a terminal: aligned columns whose cells wrap, or one field on a row if many."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TypeAlias

from handrail.cli._base.columns import max_cells
from handrail.cli._screen.inline import read_words
from handrail.cli._screen.rows import Flow, Row, Span, Word, plain, width_of

_MIN_COLUMNS = 8
"""The fewest columns to which a cell is wrapped."""
_GAP = 2
_CELL_END = re.compile(r"(?<!\\)\|")
_DELIMITER = re.compile(r" {0,3}+\|?+\s*+:?+-++:?+\s*+(?:\|\s*+:?+-++:?+\s*+)*\|?+\s*+")
_Cell: TypeAlias = tuple[Word, ...]


def is_delimiter(line: str) -> bool:
    """Return whether a line is the rule below a table's header."""
    return "|" in line and _DELIMITER.fullmatch(line) is not None


def read_cells(line: str) -> list[str]:
    """Return the cells in a table's row as source."""
    text = line.strip()
    inner = text.removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(inner)]


def draw_table(lines: Sequence[str], width: int) -> Iterator[Row]:
    """Yield a table as rows. The first line is the header; the second is left out."""
    sources = [read_cells(line) for at, line in enumerate(lines) if at != 1]
    head = [read_words(cell, "title") for cell in sources[0]]
    body = [[read_words(cell) for cell in row] for row in sources[1:]]
    count = max(map(len, (head, *body)))
    filled = [[*row, *[()] * (count - len(row))] for row in (head, *body)]
    widths = _widths(filled, width)
    if widths is None:
        yield from _records(filled, width)
        return
    for number, row in enumerate(filled):
        yield from _draw_row(row, widths)
        if number == 0:
            yield (Span((" " * _GAP).join("─" * wide for wide in widths), "muted"),)


def _size(cell: _Cell) -> int:
    return sum(map(width_of, cell)) + max(len(cell) - 1, 0)


def _widths(rows: Sequence[Sequence[_Cell]], width: int) -> list[int] | None:
    """Return a width for each column, or None if a column would be too narrow for its words."""
    columns = list(zip(*rows, strict=True))
    wanted = [max(1, *map(_size, column)) for column in columns]
    least = [
        min(want, max(_MIN_COLUMNS, *(width_of(word) for cell in column for word in cell), 0))
        for want, column in zip(wanted, columns, strict=True)
    ]
    room = width - _GAP * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(wanted) > room:
        widest = max(range(len(wanted)), key=lambda at: wanted[at] - least[at])
        wanted[widest] -= 1
    return wanted


def _wrap(cell: _Cell, width: int) -> list[Row]:
    flow = Flow(width)
    flow.begin((), ())
    return [*flow.put(cell), *flow.end()]


def _draw_row(cells: Sequence[_Cell], widths: Sequence[int]) -> Iterator[Row]:
    wrapped = [_wrap(cell, wide) for cell, wide in zip(cells, widths, strict=True)]
    for parts in zip_longest(*wrapped, fillvalue=()):
        row: list[Span] = []
        owed = 0
        """Spaces before the next part, keeping row ends free from them."""
        for part, wide in zip(parts, widths, strict=True):
            if part:
                row += [Span(" " * owed)] * bool(owed) + list(part)
                owed = 0
            owed += wide - max_cells(plain(part)) + _GAP
        yield tuple(row)


def _records(rows: Sequence[Sequence[_Cell]], width: int) -> Iterator[Row]:
    """Yield one field on a row, with its column's name."""
    head, *body = rows
    for number, row in enumerate(body or [[()] * len(head)]):
        if number:
            yield ()
        for name, cell in zip(head, row, strict=True):
            if name or cell:
                flow = Flow(width)
                flow.begin((), (Span("  "),))
                yield from flow.put([*_with_colon(name), *cell])
                yield from flow.end()


def _with_colon(name: _Cell) -> list[Word]:
    return [*name[:-1], (*name[-1], Span(":", "title"))] if name else []
