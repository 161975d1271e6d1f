"""The keys of a question as rows, with a mark at the one that Enter takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from handrail.approvals._display import Look, RenderedLine, Span, count_columns

MARK = "▸"
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
    choices: Sequence[Choice], width: int, marked: int | None = None, *, muted: bool = False
) -> list[RenderedLine]:
    """Return the keys in one row, or below one another if they do not fit."""
    own = [f"{MARK if number == marked else ' '} {one.text}" for number, one in enumerate(choices)]
    pieces = [own] if count_columns(_GAP.join(own)) <= width else [[one] for one in own]
    look: Look = "muted" if muted else "plain"
    rows: list[RenderedLine] = []
    number = 0
    for row in pieces:
        at, spans = 0, list[Span]()
        for text in row:
            if not muted:
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
