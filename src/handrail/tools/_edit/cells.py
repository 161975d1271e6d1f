"""Applies edits to the source of a notebook's cells; the rest of the file keeps its bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from handrail.tools._descriptions import join_words
from handrail.tools._edit.advice import NoMatch
from handrail.tools._edit.apply import AppliedEdit, EditedContent, TextEdit, apply_edits
from handrail.tools._files.encoding import DecodedText, decode_text
from handrail.tools._notebook.cells import Cell, find_cells, write_source
from handrail.tools._notebook.text import output_lines

_BEYOND = (
    "old_string goes beyond the source of one cell. Pass text within a cell: without the lines in "
    "brackets, outputs, and line breaks around the source."
)
_MAX_NAMED_CELLS = 10
_MARKS = range(0xF0000, 0xFFFFE)
"""Characters for private use."""
_Edited: TypeAlias = tuple[Sequence[str], Sequence[AppliedEdit]]
"""The new sources, and what was changed."""


def edit_file(name: str, data: bytes, edits: Sequence[TextEdit]) -> EditedContent | NoMatch:
    """Apply edits to a file; if it is a notebook, to the source of its cells."""
    file = decode_text(data)
    cells = find_cells(name, file.text) if file.encoding == "utf-8" else []
    texts = [*(cell.source for cell in cells), *(edit.old + edit.new for edit in edits)]
    used = set(chain.from_iterable(texts))
    mark = next((chr(code) for code in _MARKS if chr(code) not in used), "")
    return _edit_cells(file, cells, edits, mark) if cells and mark else apply_edits(data, edits)


def _edit_cells(
    file: DecodedText, cells: Sequence[Cell], edits: Sequence[TextEdit], mark: str
) -> EditedContent | NoMatch:
    before, gaps = [cell.source for cell in cells], _make_gaps(cells, mark)
    edited = _edit_one(gaps, before, edits) or _edit_all(gaps, before, edits)
    if isinstance(edited, NoMatch):
        where = _name_cells(gaps, before, edited.lines)
        only = "Only the source of cells is searched." * (edited.reason == "absent")
        note = " ".join(filter(None, (where, only)))
        message = edited.message.replace(mark, "[not source]")
        return replace(edited, message=f"{message}\n[{note}]" if note else message)
    after, changes = edited
    text = file.text
    for cell, source in reversed([*zip(cells, after, strict=True)]):
        if source != cell.source:
            text = text[: cell.start] + write_source(file.text, cell, source) + text[cell.end :]
    named = (_name_cells(gaps, after, chain(*change.lines)) for change in changes)
    return EditedContent(
        file.bom + file.part(text),
        tuple(
            replace(change, note=f"{where} {change.note}".strip())
            for change, where in zip(changes, named, strict=True)
        ),
    )


def _edit_one(
    gaps: Sequence[str], sources: Sequence[str], edits: Sequence[TextEdit]
) -> _Edited | None:
    """Apply an edit if exactly one cell has its text; None if that is not possible.

    In the text of all cells, a line break at the end of an edit could be the one after a source.
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
    """Apply edits to the text that ``read`` shows, so that the line numbers are the same.

    Each line that is not source is a mark. No edit has it, so none can change such a line.
    """
    whole = "".join(chain(*zip(gaps, sources, strict=False), gaps[-1:]))
    outcome = apply_edits(whole.encode(), edits)
    if isinstance(outcome, NoMatch):
        return outcome
    after = _split(gaps, outcome.data.decode())
    return NoMatch("unclear", _BEYOND) if after is None else (after, outcome.changes)


def _make_gaps(cells: Sequence[Cell], mark: str) -> list[str]:
    """Return the text before each source, and after the last one."""
    counts = [0, *(len(output_lines(cell)) for cell in cells)]
    gaps = ["\n" + f"{mark}\n" * (count + 1) for count in counts]
    return [gaps[0][1:], *gaps[1:]]


def _split(gaps: Sequence[str], text: str) -> list[str] | None:
    """Return the sources of a text; None if a gap is not as it was."""
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
    """Return the first line of each source, from 1."""
    starts, line = list[int](), 1
    for gap, source in zip(gaps, sources, strict=False):
        starts.append(line + gap.count("\n"))
        line = starts[-1] + source.count("\n")
    return starts
