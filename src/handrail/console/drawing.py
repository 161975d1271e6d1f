"""Bars as rectangles in percent of a width. Phases differ in pattern, not in color alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from handrail.console.shown import Clear
from handrail.console.words import duration
from handrail.runs import CallHistory, PhaseSpan, TurnRow

_CLASSES = {
    "waiting": "hatch st-wait",
    "approval": "dots st-ask",
    "backoff": "f-line",
}
_WORDS = {
    "running": "ran",
    "waiting": "waited",
    "approval": "waited for approval",
    "backoff": "waited for a retry",
}
_MIN_WIDTH = 0.4
MAX_STRIP = 240


class Rect(NamedTuple):
    """A rectangle: where it begins and how wide it is in percent, and how it looks."""

    x: Clear
    width: Clear
    look: Clear


class Bar(NamedTuple):
    """A bar, and the sentence that says the same."""

    rects: tuple[Rect, ...]
    label: Clear


def draw_call(call: CallHistory, start: float, end: float) -> Bar:
    """Return the phases of a call between two times."""
    looks = {**_CLASSES, "running": "f-bad" if call.failed else "f-runs"}
    rects = [_part(span.start, span.end, start, end, looks[span.phase]) for span in call.spans]
    return Bar(tuple(rects), describe(call.spans))


def describe(spans: Iterable[PhaseSpan]) -> Clear:
    """Return how long a call was in each phase, as text."""
    totals: dict[str, float] = {}
    for span in spans:
        totals[span.phase] = totals.get(span.phase, 0.0) + span.seconds
    parts = [f"{_WORDS[phase]} {duration(seconds)}" for phase, seconds in totals.items()]
    return Clear(", ".join(parts) or "did not run")


def draw_strip(turns: Sequence[TurnRow], start: float, end: float) -> Bar:
    """Return the whole run in at most 240 rectangles: models and tools."""
    rects: list[Rect] = []
    step = max(1, len(turns) // (MAX_STRIP // 2))
    for turn in turns[::step]:
        if turn.speaker == "model":
            rects.append(_part(turn.at - turn.seconds, turn.at, start, end, "f-model"))
        if turn.calls and turn.ended > turn.at:
            look = "f-bad" if turn.failed else "dots st-ask" if turn.waiting else "f-runs"
            rects.append(_part(turn.at, turn.ended, start, end, look))
    models = sum(turn.seconds for turn in turns)
    tools = sum(max(0.0, turn.ended - turn.at) for turn in turns if turn.calls)
    label = f"Whole run: {duration(models)} of models, {duration(tools)} of calls"
    return Bar(tuple(rects), Clear(label))


def draw_hours(hours: Sequence[tuple[float, int]], now: float, span: int = 24) -> Bar:
    """Return how many runs began in each of the last hours. The height is in the look."""
    first = now - span * 3600
    recent = [(at, number) for at, number in hours if at >= first - 3600]
    most = max((number for _, number in recent), default=1)
    rects = [
        Rect(
            Clear(f"{min(max(0.0, (at - first) / (span * 3600) * 100), 96.6):.2f}"),
            Clear("3.4"),
            Clear(f"{number / most * 36:.1f}"),
        )
        for at, number in recent
    ]
    total = sum(number for _, number in recent)
    return Bar(tuple(rects), Clear(f"Runs in each of the last {span} hours: {total} in all"))


def _part(first: float, last: float, start: float, end: float, look: str) -> Rect:  # noqa: PLR0917
    whole = max(end - start, 1e-9)
    x = min(max((first - start) / whole * 100, 0.0), 100 - _MIN_WIDTH)
    width = min(max((last - first) / whole * 100, _MIN_WIDTH), 100 - x)
    return Rect(Clear(f"{x:.1f}"), Clear(f"{width:.1f}"), Clear(look))
