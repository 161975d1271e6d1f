"""Finds the cells of a notebook in its JSON text, and writes new sources and cells."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeGuard

from handrail._support import is_list

SUFFIX = ".ipynb"
_FORMAT = 4
_KINDS = ("code", "markdown", "raw")
_MAX_CHARS = 16 * 1024 * 1024
"""Characters of a notebook; a longer one is plain text."""
_MAX_QUOTES = 200_000
"""Quotes of a notebook, which bound its strings and cells; one with more is plain text."""
_ID = re.compile(r"[\w-]{1,64}", re.ASCII)
_SPACE = re.compile(r"[ \t\n\r]*")
_UNFIT = re.compile("[\0\ud800-\udfff]")
"""Characters a text file cannot have, but a string in JSON can."""
_ESCAPED = re.compile(r"\\u(?!00[0-7])[0-9a-fA-F]{4}")
"""A character outside ASCII, written as an escape."""
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell, and where its JSON and that of its source are."""

    kind: str
    id: str
    source: str
    outputs: Sequence[object]
    start: int
    end: int
    first: int
    """Where the JSON of the whole cell starts."""
    last: int


class CellText(NamedTuple):
    """A cell without outputs."""

    kind: str
    source: str


class _Value(NamedTuple):
    value: Any
    start: int
    end: int


def find_cells(name: str, text: str) -> list[Cell]:
    """Return a file's cells; none if it is not a notebook of format 4."""
    if not name.lower().endswith(SUFFIX):
        return []
    if len(text) > _MAX_CHARS or text.count('"') > _MAX_QUOTES:
        return []
    try:
        json.loads(text)  # from here on, it is valid
        notebook = _members(text, _skip(text, 0))
        cells = notebook["cells"] if notebook["nbformat"].value == _FORMAT else None
        return [_read_cell(text, item) for item in _items(text, cells.start)] if cells else []
    except (ValueError, KeyError, RecursionError):
        return []


def write_source(text: str, cell: Cell, source: str) -> str:
    """Return the JSON of a new source: a string or a list of lines, as the old one was.

    Lines that stay the same keep their bytes.
    """
    encode = partial(json.dumps, ensure_ascii=_has_escapes(text))
    if text[cell.start] == '"':
        return encode(source)
    items = _items(text, cell.start)
    known = {value: text[start:end] for value, start, end in items}
    lines = [known.get(line) or encode(line) for line in source.splitlines(keepends=True)]
    before, after = text[cell.start : items[0].start], text[items[-1].end : cell.end]
    between = f",{before[1:]}" if len(items) == 1 else text[items[0].end : items[1].start]
    return f"{before}{between.join(lines)}{after}"


def write_cell(text: str, above: Cell, new: CellText, number: int) -> str:
    """Return the JSON of a new cell below another one, with the comma and spaces before it."""
    before = text[: above.first]
    gap = before[len(before.rstrip(" \t\r\n")) :]
    indent = gap[gap.rfind("\n") + 1 :]
    lines = new.source if text[above.start] == '"' else new.source.splitlines(keepends=True)
    seed = f"{above.id} {number} {text}".encode("utf-8", "surrogatepass")
    cell: dict[str, object] = {
        "cell_type": new.kind,
        **({"execution_count": None} if new.kind == "code" else {}),
        **({"id": hashlib.sha256(seed).hexdigest()[:8]} if above.id else {}),
        "metadata": {},
        **({"outputs": []} if new.kind == "code" else {}),
        "source": lines,
    }
    levels = indent[: len(indent) // 2] if "\n" in gap else None  # a cell is on the second level
    written = json.dumps(cell, ensure_ascii=_has_escapes(text), indent=levels)
    return f",{gap or ' '}{written.replace(chr(10), gap)}"


def _has_escapes(text: str) -> bool:
    """Return whether a notebook has escapes for characters outside ASCII."""
    return text.isascii() and _ESCAPED.search(text) is not None


def _read_cell(text: str, item: _Value) -> Cell:
    cell = _members(text, item.start)
    kind, source, start, end = cell["cell_type"].value, *cell["source"]
    source = "".join(source) if is_list(source) and all(map(_is_text, source)) else source
    if kind not in _KINDS or not _is_text(source) or _UNFIT.search(source):
        raise ValueError(kind)
    name, outputs = (cell[key].value if key in cell else None for key in ("id", "outputs"))
    shown = name if _is_text(name) and _ID.fullmatch(name) else ""
    listed = outputs if is_list(outputs) else ()
    return Cell(kind, shown, source, listed, start, end, item.start, item.end)


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)


def _members(text: str, at: int) -> dict[str, _Value]:
    """Return an object's values by key, with their places. No key may occur twice."""
    if text[at] != "{":
        raise ValueError(text[at])
    members = dict[str, _Value]()
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        if key in members:
            raise ValueError(key)
        members[key] = _Value(*_decode_at(text, start))
        at = _next(text, members[key].end)
    return members


def _items(text: str, at: int) -> list[_Value]:
    """Return a list's items, with their places."""
    if text[at] != "[":
        raise ValueError(text[at])
    items = list[_Value]()
    at = _skip(text, at + 1)
    while text[at] != "]":
        items.append(_Value(*_decode_at(text, at)))
        at = _next(text, items[-1].end)
    return items


def _decode_at(text: str, start: int) -> tuple[Any, int, int]:
    value, end = _decode(text, start)
    return value, start, end


def _next(text: str, at: int) -> int:
    """Return where the next value or the end is."""
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
