"""Input rows: changing ones above it, queued messages, a rule, the text, the status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completion
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    VSplit,
    Window,
)
from prompt_toolkit.layout.processors import AfterInput, ConditionalProcessor, TabsProcessor
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.search import SearchDirection, SearchState
from prompt_toolkit.widgets import SearchToolbar

from handrail.cli._input.keys import is_picking
from handrail.cli._input.lines import Lines
from handrail.cli._input.wrapping import WholeWords
from handrail.cli._screen.rows import (
    GUTTER,
    MAX_PROSE_COLUMNS,
    SIGN,
    Row,
    Span,
    fold,
    safe_line,
)
from handrail.cli._screen.terminal import Screen
from handrail.cli._screen.theme import Theme

_INDENT = Span(GUTTER)
_LOW = 16
"""Terminal rows below that there is no rule above the input."""
_MAX_QUEUED = 3
_MAX_COMPLETIONS = 6
_HINT = "Describe a change, or ask about this code"
_HINT_WORKING = "Enter queues a message, Esc stops"


@dataclass
class Parts:
    """Row contents. Other threads set some."""

    buffer: Buffer
    lines: Lines
    screen: Screen
    status: Callable[[int], Row]
    live: Sequence[Row] = ()
    """The changing rows above the input."""


def color_depth(theme: Theme) -> ColorDepth:
    """Return how many colors to use."""
    if theme.ground == "none":
        return ColorDepth.DEPTH_1_BIT
    if theme.ground == "ansi":
        return ColorDepth.DEPTH_4_BIT
    return ColorDepth.DEPTH_24_BIT if theme.deep else ColorDepth.DEPTH_8_BIT


def make_layout(parts: Parts) -> Layout:
    """Return the rows, with the cursor in the input."""
    search = _search(parts)
    rows = HSplit(
        [
            _window(parts, lambda: parts.live),
            ConditionalContainer(
                Window(height=1), Condition(lambda: not parts.live and not _is_low(parts))
            ),
            _window(parts, lambda: _queued(parts)),
            _window(parts, lambda: _rule(parts)),
            _input(parts, search),
            search,
            _window(parts, lambda: _completions(parts)),
            _window(parts, lambda: [parts.status(_width(parts))]),
        ]
    )
    return Layout(VSplit([rows, Window(width=1)]))


def _search(parts: Parts) -> SearchToolbar:
    """Return the row of a search in earlier messages. It says if there is no match."""
    typed = Buffer()

    def prompt() -> str:
        wanted = SearchState(typed.text, SearchDirection.BACKWARD, ignore_case=True)
        found = parts.buffer.document_for_search(wanted).text
        return "  search: " if typed.text.lower() in found.lower() else "  no match: "

    return SearchToolbar(
        typed, backward_search_prompt=prompt, forward_search_prompt=prompt, ignore_case=True
    )


def _input(parts: Parts, search: SearchToolbar) -> Window:
    empty = Condition(lambda: not parts.buffer.text and not search.search_buffer.text)
    hint = AfterInput(lambda: _paint(parts, [(Span(_hint(parts), "muted"),)]))
    control = BufferControl(
        parts.buffer,
        input_processors=[TabsProcessor(), WholeWords(2), ConditionalProcessor(hint, empty)],
        search_buffer_control=search.control,
        preview_search=True,
    )

    def start(number: int, wrapped: int) -> StyleAndTextTuples:
        return _paint(parts, [(_INDENT if number or wrapped else SIGN,)])

    return Window(
        control,
        wrap_lines=True,
        dont_extend_height=True,
        height=lambda: Dimension(min=1, max=max(parts.screen.size()[1] // 3, 1)),
        get_line_prefix=start,
    )


def _window(parts: Parts, rows: Callable[[], Sequence[Row]]) -> ConditionalContainer:
    """Return rows with a fixed height, and none at all if there are none."""
    control = FormattedTextControl(lambda: _paint(parts, rows()))
    window = Window(control, height=lambda: len(rows()), dont_extend_height=True)
    return ConditionalContainer(window, Condition(lambda: bool(rows())))


def _paint(parts: Parts, rows: Sequence[Row]) -> StyleAndTextTuples:
    text = "\n".join([parts.screen.theme.paint(row) for row in rows])
    return to_formatted_text(ANSI(text))


def _width(parts: Parts) -> int:
    return max(parts.screen.size()[0] - 1, 1)


def _is_low(parts: Parts) -> bool:
    return parts.screen.size()[1] < _LOW


def _hint(parts: Parts) -> str:
    words = _HINT if parts.lines.reading else _HINT_WORKING
    return words if len(words) + 2 <= _width(parts) else ""


def _rule(parts: Parts) -> Sequence[Row]:
    width = min(_width(parts), MAX_PROSE_COLUMNS)
    return [] if _is_low(parts) else [(Span("─" * width, "muted"),)]


def _queued(parts: Parts) -> Sequence[Row]:
    """Return a row for each waiting message, the last ones if there are many."""
    queued = parts.lines.queued
    rows: list[Row] = []
    for number, text in enumerate(queued[-_MAX_QUEUED:], max(len(queued) - _MAX_QUEUED, 0) + 1):
        about = "   ↑ edits it" if number == len(queued) else ""
        room = max(_width(parts) - len(f"  Queued: “”{about}"), 8)
        words = _first_words(text, room)
        rows.append((Span(f"  Queued: “{words}”", "muted"), Span(about, "muted")))
    return rows


def _first_words(text: str, room: int) -> str:
    """Return as many whole words as fit."""
    words = safe_line(" ".join(text.split()))
    first = fold((Span(words),), room - 2)[0]
    shown = "".join(span.text for span in first)
    return shown if shown == words else f"{shown} …"


def _completions(parts: Parts) -> Sequence[Row]:
    """Return the completions, with a mark at the one in the text."""
    state = parts.buffer.complete_state
    if state is None or not state.completions:
        return []
    at = state.complete_index
    if at is None and is_picking(parts.buffer):  # Enter takes the first
        at = 0
    first = max((at or 0) - _MAX_COMPLETIONS + 1, 0)
    shown = state.completions[first : first + _MAX_COMPLETIONS]
    size = max(len(one.display_text) for one in shown)
    rows = [
        _completion(one, size, marked=number == at, width=_width(parts))
        for number, one in enumerate(shown, first)
    ]
    if left := len(state.completions) - first - len(shown):
        rows.append((_INDENT, Span(f"  … {left:,} more", "muted")))
    return rows


def _completion(one: Completion, size: int, *, marked: bool, width: int) -> Row:
    mark = Span("▸ ", "accent") if marked else _INDENT
    name = Span(safe_line(one.display_text), "title" if marked else "text")
    about = safe_line(one.display_meta_text)
    gap = " " * (size - len(one.display_text) + 2)
    words = fold((Span(about, "muted"),), max(width - size - 6, 8))[0] if about else ()
    return (_INDENT, mark, name, Span(gap), *words) if words else (_INDENT, mark, name)
