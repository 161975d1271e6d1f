"""Input rows: changing ones above it, queued messages, a rule, the text, the status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completion
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.layout import (
    BufferControl,
    Dimension,
    HSplit,
    Layout,
    UIContent,
    UIControl,
    Window,
    WindowRenderInfo,
)
from prompt_toolkit.layout.margins import Margin
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
    above, below = _RowsControl(parts, _above), _RowsControl(parts, _below)
    return Layout(HSplit([above.window(), _input(parts, search), search, below.window()]))


class _RowsControl(UIControl):
    """Rows made once for each frame, and painted once for many."""

    def __init__(self, parts: Parts, make: Callable[[Parts], Sequence[Row]]) -> None:
        self._parts = parts
        self._make = make
        self._rows: Sequence[Row] = ()
        self._frame = -1

    def window(self) -> Window:
        """Return a window with the height of the rows."""
        return Window(self, height=lambda: len(self._now()), dont_extend_height=True)

    def _now(self) -> Sequence[Row]:
        frame = get_app().render_counter
        if frame != self._frame:
            self._frame, self._rows = frame, self._make(self._parts)
        return self._rows

    def create_content(self, width: int, height: int) -> UIContent:  # noqa: ARG002  as in the base
        """Return the rows with their colors."""
        rows, theme = self._now(), self._parts.screen.theme
        return UIContent(lambda at: _paint(theme, rows[at]), len(rows), show_cursor=False)


class _LastColumn(Margin):
    """Leaves out the last column, as some terminals wrap there."""

    def get_width(self, get_ui_content: Callable[[], UIContent]) -> int:  # noqa: ARG002
        """Return its width."""
        return 1

    def create_margin(
        self,
        window_render_info: WindowRenderInfo,  # noqa: ARG002
        width: int,  # noqa: ARG002
        height: int,  # noqa: ARG002
    ) -> StyleAndTextTuples:
        """Return its text."""
        return []


def _above(parts: Parts) -> Sequence[Row]:
    """Return the changing rows, waiting messages, and a rule."""
    live = parts.live
    apart: Sequence[Row] = [()] if not live and not _is_low(parts) else []
    return [*live, *apart, *_queued(parts), *_rule(parts)]


def _below(parts: Parts) -> Sequence[Row]:
    """Return the completions and the status."""
    return [*_completions(parts), parts.status(_width(parts))]


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
    hint = AfterInput(lambda: _paint(parts.screen.theme, (Span(_hint(parts), "muted"),)))
    control = BufferControl(
        parts.buffer,
        input_processors=[TabsProcessor(), WholeWords(2), ConditionalProcessor(hint, empty)],
        search_buffer_control=search.control,
        preview_search=True,
    )

    def start(number: int, wrapped: int) -> StyleAndTextTuples:
        return _paint(parts.screen.theme, (_INDENT if number or wrapped else SIGN,))

    return Window(
        control,
        wrap_lines=True,
        right_margins=[_LastColumn()],
        dont_extend_height=True,
        height=lambda: Dimension(min=1, max=max(parts.screen.size()[1] // 3, 1)),
        get_line_prefix=start,
    )


@lru_cache(maxsize=256)
def _paint(theme: Theme, row: Row) -> StyleAndTextTuples:
    return to_formatted_text(ANSI(theme.paint(row)))


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
