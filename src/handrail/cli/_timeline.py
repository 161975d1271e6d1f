"""A run as lines for a terminal: its turns, a bar for each call, and why calls waited."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from handrail.approvals import displayed
from handrail.cli._columns import most_cells
from handrail.cli._columns import pieces as broken
from handrail.cli._course import CallCourse, Phase, Span, Told, Turn, course

Style: TypeAlias = Literal["", "head", "dim", "good", "bad", "waits", "asks", "runs"]
Piece: TypeAlias = tuple[str, Style]
"""Some text, and how it is shown where there are colours."""

_MOST_NAME = 16
_TIME = 8
_OUTCOME = 12
"""Columns of a name, a time, and a word for how a call ended."""
_SHORTEST_BAR = 6
_INDENT = 7
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


class _Marks(NamedTuple):
    """What bars are made of."""

    runs: str
    waits: str
    asks: str
    rests: str
    other: str
    more: str

    def of(self, phase: Phase) -> str:
        return str(getattr(self, phase))


_LETTERS = _Marks("█", "░", "▒", "┄", "─", "…")
_ASCII = _Marks("#", ".", "?", "~", "-", "...")
_STYLES: Mapping[Phase, Style] = {
    "waits": "waits",
    "asks": "asks",
    "rests": "waits",
    "runs": "runs",
}


def timeline(
    journal: Iterable[Any], width: int, *, ascii_only: bool = False, full: bool = False
) -> list[str]:
    """A run's journal as lines of at most so many columns; whatever the journal holds."""
    lines = pieces(journal, width, ascii_only=ascii_only, full=full)
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def pieces(
    journal: Iterable[Any], width: int, *, ascii_only: bool = False, full: bool = False
) -> list[list[Piece]]:
    """The same, with styles."""
    turns = course(journal)
    page = _Page(max(1, width), _ASCII if ascii_only else _LETTERS, full)
    return list(page.lines(turns))


def one_line(text: str, width: int, *, ascii_only: bool = False) -> str:
    """Text from outside on one line of at most so many columns."""
    page = _Page(max(1, width), _ASCII if ascii_only else _LETTERS, full=False)
    return page.cut(page.name(" ".join(text.split())), page.width)[0]


def counted(number: int, what: str) -> str:
    """So many of something, in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def seconds(amount: float) -> str:
    """A duration in at most eight columns."""
    if amount < 1:
        return f"{amount * 1000:.0f} ms"
    if amount < _MINUTE:
        return f"{amount:.{2 if amount < 10 else 1}f} s"  # noqa: PLR2004  three digits in all
    if amount < _HOUR:
        return f"{amount // _MINUTE:.0f}m {amount % _MINUTE // 1:02.0f}s"
    if amount < _DAY:
        return f"{amount // _HOUR:.0f}h {amount % _HOUR // _MINUTE:02.0f}m"
    if amount < _DAY * 1000:
        return f"{amount // _DAY:.0f}d {amount % _DAY // _HOUR:02.0f}h"
    return "years"


@dataclass(frozen=True, slots=True)
class _Page:
    width: int
    marks: _Marks
    full: bool

    def lines(self, turns: Sequence[Turn]) -> Iterator[list[Piece]]:
        if not turns:
            yield [self.cut("nothing is written down of this run", self.width)]
            return
        began = turns[0].at
        names = {call.id: call for turn in turns for call in turn.calls}
        number = 0
        for turn in turns:
            number += turn.speaker == "model"
            yield from self._turn(turn, number, began)
            nearest = {**names, **{call.id: call for call in turn.calls}}  # ids may come again
            for call in turn.calls:
                yield self._row(call, turn)
                yield from self._notes(call, nearest)
        if names:
            yield from self._legend()

    def _turn(self, turn: Turn, number: int, began: float) -> Iterator[list[Piece]]:
        since = f"+{seconds(max(0.0, turn.at - began))}"
        heads = {
            "person": f"prompt  {since}",
            "model": self._reply(turn, number, since),
            "nobody": "calls",
        }
        yield [self.cut(heads[turn.speaker], self.width, "head")]
        if turn.text:
            yield from self._words("  ", turn.text)

    def _reply(self, turn: Turn, number: int, since: str) -> str:
        parts = [f"turn {number}", since, self.name(turn.model)]
        parts.append(f"model took {seconds(turn.seconds)}" if turn.seconds else "")
        tokens = turn.sent or turn.received
        parts.append(f"{turn.sent:,} tokens in, {turn.received:,} out" if tokens else "")
        return "  ".join(part for part in parts if part)

    def _row(self, call: CallCourse, turn: Turn) -> list[Piece]:
        """A call: its number and name, its bar, how long it took, and how it ended."""
        name = self.cut(f"  #{call.number:<3} {self.name(call.tool)}", _INDENT + _MOST_NAME - 1)
        left = name[0] + " " * (_INDENT + _MOST_NAME - most_cells(name[0]))
        took = seconds(max(0.0, call.ended - call.began)).rjust(_TIME)
        style: Style = "good" if call.outcome == "ok" else "bad"
        outcome = self.cut(self.name(call.outcome), _OUTCOME, style)
        room = self.width - len(left) - _TIME - _OUTCOME - 4
        if room < _SHORTEST_BAR:
            return self._narrow([(f"{left}{took}  ", ""), outcome])
        return [(left, ""), *self._bar(call, turn, room), (f"  {took}  ", ""), outcome]

    def _narrow(self, line: list[Piece]) -> list[Piece]:
        text = "".join(text for text, _ in line)
        return line if most_cells(text) <= self.width else [self.cut(text, self.width)]

    def _bar(self, call: CallCourse, turn: Turn, room: int) -> list[Piece]:
        """Where in its turn a call waited and ran; what is short has one mark nevertheless."""
        start = min(one.began for one in turn.calls)
        length = max(one.ended for one in turn.calls) - start
        cells: list[Piece] = [(" ", "")] * room

        def draw(begins: float, ends: float, piece: Piece) -> None:
            first, last = (
                int((at - start) / length * room) if length > 0 else 0 for at in (begins, ends)
            )
            first = min(max(0, first), room - 1)
            for cell in range(first, min(max(first + 1, last), room)):
                cells[cell] = piece

        draw(call.began, call.ended, (self.marks.other, "dim"))
        for phase in ("asks", "waits", "rests", "runs"):
            for span in call.spans:
                if span.phase == phase:
                    draw(span.start, span.end, (self.marks.of(span.phase), _STYLES[span.phase]))
        return cells

    def _notes(self, call: CallCourse, names: Mapping[str, CallCourse]) -> Iterator[list[Piece]]:
        """What there is to say of a call, below its bar."""
        for words, style in self._story(call, names):
            if words:
                yield from self._words(" " * _INDENT, words, style)

    def _story(self, call: CallCourse, names: Mapping[str, CallCourse]) -> Iterator[Piece]:
        if self.full:
            yield f"id {call.id}", "dim"
        yield _args(call.args), "dim"
        for told in call.told:
            yield _moment(told, call.text), _style(told)
        for span in call.spans:
            yield _wait(span, names), _STYLES[span.phase]
        if call.kind and call.kind != "pending":
            yield f"{call.kind}: {call.text}", "bad"
        elif self.full:
            yield call.text, ""

    def _legend(self) -> Iterator[list[Piece]]:
        marks = self.marks
        told = (
            f"{marks.runs} runs  {marks.waits} waits for a call or a place  "
            f"{marks.asks} waits for an answer  {marks.rests} between attempts"
        )
        if len(told) <= self.width:  # our own marks have one column each
            yield []
            yield [(told, "dim")]

    def _words(self, margin: str, text: str, style: Style = "") -> Iterator[list[Piece]]:
        """Text on one line, as far as it goes there; or all of it."""
        room = self.width - len(margin)
        safe = self._safe(text)
        if room < 1:
            return
        if not self.full:
            first, more, _ = safe.strip("\n").partition("\n")
            shown = self.cut(f"{first} {self.marks.more}" if more else first, room, style)
            yield [(margin, ""), shown]
            return
        for line in safe.split("\n"):
            for part in broken(line, max(2, room)):
                yield [(margin, ""), self.cut(part, room, style)]

    def _safe(self, text: str) -> str:
        """Text from outside, as this terminal may show it."""
        shown = displayed(text).text
        if self.marks is _ASCII:
            shown = shown.encode("ascii", "backslashreplace").decode()
        return shown

    def name(self, text: str) -> str:
        """The same, on one line."""
        return self._safe(text).replace("\n", "\\u{A}")

    def cut(self, text: str, room: int, style: Style = "") -> Piece:
        """Text that fits; whatever is not ASCII counts as wide, since terminals differ."""
        if most_cells(text) <= room:
            return text, style
        more = self.marks.more
        kept = next(broken(text, max(2, room - len(more))))
        short = kept + more
        return (short if most_cells(kept) + len(more) <= room else "." * room), style


def _args(args: Any) -> str:
    """Arguments, as short as they can be said."""
    if isinstance(args, str) or args is None:
        return args or ""
    try:
        if isinstance(args, Mapping):
            named = cast("Mapping[str, Any]", args)
            return ", ".join(f"{name}={_json(value)}" for name, value in named.items())
        return _json(args)
    except (RecursionError, TypeError, ValueError):
        return "arguments that cannot be shown"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _style(told: Told) -> Style:
    if told.what == "attempt" or told.word == "deny":
        return "bad"
    return "asks" if told.what in {"asked", "answered"} else "dim"


def _moment(told: Told, result: str) -> str:
    """One moment of a call, in words; those of the result stand below."""
    text = f": {told.text}" if told.text not in {"", result} else ""
    by = f"by {told.origin or 'the policy'}{text}"
    return {
        "judged": f"{told.word or '?'} {by}",
        "asked": f"asked {by}",
        "answered": f"answered after {seconds(told.seconds)}: {told.word or '?'}{text}",
        "attempt": f"attempt failed, again in {seconds(told.seconds)}: {told.word}{text}",
    }[told.what]


def _wait(span: Span, names: Mapping[str, CallCourse]) -> str:
    """What a call waited for, and how long; empty, where that is told otherwise."""
    if span.phase == "asks" and not span.closed:
        return f"waits for an answer, {seconds(span.seconds)} so far"
    if span.phase != "waits":
        return ""
    calls = [names[one] for one in span.why if one in names]
    told = [f"#{one.number} {one.tool}" for one in calls]
    told += ["a call that is not written down"] * (len(calls) < len(span.why))
    on = ", ".join(told) or "a place: as many as may were running"
    return f"{'waited' if span.closed else 'waits'} {seconds(span.seconds)} for {on}"
