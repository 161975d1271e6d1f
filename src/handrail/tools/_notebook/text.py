"""A notebook as text: the source of each cell below a line that names it, then its outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from handrail._support import is_list, is_object
from handrail.tools._notebook.cells import Cell

_MAX_OUTPUT_LINES = 20
"""Lines of an output shown: the last ones of an error, the first ones of all others."""
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)


class OutputLine(NamedTuple):
    """A line of a notebook's text that is not source."""

    text: str
    image: str = ""
    """An image in base64, if the line names one."""


class NotebookText(NamedTuple):
    """A notebook as text."""

    text: str
    images: Sequence[tuple[int, str]]
    """Images in base64, each with the number of its line, from 1."""


def name_cell(number: int, cell: Cell) -> str:
    """Return the line above a cell."""
    return f"[cell {number}, {cell.kind}{f', id {cell.id}' if cell.id else ''}]"


# one text for `read` and `edit`, so there is no second tool with its own search: decision 049
def render_notebook(cells: Sequence[Cell]) -> NotebookText:
    """Return a notebook as text. ``output_lines`` says how many lines follow each source."""
    rows, images = list[str](), list[tuple[int, str]]()
    for number, cell in enumerate(cells, 1):
        rows += [name_cell(number, cell), *cell.source.split("\n")]
        for line in output_lines(cell):
            rows.append(line.text)
            images += [(len(rows), line.image)] if line.image else []
    return NotebookText("\n".join([*rows, ""]), images)


def output_lines(cell: Cell) -> list[OutputLine]:
    """Return a cell's outputs."""
    lines = [line for output in cell.outputs if is_object(output) for line in _show_output(output)]
    return [OutputLine("[output]"), *lines] if lines else []


def _show_output(output: dict[str, object]) -> Iterator[OutputLine]:
    data = output.get("data")
    if is_object(data):
        yield from _show_data(data)
        return
    is_error = output.get("output_type") == "error"
    lines = _COLOR.sub("", _join(output.get("traceback" if is_error else "text"), "\n" * is_error))
    yield from _shorten(lines.splitlines(), last=is_error)


def _show_data(data: dict[str, object]) -> Iterator[OutputLine]:
    """Yield the form of a result a reader can use: an image, text, or its size."""
    images = [kind for kind in data if kind.startswith("image/")]
    if not images and "text/plain" in data:
        yield from _shorten(_join(data["text/plain"]).splitlines())
        return
    for kind in images or data:
        content = _join(data[kind])
        size = len(content) * 3 // 4 if images else len(content)
        name = kind if _MEDIA_TYPE.fullmatch(kind) else "unknown type"
        yield OutputLine(f"| [{name}, {size:,} bytes]", content if images else "")


def _join(text: object, between: str = "") -> str:
    """Return a text that may be a list of lines; empty for everything else."""
    parts = text if is_list(text) else [text]
    return between.join(part for part in parts if isinstance(part, str))


def _shorten(lines: Sequence[str], *, last: bool = False) -> Iterator[OutputLine]:
    more = len(lines) - _MAX_OUTPUT_LINES
    note = [f"[{more:,} more lines]"] if more > 0 else []
    shown = lines[-_MAX_OUTPUT_LINES:] if last else lines[:_MAX_OUTPUT_LINES]
    for line in [*note, *shown] if last else [*shown, *note]:
        yield OutputLine("| " + line.encode("utf-8", "replace").decode())
