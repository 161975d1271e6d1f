"""Draws Markdown as it streams in.

A row is settled when no later text can change it; settled rows are printed once. They depend on the
text alone and not on its fragments. A block settles with its last line, code line by line, and a
long paragraph sentence by sentence.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import NamedTuple

from handrail.cli._screen.blocks import (
    INDENT,
    Fence,
    Item,
    continues_paragraph,
    is_prose,
    is_rule,
    is_underline,
    read_fence,
    read_heading,
    read_item,
    split_quotes,
)
from handrail.cli._screen.code import Highlighter, is_known
from handrail.cli._screen.inline import read_words
from handrail.cli._screen.rows import (
    GUTTER,
    MAX_PROSE_COLUMNS,
    Flow,
    Row,
    Span,
    fit_margin,
    fold,
    safe_line,
    width_of,
)
from handrail.cli._screen.table import draw_table, is_delimiter

_SETTLED_ROWS = 5
"""Paragraph rows after which it settles sentence by sentence."""
_MAX_TABLE_LINES = 60
"""Table lines aligned together. After them, its header is repeated."""
_MAX_EMPTY_ROWS = 2
"""Consecutive empty rows in code: more would push text off the screen."""
_MIN_WIDTH = 20
_QUOTE = Span("│ ", "muted")
_GOES_ON = Span("┊ ", "muted")
_APART = frozenset({"code", "heading", "table", "rule"})
"""Blocks with an empty row before and after them."""
_SENTENCE_END = re.compile(r"(?<=[.!?])[ \n]")
_BLANK = re.compile(r"[ \n]")


class _ListItem(NamedTuple):
    column: int
    """Where its mark is in the source."""
    hang: int
    """Where its text is on the screen, behind the margin."""


class Markdown:
    """A growing text, drawn as rows. Each row starts with two spaces, unless it is empty."""

    def __init__(self, width: int) -> None:
        self._width = max(width, _MIN_WIDTH)
        self._prose = min(self._width, MAX_PROSE_COLUMNS)
        self._flow = Flow(self._prose)
        self._held = ""
        """A line's beginning, not known to be a paragraph."""
        self._absorbed = False
        """Whether the current line's beginning is in ``_source``."""
        self._source = ""
        """The open paragraph's undrawn text."""
        self._kind = ""
        """The open block: paragraph or table; empty if there is none."""
        self._cut = False
        """Whether some of the open paragraph was drawn."""
        self._last = ""
        """The previous block's kind."""
        self._gap = False
        """Whether an empty line was read since the last block."""
        self._depth = 0
        """Quotes around the current line."""
        self._items: tuple[_ListItem, ...] = ()
        """List items around the current line."""
        self._lines: list[str] = []
        """The open table's lines."""
        self._fence: Fence | None = None
        self._colors = Highlighter("")
        self._empty_rows = 0

    def feed(self, text: str) -> list[Row]:
        """Add a fragment, and return the rows settled now."""
        first, *others = text.split("\n")
        rows = list(self._extend(first))
        for piece in others:
            rows += self._complete()
            rows += self._extend(piece)
        return rows

    def end(self) -> list[Row]:
        """Return all remaining rows."""
        last = [*self._complete()] if self._held or self._absorbed else []
        return [*last, *self._close()]

    def tail(self) -> list[Row]:
        """Return the unsettled rows, as if the text ended here."""
        if not self._held and not self._kind:
            return []
        ending, colors = Markdown(self._width), copy.copy(self._colors)
        flow, lines = self._flow.copy(), list(self._lines)
        vars(ending).update(vars(self), _flow=flow, _lines=lines, _colors=colors)
        return ending.end()

    def _extend(self, piece: str) -> Iterator[Row]:
        if self._absorbed:
            self._source += piece.replace("\t", INDENT)
            yield from self._settle()
            return
        self._held += piece.replace("\t", INDENT)
        if self._fence is None and self._kind != "table" and is_prose(self._unquoted()):
            held, self._held = self._held, ""
            yield from self._line(held)
            self._absorbed = True

    def _unquoted(self) -> str:
        return split_quotes(self._held).text

    def _complete(self) -> Iterator[Row]:
        """End the current line."""
        if self._absorbed:
            self._source = self._source.removesuffix("\r")
        else:
            held, self._held = self._held.removesuffix("\r"), ""
            yield from self._line(held)
        self._absorbed = False

    def _line(self, line: str) -> Iterator[Row]:
        if self._fence is not None:
            yield from self._code_line(self._fence, line)
            return
        depth, text = split_quotes(line)
        if depth != self._depth:
            yield from self._close()
            self._depth, self._items = depth, ()
        if not text.strip(" "):
            yield from self._close()
            self._gap = True
        elif self._kind == "table":
            yield from self._table_line(text)
        elif self._kind == "paragraph" and self._is_title(text):
            heading, self._source, self._kind = self._source, "", ""
            yield from self._paragraph(heading, self._margin(), "title")
            self._last = "heading"
        elif self._kind == "paragraph" and continues_paragraph(text):
            yield from self._add(text)
        else:
            yield from self._close()
            yield from self._open(text)

    def _is_title(self, text: str) -> bool:
        return not self._cut and not self._items and is_underline(text)

    def _open(self, text: str) -> Iterator[Row]:
        """Start a block."""
        heading = read_heading(text)
        if (fence := read_fence(text)) is not None:
            yield from self._begin("code", text)
            yield from self._open_code(fence)
        elif heading is not None:
            yield from self._begin("heading", text)
            yield from self._paragraph(heading, self._margin(), "title")
        elif is_rule(text):
            yield from self._begin("rule", text)
            margin = self._margin()
            room = self._prose - width_of(margin)
            yield (*margin, Span("─" * max(room // 2, 1), "muted"))
        elif (item := read_item(text)) is not None:
            yield from self._open_item(item)
        elif text.lstrip(" ").startswith("|"):
            self._kind, self._lines = "table", [text]
        else:
            yield from self._open_paragraph(text)

    def _open_paragraph(self, text: str) -> Iterator[Row]:
        if text.startswith(INDENT) and not self._items:
            yield from self._begin("indented", text)
            yield from self._draw_code(safe_line(text[len(INDENT) :]), self._margin())
            return
        yield from self._begin("paragraph", text)
        margin = self._margin()
        self._flow.begin(margin, margin)
        self._kind = "paragraph"
        yield from self._add(text)

    def _open_item(self, item: Item) -> Iterator[Row]:
        self._items = tuple([one for one in self._items if one.column < item.indent])
        yield from self._begin("item", "")
        margin = self._margin()
        hang = (self._items[-1].hang if self._items else 0) + len(item.mark) + 1
        self._items = (*self._items, _ListItem(item.indent, hang))
        first = fit_margin((*margin, Span(item.mark, "accent"), Span(" ")), self._prose)
        self._flow.begin(first, fit_margin(self._margin(), self._prose))
        self._kind = "paragraph"
        yield from self._add(item.text)

    def _begin(self, kind: str, text: str) -> Iterator[Row]:
        """Draw what is between two blocks."""
        if text:
            indent = len(text) - len(text.lstrip(" "))
            self._items = tuple([item for item in self._items if item.column < indent])
        apart = kind in _APART or self._last in _APART
        if self._last and (self._gap or apart):
            yield ()
        self._gap, self._last, self._empty_rows = False, kind, 0

    def _margin(self) -> Row:
        hang = self._items[-1].hang if self._items else 0
        margin = (Span(GUTTER), *[_QUOTE] * self._depth, *[Span(" " * hang)] * bool(hang))
        return fit_margin(margin, self._prose)

    def _add(self, text: str) -> Iterator[Row]:
        """Add a line to the open paragraph."""
        before = f"{self._source}\n" if self._source or self._cut else ""
        self._source = before + text.lstrip(" ")
        yield from self._settle()

    def _settle(self) -> Iterator[Row]:
        """Draw a long paragraph's complete sentences."""
        limit = _SETTLED_ROWS * self._prose
        while len(self._source) > limit:
            sentence = _SENTENCE_END.search(self._source, limit)
            blank = _BLANK.search(self._source, 2 * limit)
            ends = [found.start() for found in (sentence, blank) if found is not None]
            if not ends:
                return
            at = min(ends)
            whole, self._source, self._cut = self._source[:at], self._source[at + 1 :], True
            yield from self._flow.put(read_words(whole))

    def _close(self) -> Iterator[Row]:
        """End the open block."""
        kind, self._kind = self._kind, ""
        if kind == "table":
            yield from self._draw_table()
        elif kind == "paragraph":
            source, self._source, self._cut = self._source, "", False
            yield from self._flow.put(read_words(source))
            yield from self._flow.end()

    def _paragraph(self, source: str, margin: Row, role: str) -> Iterator[Row]:
        """Draw a complete paragraph."""
        self._flow.begin(margin, margin)
        yield from self._flow.put(read_words(source, role))
        yield from self._flow.end()

    def _table_line(self, text: str) -> Iterator[Row]:
        is_row = is_delimiter(text) if len(self._lines) == 1 else "|" in text
        if is_row:
            self._lines.append(text)
            if len(self._lines) > _MAX_TABLE_LINES:
                yield from self._draw_table()
                self._lines = self._lines[:2]
            return
        yield from self._close()
        yield from self._open(text)

    def _draw_table(self) -> Iterator[Row]:
        lines, first = self._lines, self._lines[0]
        if len(lines) == 1:
            yield from self._begin("paragraph", first)
            yield from self._paragraph(first, self._margin(), "text")
            return
        yield from self._begin("table", first)
        margin = self._margin()
        for row in draw_table(lines, self._width - width_of(margin)):
            yield (*margin, *row) if row else ()

    def _open_code(self, fence: Fence) -> Iterator[Row]:
        self._fence, self._colors = fence, Highlighter(fence.info.partition(" ")[0])
        if not is_known(fence.info):
            yield from self._paragraph(fence.info, (*self._margin(), Span("  ")), "muted")

    def _code_line(self, fence: Fence, line: str) -> Iterator[Row]:
        depth, text = split_quotes(line, self._depth)
        if depth < self._depth or fence.is_closed_by(text):
            self._fence = None
            if depth < self._depth:
                yield from self._line(line)
            return
        inside = text[min(fence.indent, len(text) - len(text.lstrip(" "))) :]
        yield from self._draw_code(safe_line(inside), self._margin())

    def _draw_code(self, text: str, margin: Row) -> Iterator[Row]:
        if not text.strip(" "):
            self._empty_rows += 1
            self._colors.color("")
            if self._empty_rows <= _MAX_EMPTY_ROWS:
                yield ()
            return
        self._empty_rows = 0
        colored = self._colors.color(text.rstrip(" "))
        for number, row in enumerate(fold(colored, self._code_room(margin))):
            yield (*margin, _GOES_ON if number else Span("  "), *row)

    def _code_room(self, margin: Row) -> int:
        return max(self._width - width_of((*margin, _GOES_ON)), 1)
