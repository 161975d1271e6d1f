"""Applies edits to notebook cell sources, and adds cells; all other bytes stay."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from handrail.tools._descriptions import join_words
from handrail.tools._edit.advice import NoMatch
from handrail.tools._edit.apply import AppliedEdit, EditedContent, TextEdit, apply_edits
from handrail.tools._files.encoding import DecodedText, decode_text
from handrail.tools._notebook.cells import (
    Cell,
    CellText,
    find_cells,
    write_cell,
    write_source,
)
from handrail.tools._notebook.text import output_lines

_BEYOND = (
    "old_string goes beyond the source of one cell. Pass text within a cell: without the lines in "
    "brackets, outputs, and line breaks around the source."
)
_NO_SOURCE = (
    "A new cell comes after another one. Start new_string with the last line of the source before "
    "it, then the line that starts the new cell."
)
_STARTS_CELL = re.compile(r"\[(?:new cell|cell \d+), (code|markdown|raw)(?:, id [\w-]+)?\]\s*")
"""A new source line starting a cell: as the tool describes it, or as ``read`` shows it."""
_MAX_NAMED_CELLS = 10
_MARKS = range(0xF0000, 0xFFFFE)
"""Characters for private use."""
_Edited: TypeAlias = tuple[Sequence[str], Sequence[AppliedEdit]]
"""The new sources, and what was changed."""


def edit_file(name: str, data: bytes, edits: Sequence[TextEdit]) -> EditedContent | NoMatch:
    """Apply edits to a file; if it is a notebook, to its cell sources."""
    file = decode_text(data)
    cells = find_cells(name, file.text) if file.encoding == "utf-8" else []
    texts = [*(cell.source for cell in cells), *(edit.old + edit.new for edit in edits)]
    used = set(chain.from_iterable(texts))
    mark = next((chr(code) for code in _MARKS if chr(code) not in used), "")
    return _edit_cells(file, cells, edits, mark) if cells and mark else apply_edits(data, edits)


def _edit_cells(
    file: DecodedText, cells: Sequence[Cell], edits: Sequence[TextEdit], mark: str
) -> EditedContent | NoMatch:
    counts = [len(output_lines(cell)) for cell in cells]
    before, gaps = [cell.source for cell in cells], _make_gaps(counts, mark)
    edited = _edit_one(gaps, before, edits) or _edit_all(gaps, before, edits)
    if isinstance(edited, NoMatch):
        where = _name_cells(gaps, before, edited.lines)
        only = "Only the source of cells is searched." * (edited.reason == "absent")
        note = " ".join(filter(None, (where, only)))
        message = edited.message.replace(mark, "[not source]")
        return replace(edited, message=f"{message}\n[{note}]" if note else message)
    sources, changes = edited
    after = [_split_cell(cell, source) for cell, source in zip(cells, sources, strict=True)]
    if any(len(several) > 1 and not several[0].source for several in after):
        return NoMatch("unclear", _NO_SOURCE)
    text = file.text
    for cell, source, several in reversed([*zip(cells, sources, after, strict=True)]):
        if source != cell.source:
            text = text[: cell.first] + _write_cells(file.text, cell, several) + text[cell.last :]
    located = _locate(changes, _find_starts(gaps, sources), counts, after)
    return EditedContent(file.bom + file.part(text), located)


def _split_cell(cell: Cell, source: str) -> list[CellText]:
    """Return a cell with its new source, and the cells started by its new lines."""
    known = set(cell.source.split("\n"))
    found = [(cell.kind, list[str]())]
    for line in source.split("\n"):
        named = _STARTS_CELL.fullmatch(line)
        if named and line not in known:
            found.append((named[1], []))
        else:
            found[-1][1].append(line)
    return [CellText(kind, "\n".join(lines)) for kind, lines in found]


def _write_cells(text: str, cell: Cell, several: Sequence[CellText]) -> str:
    """Return a cell's JSON with another source, and the JSON of new cells below it."""
    own, *new = several
    same = own.source == cell.source
    source = text[cell.start : cell.end] if same else write_source(text, cell, own.source)
    added = [write_cell(text, cell, one, number) for number, one in enumerate(new)]
    return "".join([text[cell.first : cell.start], source, text[cell.end : cell.last], *added])


def _locate(
    changes: Sequence[AppliedEdit],
    starts: Sequence[int],
    counts: Sequence[int],
    after: Sequence[Sequence[CellText]],
) -> tuple[AppliedEdit, ...]:
    """Return changes with the lines and cells ``read`` then shows.

    A new cell is shown below its origin's outputs.
    """

    def move(line: int) -> int:
        number = bisect_right(starts, line) - 1
        own, *new = after[number]
        is_new = new and line > starts[number] + own.source.count("\n")
        return line + counts[number] if is_new else line

    shown = [
        0 if at else n
        for n, several in zip(counts, after, strict=True)
        for at, _ in enumerate(several)
    ]
    gaps, sources = _make_gaps(shown, " "), [one.source for several in after for one in several]
    located = list[AppliedEdit]()
    for change in changes:
        lines = tuple((move(first), move(last)) for first, last in change.lines)
        where = _name_cells(gaps, sources, chain(*(range(a, b + 1) for a, b in lines)))
        located.append(replace(change, lines=lines, note=f"{where} {change.note}".strip()))
    return tuple(located)


def _edit_one(
    gaps: Sequence[str], sources: Sequence[str], edits: Sequence[TextEdit]
) -> _Edited | None:
    """Apply an edit if exactly one cell has its text; None if that is not possible.

    In the joined cells, a line break at the end of an edit could be the one after a source.
    """
    having = [number for number, source in enumerate(sources) if edits[0].old in source]
    if len(having) != 1 or len(edits) != 1:
        return None
    [number] = having
    outcome = apply_edits(sources[number].encode(), edits)
    if isinstance(outcome, NoMatch):
        return None
    above = _find_starts(gaps, sources)[number] - 1
    changes = [
        replace(change, lines=tuple((first + above, last + above) for first, last in change.lines))
        for change in outcome.changes
    ]
    after = [*sources]
    after[number] = outcome.data.decode()
    return after, changes


def _edit_all(
    gaps: Sequence[str], sources: Sequence[str], edits: Sequence[TextEdit]
) -> _Edited | NoMatch:
    """Apply edits to the text shown by ``read``, so the line numbers are the same.

    Each line outside sources is a mark. No edit has it, so none can change such a line.
    """
    whole = "".join(chain(*zip(gaps, sources, strict=False), gaps[-1:]))
    outcome = apply_edits(whole.encode(), edits)
    if isinstance(outcome, NoMatch):
        return outcome
    after = _split(gaps, outcome.data.decode())
    return NoMatch("unclear", _BEYOND) if after is None else (after, outcome.changes)


def _make_gaps(counts: Sequence[int], mark: str) -> list[str]:
    """Return the text before each source and after the last one, for output lines."""
    gaps = ["\n" + f"{mark}\n" * (count + 1) for count in (0, *counts)]
    return [gaps[0][1:], *gaps[1:]]


def _split(gaps: Sequence[str], text: str) -> list[str] | None:
    """Return a text's sources; None if a gap is not as it was."""
    sources = list[str]()
    rest = f"\n{text}"
    for gap in [f"\n{gaps[0]}", *gaps[1:]]:
        source, found, rest = rest.partition(gap)
        if not found:
            return None
        sources.append(source)
    return sources[1:]


def _name_cells(gaps: Sequence[str], sources: Sequence[str], lines: Iterable[int]) -> str:
    """Return which cells some lines are in; empty if there are no lines."""
    starts = _find_starts(gaps, sources)
    numbers = [str(number) for number in sorted({bisect_right(starts, line) for line in lines})]
    if len(numbers) > _MAX_NAMED_CELLS:
        numbers = [*numbers[:_MAX_NAMED_CELLS], f"{len(numbers) - _MAX_NAMED_CELLS} more"]
    word = "cell" if len(numbers) == 1 else "cells"
    return f"In {word} {join_words(numbers)}." if numbers else ""


def _find_starts(gaps: Sequence[str], sources: Sequence[str]) -> list[int]:
    """Return each source's first line, from 1."""
    starts, line = list[int](), 1
    for gap, source in zip(gaps, sources, strict=False):
        starts.append(line + gap.count("\n"))
        line = starts[-1] + source.count("\n")
    return starts
