"""A run as a timeline for a terminal: its turns, a bar for each call, and why calls waited."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from handrail._support import format_duration
from handrail.approvals import make_printable
from handrail.cli._base.columns import max_cells, pieces
from handrail.runs.history import CallHistory, CallMoment, Phase, RunTurn, read_history
from handrail.runs.statuses import CANCELLED, Standing
from handrail.runs.wording import describe_moment, describe_status, describe_wait

Style: TypeAlias = Literal["", "head", "dim", "good", "bad", "waiting", "approval", "running"]
StyledText: TypeAlias = tuple[str, Style]
"""A text and its style, which is used if the terminal has colors."""

_MAX_NAME_CELLS = 16
_MAX_MODEL_CHARS = 28
_MAX_WORD_CELLS = 40
"""The longest word left out whole. A longer one is data, and its start says something."""
_TIME = 8
_OUTCOME = 12
"""Columns for a name, a duration and an outcome."""
_MIN_BAR_CELLS = 6
_INDENT = 7


class _Marks(NamedTuple):
    """Bar characters."""

    running: str
    waiting: str
    approval: str
    backoff: str
    other: str
    more: str
    inside: str

    def of(self, phase: Phase) -> str:
        return str(getattr(self, phase))


_UNICODE = _Marks("█", "░", "▒", "┄", "─", "…", "└ ")
_ASCII = _Marks("#", ".", "?", "~", "-", "...", "- ")
_STYLES: Mapping[Phase, Style] = {
    "waiting": "waiting",
    "approval": "approval",
    "backoff": "waiting",
    "running": "running",
}


def timeline(
    journal: Iterable[Any], width: int, *, ascii_only: bool = False, full: bool = False
) -> list[list[StyledText]]:
    """Return a journal as lines with at most ``width`` columns. Any journal is accepted."""
    turns = read_history(journal)
    page = _TimelinePage(max(1, width), _ASCII if ascii_only else _UNICODE, full)
    return list(page.lines(turns))


def fit_line(text: str, width: int, *, ascii_only: bool = False) -> str:
    """Return untrusted text on one line with at most ``width`` columns."""
    page = _TimelinePage(max(1, width), _ASCII if ascii_only else _UNICODE, full=False)
    return page.cut(page.name(" ".join(text.split())), page.width)[0]


@dataclass(frozen=True, slots=True)
class _TimelinePage:
    width: int
    marks: _Marks
    full: bool

    def lines(self, turns: Sequence[RunTurn]) -> Iterator[list[StyledText]]:
        if not turns:
            yield [self.cut("no events are recorded for this run", self.width)]
            return
        began = turns[0].at
        names = {call.id: call for turn in turns for call in turn.calls}
        for turn in turns:
            yield from self._turn(turn, began)
            nearest = {**names, **{call.id: call for call in turn.calls}}  # ids can be reused
            for call in turn.calls:
                yield self._row(call, turn)
                yield from self._notes(call, nearest)
        if names:
            yield from self._legend()

    def _turn(self, turn: RunTurn, began: float) -> Iterator[list[StyledText]]:
        since = f"+{format_duration(max(0.0, turn.at - began))}"
        if turn.speaker == "person":
            head = f"prompt  {since}"
        elif turn.speaker == "unknown" and not turn.number:
            head = "calls"
        else:
            head = self._reply(turn, since)
        yield [self.cut(head, self.width, "head")]
        if turn.text:
            yield from self._text("  ", turn.text)

    def _reply(self, turn: RunTurn, since: str) -> str:
        parts = [f"turn {turn.number}", since, self._end_of(self.name(turn.model))]
        parts.append(f"model took {format_duration(turn.seconds)}" if turn.seconds else "")
        tokens = turn.input_tokens or turn.output_tokens
        used = f"{turn.input_tokens:,} tokens in, {turn.output_tokens:,} out"
        parts.append(used if tokens else "")
        return "  ".join(part for part in parts if part)

    def _end_of(self, model: str) -> str:
        """Return a model's name, which ends a path: a long one's start is left out."""
        room = _MAX_MODEL_CHARS - len(self.marks.more)
        return model if len(model) <= _MAX_MODEL_CHARS else self.marks.more + model[-room:]

    def _row(self, call: CallHistory, turn: RunTurn) -> list[StyledText]:
        """Return a row for a call: number, name, bar, duration and outcome."""
        name = f"  #{call.number:<3} {self.marks.inside * call.depth}{self.name(call.tool)}"
        left = f"{self._column(name, _INDENT + _MAX_NAME_CELLS - 1)} "
        took = format_duration(max(0.0, call.ended - call.began)).rjust(_TIME)
        style: Style = "good" if call.outcome == "ok" else "bad"
        outcome = self.cut(self.name(call.outcome), _OUTCOME, style)
        room = self.width - _INDENT - _MAX_NAME_CELLS - _TIME - _OUTCOME - 4
        if room < _MIN_BAR_CELLS:
            return self._narrow([(f"{left}{took}  ", ""), outcome])
        return [(left, ""), *self._bar(call, turn, room), (f"  {took}  ", ""), outcome]

    def _column(self, text: str, room: int) -> str:
        """Truncate a text, and pad it to the given room. The ellipsis has one column."""
        short, _ = self.cut(text, room, words=False)
        if short == text:
            return short + " " * (room - max_cells(short))
        start = short.removesuffix(self.marks.more)
        return short + " " * (room - max_cells(start) - len(self.marks.more))

    def _narrow(self, line: list[StyledText]) -> list[StyledText]:
        text = "".join(text for text, _ in line)
        return line if max_cells(text) <= self.width else [self.cut(text, self.width)]

    def _bar(self, call: CallHistory, turn: RunTurn, room: int) -> list[StyledText]:
        """Return a bar: when in its turn a call waited and ran. Each phase has at least a mark."""
        start = min(other.began for other in turn.calls)
        length = max(other.ended for other in turn.calls) - start
        cells: list[StyledText] = [(" ", "")] * room

        def draw(begins: float, ends: float, piece: StyledText) -> None:
            first, last = (
                int((at - start) / length * room) if length > 0 else 0 for at in (begins, ends)
            )
            first = min(max(0, first), room - 1)
            for cell in range(first, min(max(first + 1, last), room)):
                cells[cell] = piece

        draw(call.began, call.ended, (self.marks.other, "dim"))
        for phase in ("approval", "waiting", "backoff", "running"):
            for span in call.spans:
                if span.phase == phase:
                    draw(span.start, span.end, (self.marks.of(span.phase), _STYLES[span.phase]))
        return cells

    def _notes(
        self, call: CallHistory, names: Mapping[str, CallHistory]
    ) -> Iterator[list[StyledText]]:
        """Yield a call's details, shown below its bar."""
        for text, style in self._details(call, names):
            if text:
                yield from self._text(" " * _INDENT, text, style)

    def _details(self, call: CallHistory, names: Mapping[str, CallHistory]) -> Iterator[StyledText]:
        if self.full:
            yield f"id {call.id}", "dim"
        yield call.principal and f"for {call.principal}", "dim"
        yield _args(call.args), "dim"
        for moment in call.moments:
            yield describe_moment(moment, call.text), _style(moment)
        for span in call.spans:
            yield describe_wait(span, names), _STYLES[span.phase]
        if call.kind and call.kind != "pending":
            yield f"{call.kind}: {call.text}", "bad"
        elif self.full:
            yield call.text, ""

    def _legend(self) -> Iterator[list[StyledText]]:
        marks = self.marks
        legend = (
            f"{marks.running} running  {marks.waiting} waiting for a call or slot  "
            f"{marks.approval} for approval  {marks.backoff} for a retry  {marks.other} other"
        )
        if len(legend) <= self.width:  # each mark has one column
            yield []
            yield [(legend, "dim")]

    def _text(self, margin: str, text: str, style: Style = "") -> Iterator[list[StyledText]]:
        """Yield a text's first line, or everything with ``full``."""
        room = self.width - len(margin)
        if room < 1:
            return
        if not self.full:
            first, more, _ = self._safe(text.strip()).partition("\n")
            shown = self.cut(f"{first} {self.marks.more}" if more else first, room, style)
            yield [(margin, ""), shown]
            return
        for line in self._safe(text).split("\n"):
            for part in _fold(line, max(2, room)):
                yield [(margin, ""), self.cut(part, room, style)]

    def _safe(self, text: str) -> str:
        """Return untrusted text, safe to print on this terminal."""
        shown = make_printable(text, prose=True).text
        if self.marks is _ASCII:
            shown = shown.encode("ascii", "backslashreplace").decode()
        return shown

    def name(self, text: str) -> str:
        """Return untrusted text on one line, safe to print."""
        return self._safe(text).replace("\n", "\\u{A}")

    def cut(self, text: str, room: int, style: Style = "", *, words: bool = True) -> StyledText:
        """Truncate a text, after a whole word. Non-ASCII is taken as wide, as terminals differ."""
        if max_cells(text) <= room:
            return text, style
        more = self.marks.more
        start = next(pieces(text, max(2, room - len(more))))
        if words:
            start = _drop_part(text, start, room)
        short = start + more
        return (short if max_cells(start) + len(more) <= room else "." * room), style


def _fold(line: str, room: int) -> Iterator[str]:
    """Yield a line in fitting parts, broken between words where a word fits."""
    while max_cells(line) > room:
        start = next(pieces(line, room))
        at = f"{start}{line[len(start)]}".rfind(" ")
        if not start[: max(at, 0)].strip():
            at = len(start)
        yield line[:at]
        line = line[at:].removeprefix(" ")
    yield line


def _drop_part(text: str, start: str, room: int) -> str:
    """Return a text's start without the word it cuts, unless it is a long one."""
    at = start.rfind(" ")
    word = text[at + 1 :].partition(" ")[0]
    if not start[: max(at, 0)].strip() or max_cells(word) > min(room, _MAX_WORD_CELLS):
        return start
    return f"{start[:at].rstrip()} "


def _args(args: Any) -> str:
    """Return arguments as ``name=value`` pairs, or unchanged text that is not a JSON object."""
    if isinstance(args, str):
        given, args = args, _read(args)
        if not isinstance(args, Mapping):
            return given
    try:
        if isinstance(args, Mapping):
            named = cast("Mapping[str, Any]", args)
            return ", ".join(f"{name}={_json(value)}" for name, value in named.items())
        return "" if args is None else _json(args)
    except (RecursionError, TypeError, ValueError):
        return "arguments that cannot be shown"


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (RecursionError, ValueError):
        return None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _style(moment: CallMoment) -> Style:
    if moment.what == "attempt" or moment.word == "deny":
        return "bad"
    return "approval" if moment.what in {"asked", "answered"} else "dim"


def say_standing(standing: Standing, why: str = "") -> str:
    """Say where a run stands, and why."""
    _, words = describe_status(*standing)
    if why and standing == CANCELLED:
        return why
    if why and standing.reason == "limit":  # the sentence says so too
        return f"{standing.status}: {why}"
    return f"{words[2:]}: {why}" if why else words[2:]
