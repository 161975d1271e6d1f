"""The course of a run, read from its journal: turns, their calls, and what each call waited for.

A journal may have been cut off, or changed by somebody. Whatever does not fit is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

Phase: TypeAlias = Literal["waits", "asks", "rests", "runs"]
"""For other calls or a place; for an answer; between two attempts; and it runs."""
LATEST = 1e11
"""Seconds; a time after this is none."""


@dataclass(slots=True)
class Span:
    """A phase of a call."""

    phase: Phase
    start: float
    end: float
    why: tuple[str, ...] = ()
    """The ids of the calls that it waited for."""
    closed: bool = False

    @property
    def seconds(self) -> float:
        """How long it took."""
        return max(0.0, self.end - self.start)


@dataclass(slots=True)
class Told:
    """What a call's story says at one moment: a decision, an answer, or an attempt that failed."""

    what: Literal["judged", "asked", "answered", "attempt"]
    word: str
    """The decision, the answer, or the kind of failure."""
    text: str = ""
    origin: str = ""
    seconds: float = 0.0
    """How long an answer took, or how long it is until the next attempt."""


@dataclass(slots=True, eq=False)
class CallCourse:
    """What became of one call."""

    number: int
    id: str
    began: float
    ended: float
    tool: str = "?"
    args: Any = None
    kind: str | None = None
    """Of its failure; empty for a good result, None where it has none."""
    text: str = ""
    told: list[Told] = field(default_factory=list[Told])
    spans: list[Span] = field(default_factory=list[Span])

    @property
    def outcome(self) -> str:
        """How it stands, in one word."""
        if self.kind is None:
            return "no result"
        return self.kind or "ok"

    @property
    def failed(self) -> bool:
        """Whether it has a result, and a bad one, and nobody said no."""
        return bool(self.kind) and self.kind not in {"denied", "pending"}

    def seconds(self, *phases: Phase) -> float:
        """How long it was in these phases."""
        return sum(one.seconds for one in self.spans if one.phase in phases)

    def open(self, phase: Phase, at: float, why: tuple[str, ...] = ()) -> None:
        """A phase begins."""
        self.close(at, phase)
        self.spans.append(Span(phase, at, at, why))

    def close(self, at: float, *phases: Phase) -> float:
        """These phases end; how long the last of them took."""
        seconds = 0.0
        for one in self.spans:
            if one.phase in phases and not one.closed:
                one.end, one.closed = max(one.start, at), True
                seconds = one.seconds
        return seconds


@dataclass(slots=True)
class Turn:
    """A reply of a model, and the calls that it asked for; or a prompt of a person."""

    at: float
    speaker: Literal["model", "person", "nobody"]
    text: str = ""
    model: str = ""
    seconds: float = 0.0
    """How long the model took."""
    sent: int = 0
    received: int = 0
    cached: int = 0
    calls: list[CallCourse] = field(default_factory=list[CallCourse])


def course(journal: Iterable[Any]) -> list[Turn]:
    """What happened, in order."""
    reader = _Reader()
    for line in journal:
        if isinstance(line, Mapping):
            reader.read(cast("Mapping[str, Any]", line))
    reader.end()
    return reader.turns


def all_calls(turns: Iterable[Turn]) -> Iterator[CallCourse]:
    """Every call of every turn."""
    for turn in turns:
        yield from turn.calls


class _Reader:
    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._calls: dict[str, CallCourse] = {}
        self._waiters: dict[str, list[CallCourse]] = {}
        """By the id of the call that they wait for."""
        self._count = 0
        self._now = 0.0
        self._about_calls: dict[str, Callable[[CallCourse, Mapping[str, Any]], None]] = {
            "requested": self._requested,
            "judged": self._judged,
            "asked": self._asked,
            "answered": self._answered,
            "waiting": self._waiting,
            "started": self._started,
            "attempt_failed": self._attempt_failed,
            "finished": self._finished,
        }

    def read(self, line: Mapping[str, Any]) -> None:
        before, self._now = self._now, _time(line.get("at"), self._now)
        event = _text(line, "event")
        if event == "prompt":
            self.turns.append(Turn(self._now, "person", _text(line, "text")))
        elif event == "reply":
            self._reply(line, before)
        elif event in self._about_calls:
            call = self._call(_text(line, "call_id"), event)
            self._about_calls[event](call, line)
            call.ended = max(call.ended, self._now)

    def end(self) -> None:
        """What is still open goes on until the last that is known."""
        for call in all_calls(self.turns):
            for span in call.spans:
                if not span.closed:
                    span.end = max(span.start, self._now)
                    call.ended = max(call.ended, span.end)

    def _reply(self, line: Mapping[str, Any], before: float) -> None:
        usage: Any = line.get("usage")
        used: Mapping[str, Any] = (
            cast("Mapping[str, Any]", usage) if isinstance(usage, Mapping) else {}
        )
        turn = Turn(self._now, "model", _text(line, "text"), _text(line, "model"))
        turn.seconds = max(0.0, self._now - before) if self.turns else 0.0
        turn.sent, turn.received, turn.cached = (
            _count(used.get(name)) for name in ("sent", "received", "cached")
        )
        self.turns.append(turn)

    def _call(self, id_: str, event: str) -> CallCourse:
        """The call that a line is about. An id may come again, once its call has ended."""
        known = self._calls.get(id_)
        if known is not None and not (event == "requested" and known.kind not in (None, "pending")):
            return known
        if not self.turns:
            self.turns.append(Turn(self._now, "nobody"))
        self._count += 1
        made = self._calls[id_] = CallCourse(self._count, id_, self._now, self._now)
        self.turns[-1].calls.append(made)
        return made

    def _requested(self, call: CallCourse, line: Mapping[str, Any]) -> None:
        call.tool = _text(line, "tool") or "?"
        call.args = call.args if call.args is not None else line.get("args")

    def _judged(self, call: CallCourse, line: Mapping[str, Any]) -> None:
        call.args = line.get("args", call.args)
        word = _text(line, "decision")
        text = _text(line, "reason") or _text(line, "question")
        answered = bool(call.told) and call.told[-1].what == "answered"
        if word != "ask" and not (word == "allow" and answered):  # that is told already
            call.told.append(Told("judged", word, text, _origin(line)))

    def _asked(self, call: CallCourse, line: Mapping[str, Any]) -> None:
        call.open("asks", self._now)
        call.told.append(Told("asked", "", _text(line, "question"), _origin(line)))

    def _answered(self, call: CallCourse, line: Mapping[str, Any]) -> None:
        seconds = call.close(self._now, "asks")
        text = _text(line, "reason") or _text(line, "text")
        call.told.append(Told("answered", _text(line, "answer"), text, seconds=seconds))

    def _waiting(self, call: CallCourse, line: Mapping[str, Any]) -> None:
        on: Any = line.get("on")
        several = cast("list[object]", on) if isinstance(on, list) else []
        why = tuple(one for one in several if isinstance(one, str))
        call.open("waits", self._now, why)
        for one in why:
            self._waiters.setdefault(one, []).append(call)

    def _started(self, call: CallCourse, _line: Mapping[str, Any]) -> None:
        call.close(self._now, "waits", "asks", "rests")
        call.open("runs", self._now)

    def _attempt_failed(self, call: CallCourse, line: Mapping[str, Any]) -> None:
        call.close(self._now, "runs")
        call.open("rests", self._now)
        again = _time(line.get("again_in"), 0.0)
        call.told.append(
            Told("attempt", _text(line, "kind"), _text(line, "message"), seconds=again)
        )

    def _finished(self, call: CallCourse, line: Mapping[str, Any]) -> None:
        call.close(self._now, "waits", "rests", "runs")
        call.kind, call.text = _text(line, "kind"), _text(line, "text")
        if call.kind == "pending" and any(one.phase == "asks" for one in call.spans):
            return  # it still waits for its answer
        call.close(self._now, "asks")
        for other in self._waiters.pop(call.id, ()):
            if self._free(other):
                other.close(self._now, "waits")

    def _free(self, call: CallCourse) -> bool:
        """Whether all has ended that a call waits for; for a place, it waits until it starts."""
        on = [self._calls.get(one) for span in call.spans if not span.closed for one in span.why]
        return bool(on) and all(one and one.kind not in (None, "pending") for one in on)


def _time(value: Any, otherwise: float) -> float:
    """Seconds, if they can be some."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return otherwise
    return float(value) if 0 <= value < LATEST else otherwise


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < LATEST else 0


def _text(line: Mapping[str, Any], key: str) -> str:
    value = line.get(key)
    return value if isinstance(value, str) else ""


def _origin(line: Mapping[str, Any]) -> str:
    """The rule, and where it stands."""
    origin: Any = line.get("origin")
    if not isinstance(origin, Mapping):
        return ""
    told = cast("Mapping[str, Any]", origin)
    rule, file, number = _text(told, "rule"), _text(told, "file"), _count(told.get("line"))
    return f"{rule} ({file}:{number})" if file else rule
