r"""Text from outside on a page: every character is visible, and two texts never look the same.

The table is the terminal's: ``handrail.approvals.make_printable``. Jinja2 escapes HTML markup.
``finish`` is called for everything a template prints, so a template cannot forget it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from handrail.approvals import make_printable

MAX_LINE_CHARS = 300
"""Characters shown from a text in a list. A request shows the whole text."""
_ESCAPE = re.compile(r"(\\u\{[0-9A-F]+\}|\[… [0-9]+ (?:spaces|tabs|blank lines) …\])")
"""The replacements written by ``make_printable``. Its escapes are unambiguous."""


class Clear(str):
    """The console's own text, or one made visible by ``shown``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A part within a line."""

    text: Clear
    mark: str = ""
    """``hid`` for an escape. Otherwise the part's look."""


def shown(text: object, *, most: int | None = None) -> Clear:
    """Return a text with every character visible. Line breaks are kept."""
    plain = str(text)
    limit = len(plain.encode("utf-8", "surrogatepass")) if most is None else most
    printable = make_printable(plain, most=max(limit, 1))
    return Clear(printable.text)


def pieces(text: object, marks: Sequence[tuple[int, int, str]] = ()) -> list[list[Piece]]:
    """Return a text's lines, each as its parts.

    ``marks`` are parts of the text (start, end, mark). A mark is dropped if its positions in the
    text differ from those on the page, because a character before it is written out.
    """
    plain = str(text)
    clear = shown(plain)
    kept = marks if clear == plain else ()
    lines: list[list[Piece]] = []
    start = 0
    for line in clear.split("\n"):
        lines.append(list(_divide(line, start, kept)))
        start += len(line) + 1
    return lines


def one_line(text: object, most: int | None = MAX_LINE_CHARS) -> list[Piece]:
    """Return a text on one line, as its parts.

    A long one ends with its length, but not for None.
    """
    plain = str(text)
    cut = plain[:most]
    clear = shown(cut).replace("\n", "\\u{A}")
    found = list(_divide(clear, 0, ()))
    if len(plain) > len(cut):
        found.append(Piece(Clear(f"… ({len(plain):,} characters)"), "cut"))
    return found


def escaped(text: str) -> list[Piece]:
    """Return a line already written by ``make_printable``, as its parts."""
    return list(_divide(text, 0, ()))


def finish(value: object) -> object:
    """Make visible what a template prints, unless it is already. For ``Environment.finalize``."""
    if isinstance(value, Clear | int | float) or hasattr(value, "__html__"):
        return value
    return shown(value)


def _divide(line: str, start: int, marks: Sequence[tuple[int, int, str]]) -> Iterator[Piece]:
    hidden = {found.start(): found.end() for found in _ESCAPE.finditer(line)}
    cuts = {0, len(line), *hidden, *hidden.values()}
    spans = [
        (max(first - start, 0), min(last - start, len(line)), mark)
        for first, last, mark in marks
        if first - start < len(line) and last > start
    ]
    for first, last, _ in spans:
        cuts |= {first, last}
    edges = sorted(cuts)
    for first, last in pairwise(edges):
        plain = "hid" if first in hidden else ""
        mark = next((name for left, right, name in spans if left <= first < right), plain)
        yield Piece(Clear(line[first:last]), mark)
