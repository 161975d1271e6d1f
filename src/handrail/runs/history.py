"""A run's history from its journal: turns, their calls, and what each call waited for.

A journal may be incomplete, or changed by a person. Invalid lines are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from handrail.messages import Usage

Phase: TypeAlias = Literal["waiting", "approval", "backoff", "running"]
"""Waiting for other calls or a free slot; for approval; for the next attempt; or running."""
MAX_SECONDS = 1e11
"""Times after this are invalid."""
CallKey: TypeAlias = tuple[int, str, str]
"""A call in a run: its turn's number, the sub-agent's turn inside it, and the call's id."""


@dataclass(slots=True)
class PhaseSpan:
    """A phase in a call."""

    phase: Phase
    start: float
    end: float
    why: tuple[str, ...] = ()
    """Ids of the calls it waited for, or those holding the slots."""
    closed: bool = False
    reason: str = ""
    """``slot``, ``queue`` or ``rate``; else it waited for the calls."""
    what: str = ""
    """The resource used by the calls, the queue, or the tool whose slots were taken."""

    @property
    def seconds(self) -> float:
        """The phase's duration."""
        return max(0.0, self.end - self.start)


@dataclass(slots=True)
class CallMoment:
    """A decision about a call, an approval request, an answer, or a failed attempt."""

    what: Literal["decided", "asked", "reviewed", "answered", "attempt"]
    word: str
    """The decision, the answer, or the failure's kind."""
    text: str = ""
    origin: str = ""
    """The rule with its file and line; for an answer, who gave it."""
    seconds: float = 0.0
    """How long the answer took, or the delay before the next attempt."""
    diff: str = ""
    """Planned changes in a call needing approval."""


@dataclass(slots=True, eq=False)
class CallHistory:
    """One call's history."""

    number: int
    id: str
    began: float
    ended: float
    tool: str = "?"
    args: Any = None
    kind: str | None = None
    """Its failure's kind, empty for success, or None without a result."""
    text: str = ""
    chars: int = 0
    """Characters in the result for the model."""
    principal: str = ""
    """On whose behalf it ran; empty if the journal does not say."""
    turn: int = 0
    """Its turn's number, or 0 outside an agent."""
    depth: int = 0
    """How many calls it is inside: those of a program or a sub-agent are inside one."""
    moments: list[CallMoment] = field(default_factory=list[CallMoment])
    spans: list[PhaseSpan] = field(default_factory=list[PhaseSpan])

    @property
    def outcome(self) -> str:
        """The result in a word or two."""
        if self.kind is None:
            return "no result"
        return self.kind or "ok"

    @property
    def failed(self) -> bool:
        """Whether it failed, other than by being denied or pending."""
        return bool(self.kind) and self.kind not in {"denied", "pending"}

    def seconds(self, *phases: Phase) -> float:
        """Return how long it was in these phases."""
        return sum(span.seconds for span in self.spans if span.phase in phases)

    def open(self, phase: Phase, at: float, why: tuple[str, ...] = ()) -> PhaseSpan:
        """Begin a phase."""
        self.close(at, phase)
        self.spans.append(PhaseSpan(phase, at, at, why))
        return self.spans[-1]

    def close(self, at: float, *phases: Phase) -> float:
        """End these phases, and return how long the last one took."""
        seconds = 0.0
        for span in self.spans:
            if span.phase in phases and not span.closed:
                span.end, span.closed = max(span.start, at), True
                seconds = span.seconds
        return seconds


@dataclass(slots=True)
class RunTurn:
    """A model's reply with its calls, or a prompt."""

    at: float
    """When it was complete."""
    speaker: Literal["model", "person", "unknown"]
    """``unknown`` if there are calls, and no reply."""
    text: str = ""
    model: str = ""
    seconds: float = 0.0
    """How long the model took: from the request to the reply's end."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    calls: list[CallHistory] = field(default_factory=list[CallHistory])
    number: int = 0
    """The number of the model's turn, or 0 if there is none."""


class TokenShare(NamedTuple):
    """The tokens in one model's replies attributed to a tool.

    A reply's tokens are divided equally among its turn's calls, without those inside them.
    """

    model: str
    tool: str
    """Empty for replies without calls."""
    calls: int
    replies: float
    input: float
    output: float
    cached: float


class TokenSum(NamedTuple):
    """Tokens, and their cost in US dollars as a decimal number; None if it is not known."""

    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: str | None


def share_tokens(turns: Iterable[RunTurn]) -> list[TokenShare]:
    """Return reply tokens by model and tool. Their sum covers all replies."""
    sums: dict[tuple[str, str], list[float]] = {}
    for turn in turns:
        if turn.speaker != "model":
            continue
        numbers = (1, turn.input_tokens, turn.output_tokens, turn.cached_tokens)
        own = [call.tool for call in turn.calls if not call.depth]
        part = [number / max(1, len(own)) for number in numbers]
        for tool in own or [""]:
            before = sums.get((turn.model, tool), [0.0] * 5)
            more = (len(own) > 0, *part)
            sums[turn.model, tool] = [one + two for one, two in zip(before, more, strict=True)]
    return [TokenShare(*key, int(sums[key][0]), *sums[key][1:]) for key in sorted(sums)]


def sum_tokens(shares: Iterable[TokenShare]) -> TokenSum:
    """Return the sum over shares, with the cost at prices known to ``handrail.models``.

    The journal does not tell that tokens were written to a cache: they have the input price.
    """
    from handrail.models import cost  # rarely needed

    several, dollars, is_known = list(shares), Decimal(0), True
    for one in several:
        given, made, cached = map(round, one[-3:])
        used = Usage(input_tokens=given, output_tokens=made, cached_tokens=cached)
        price = cost(used, one.model)
        is_known = is_known and (price is not None or not used.total)
        dollars += price or 0
    return TokenSum(
        round(sum(one.input for one in several)),
        round(sum(one.cached for one in several)),
        round(sum(one.output for one in several)),
        f"{dollars.normalize():f}" if is_known else None,
    )


def read_history(journal: Iterable[Any]) -> list[RunTurn]:
    """Return a run's turns, in order."""
    reader = _HistoryReader()
    for line in journal:
        if isinstance(line, Mapping):
            reader.read(cast("Mapping[str, Any]", line))
    reader.end()
    return reader.turns


def read_key(line: Mapping[str, Any]) -> CallKey:
    """Return the key of a line's call."""
    return _count(line.get("turn")), _text(line, "inner"), _text(line, "call_id")


def all_calls(turns: Iterable[RunTurn]) -> Iterator[CallHistory]:
    """Yield every call in every turn."""
    for turn in turns:
        yield from turn.calls


class _HistoryReader:
    def __init__(self) -> None:
        self.turns: list[RunTurn] = []
        self._turn: RunTurn | None = None
        """The model's last turn, unless its reply cannot come any more."""
        self._calls: dict[CallKey, CallHistory] = {}
        self._latest: dict[str, CallHistory] = {}
        """The last call with each id."""
        self._waiters: dict[str, list[CallHistory]] = {}
        """Calls by the id of the call they wait for."""
        self._count = 0
        self._now = 0.0
        self._about_calls: dict[str, Callable[[CallHistory, Mapping[str, Any]], None]] = {
            "requested": self._note_request,
            "decided": self._note_decision,
            "asked": self._note_question,
            "reviewed": self._note_review,
            "answered": self._note_answer,
            "waiting": self._note_wait,
            "started": self._note_start,
            "attempt_failed": self._note_attempt,
            "finished": self._note_result,
        }

    def read(self, line: Mapping[str, Any]) -> None:
        self._now = _time(line.get("at"), self._now)
        event = _text(line, "event")
        if event == "prompt":
            self.turns.append(RunTurn(self._now, "person", _text(line, "text")))
            if self._turn and self._turn.speaker == "unknown":
                self._turn = None
        elif event == "reply":
            self._note_reply(line)
        elif event in self._about_calls:
            call = self._call(read_key(line), event)
            self._about_calls[event](call, line)
            call.principal = call.principal or _text(line, "principal")
            call.ended = max(call.ended, self._now)

    def end(self) -> None:
        """End phases still open at the last event's time."""
        for call in all_calls(self.turns):
            for span in call.spans:
                if not span.closed:
                    span.end = max(span.start, self._now)
                    call.ended = max(call.ended, span.end)

    def _note_reply(self, line: Mapping[str, Any]) -> None:
        number, turn = _count(line.get("turn")), self._turn
        if turn is None or turn.number != number or turn.speaker == "model":
            turn = self._begin_turn(number)
        usage: Any = line.get("usage")
        used: Mapping[str, Any] = (
            cast("Mapping[str, Any]", usage) if isinstance(usage, Mapping) else {}
        )
        turn.at, turn.speaker = self._now, "model"
        turn.text, turn.model = _text(line, "text"), _text(line, "model")
        turn.seconds = _time(line.get("seconds"), 0.0)
        turn.input_tokens, turn.output_tokens, turn.cached_tokens = (
            _count(used.get(name)) for name in ("input_tokens", "output_tokens", "cached_tokens")
        )

    def _begin_turn(self, number: int) -> RunTurn:
        self._turn = RunTurn(self._now, "unknown", number=number)
        self.turns.append(self._turn)
        return self._turn

    def _call(self, key: CallKey, event: str) -> CallHistory:
        """Return a line's call. An id can be reused after its call has ended.

        The call's turn begins with its first line: a streamed reply comes later.
        """
        known = self._calls.get(key)
        if known is not None and not (event == "requested" and known.kind not in (None, "pending")):
            return known
        (number, inner, id_), turn = key, self._turn
        if turn is None or turn.number != number:
            turn = self._begin_turn(number)
        self._count += 1
        depth = (inner.count("/") + 1) // 2  # a call and its turn for each
        call = CallHistory(self._count, id_, self._now, self._now, turn=number, depth=depth)
        self._calls[key] = self._latest[id_] = call
        turn.calls.append(call)
        return call

    def _note_request(self, call: CallHistory, line: Mapping[str, Any]) -> None:
        call.tool = _text(line, "tool") or "?"
        call.args = call.args if call.args is not None else line.get("args")

    def _note_decision(self, call: CallHistory, line: Mapping[str, Any]) -> None:
        call.args = line.get("args", call.args)
        word = _text(line, "decision")
        text = _text(line, "reason") or _text(line, "question")
        answered = bool(call.moments) and call.moments[-1].what == "answered"
        if word != "ask" and not (word == "allow" and answered):  # the answer says so already
            call.moments.append(CallMoment("decided", word, text, _origin(line)))

    def _note_question(self, call: CallHistory, line: Mapping[str, Any]) -> None:
        call.open("approval", self._now)
        question, diff = _text(line, "question"), _text(line, "diff")
        call.moments.append(CallMoment("asked", "", question, _origin(line), diff=diff))

    def _note_answer(self, call: CallHistory, line: Mapping[str, Any]) -> None:
        seconds = call.close(self._now, "approval")
        text = _text(line, "reason") or _text(line, "text")
        word, by = _text(line, "answer"), _text(line, "by")
        call.moments.append(CallMoment("answered", word, text, by, seconds))

    def _note_review(self, call: CallHistory, line: Mapping[str, Any]) -> None:
        seconds = _time(line.get("seconds"), 0.0)
        word, text, model = _text(line, "verdict"), _text(line, "reason"), _text(line, "model")
        call.moments.append(CallMoment("reviewed", word, text, model, seconds))

    def _note_wait(self, call: CallHistory, line: Mapping[str, Any]) -> None:
        on: Any = line.get("on")
        several = cast("list[object]", on) if isinstance(on, list) else []
        why = tuple(item for item in several if isinstance(item, str))
        span = call.open("waiting", self._now, why)
        span.reason, span.what = _text(line, "reason"), _text(line, "what")
        for call_id in () if span.reason == "slot" else why:  # any frees a slot
            self._waiters.setdefault(call_id, []).append(call)

    def _note_start(self, call: CallHistory, _line: Mapping[str, Any]) -> None:
        call.close(self._now, "waiting", "approval", "backoff")
        call.open("running", self._now)

    def _note_attempt(self, call: CallHistory, line: Mapping[str, Any]) -> None:
        call.close(self._now, "running")
        call.open("backoff", self._now)
        again = _time(line.get("again_in"), 0.0)
        call.moments.append(
            CallMoment("attempt", _text(line, "kind"), _text(line, "message"), seconds=again)
        )

    def _note_result(self, call: CallHistory, line: Mapping[str, Any]) -> None:
        call.close(self._now, "waiting", "backoff", "running")
        call.kind, call.text = _text(line, "kind"), _text(line, "text")
        call.chars = _count(line.get("chars"))
        if call.kind == "pending" and any(span.phase == "approval" for span in call.spans):
            return  # it is still waiting for approval
        call.close(self._now, "approval")
        for other in self._waiters.pop(call.id, ()):
            if self._free(other):
                other.close(self._now, "waiting")

    def _free(self, call: CallHistory) -> bool:
        """Return whether every call it waits for has ended; a wait for a slot ends at its start."""
        on = [
            self._latest.get(call_id)
            for span in call.spans
            if not span.closed
            for call_id in span.why
        ]
        return bool(on) and all(other and other.kind not in (None, "pending") for other in on)


def _time(value: Any, fallback: float) -> float:
    """Return a valid time in seconds, or the fallback."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return fallback
    return float(value) if 0 <= value < MAX_SECONDS else fallback


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < MAX_SECONDS else 0


def _text(line: Mapping[str, Any], key: str) -> str:
    value = line.get(key)
    return value if isinstance(value, str) else ""


def _origin(line: Mapping[str, Any]) -> str:
    """Return the rule, with its file and line."""
    origin: Any = line.get("origin")
    if not isinstance(origin, Mapping):
        return ""
    fields = cast("Mapping[str, Any]", origin)
    rule, file, number = _text(fields, "rule"), _text(fields, "file"), _count(fields.get("line"))
    return f"{rule} ({file}:{number})" if file else rule
