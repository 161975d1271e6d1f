"""Keys for a question: as rows, with a mark at Enter's choice, and as a choice."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

from handrail.approvals._display import Look, RenderedLine, Span, count_columns
from handrail.approvals._keys import KeyReader

MARK = "▸"
WAIT = "wait…"
"""The hint while keys are ignored."""
_ONE_KEY = "press one key"
_STEPS = {"next": 1, "previous": -1}
_GAP = "    "


class Choice(NamedTuple):
    """A key, and what it does."""

    key: str
    label: str

    @property
    def text(self) -> str:
        """Both, for a reader."""
        return f"{self.key} {self.label}"


def choice_rows(
    choices: Sequence[Choice],
    width: int,
    marked: int | None = None,
    *,
    muted: bool = False,
    hint: str = "",
) -> list[RenderedLine]:
    """Return the keys in one row, or below one another if they do not fit, then the hint."""
    own = [f"{MARK if number == marked else ' '} {one.text}" for number, one in enumerate(choices)]
    pieces = [own] if count_columns(_GAP.join(own)) <= width else [[one] for one in own]
    if hint and count_columns(_GAP.join([*pieces[-1], f"  {hint}"])) <= width:
        pieces[-1].append(f"  {hint}")
    elif hint:
        pieces.append([f"  {hint}"])
    look: Look = "muted" if muted else "plain"
    rows: list[RenderedLine] = []
    number = 0
    for row in pieces:
        at, spans = 0, list[Span]()
        for text in row:
            if not muted and number < len(choices):
                spans += _spans(at, text, choices[number], is_marked=number == marked)
            at += len(text) + len(_GAP)
            number += 1
        rows.append(RenderedLine(_GAP.join(row).rstrip(), look, spans=tuple(spans)))
    return rows


def _spans(at: int, text: str, choice: Choice, *, is_marked: bool) -> list[Span]:
    start = at + 2
    if is_marked:
        return [(at, at + 1, "ask"), (start, at + len(text), "picked")]
    return [(start, start + len(choice.key), "title")]


def list_rows(choices: Sequence[Choice]) -> list[RenderedLine]:
    """Return all keys, one in each row."""
    size = max(len(one.key) for one in choices) + 2
    return [
        RenderedLine(f"  {one.key:<{size}}{one.label}", spans=((2, 2 + len(one.key), "title"),))
        for one in choices
    ]


def pick_key(
    choices: Sequence[Choice],
    first: int,
    keys: KeyReader,
    draw: Callable[[Sequence[Choice], int | None, str], None],
    *,
    known: Container[str],
    esc: str,
) -> str:
    """Return the known key pressed, or the marked one for Enter.

    Text takes the mark away: it may end with an Enter meant for something else.
    """
    marked: int | None = first
    while True:
        if keys.is_paused:
            draw(choices, None, WAIT)
        else:
            draw(choices, marked, _ONE_KEY if marked is None else "")
        typed = keys.read()
        if typed == "enter" and marked is not None:
            return choices[marked].key
        key = esc if typed == "esc" else typed
        if key is not None and key in known:
            return key
        marked = _move_mark(typed, marked, first, len(choices))


def _move_mark(typed: str | None, marked: int | None, first: int, count: int) -> int | None:
    """Return where the mark is now. An arrow brings it back after text."""
    if typed is None:  # the pause is over
        return marked
    if typed not in _STEPS:
        return None
    return first if marked is None else (marked + _STEPS[typed]) % count
