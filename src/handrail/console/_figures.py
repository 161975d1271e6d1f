"""Figures on pages: times, durations and numbers as text, and bars as rectangles.

Units stay with their numbers. A bar's phases differ in pattern, not in color alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from handrail._support import format_duration
from handrail.console._shown import Clear
from handrail.runs.history import CallHistory
from handrail.runs.records import RunPart
from handrail.runs.wording import describe_phases

_SPACE = "\u00a0"
_LOOKS = {"waiting": "hatch st-wait", "approval": "dots st-ask", "backoff": "f-line"}
_MIN_WIDTH = 0.4
URGENT_SECONDS = 3600.0


def duration(seconds: float) -> Clear:
    """Return a duration as the terminal writes it."""
    return Clear(format_duration(abs(seconds)).replace(" ", _SPACE))


def spaced(text: Clear) -> str:
    """Return a text without its fixed spaces, for a sentence with text from outside."""
    return text.replace(_SPACE, " ")


def time_left(expires: float, now: float) -> tuple[Clear, bool]:
    """Return how much time is left, and whether it is urgent."""
    seconds = expires - now
    if seconds == math.inf:
        return Clear("no limit"), False
    text = f"{duration(seconds)} left" if seconds > 0 else "expired"
    return Clear(text), seconds < URGENT_SECONDS


def ago(seconds: float) -> Clear:
    """Return how long ago something was."""
    return Clear(f"{duration(max(0.0, seconds))} ago")


def moment(at: float) -> Clear:
    """Return a time with its zone."""
    if not 0 < at < 1e11:  # noqa: PLR2004  the journal holds nothing else
        return Clear("unknown time")
    return Clear(f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC")


def short_moment(at: float) -> Clear:
    """Return a time without its seconds."""
    return Clear(moment(at)[5:16])


def count(number: int, one: str, several: str = "") -> Clear:
    """Return a number with its noun."""
    return Clear(f"{number:,}{_SPACE}{one if number == 1 else several or f'{one}s'}")


class Rect(NamedTuple):
    """A rectangle: where it begins and how wide it is in percent, and how it looks."""

    x: Clear
    width: Clear
    look: Clear


class Bar(NamedTuple):
    """A bar, and the equivalent sentence."""

    rects: tuple[Rect, ...]
    label: Clear


def draw_call(call: CallHistory, start: float, end: float) -> Bar:
    """Return a call's phases between two times."""
    looks = {**_LOOKS, "running": "f-bad" if call.failed else "f-runs"}
    rects = [_part(span.start, span.end, start, end, looks[span.phase]) for span in call.spans]
    return Bar(tuple(rects), Clear(describe_phases(call.spans)))


def draw_strip(parts: Sequence[RunPart], start: float, end: float) -> Bar:
    """Return the whole run: models, people and tools in each part."""
    rects: list[Rect] = []
    for part in parts:
        at, look = part.start, "f-bad" if part.failed else "f-runs"
        several = ((part.models, "f-model"), (part.people, "dots st-ask"), (part.calls, look))
        for seconds, look in several:
            if seconds > 0:
                rects.append(_part(at, at + seconds, start, end, look))
            at += seconds
    models, people, calls = (
        duration(sum(getattr(part, name) for part in parts))
        for name in ("models", "people", "calls")
    )
    label = f"Whole run: {models} of models, {calls} of calls, {people} of waiting for approval"
    return Bar(tuple(rects), Clear(label))


def draw_hours(hours: Sequence[tuple[float, int]], now: float, span: int = 24) -> Bar:
    """Return how many runs began in each recent hour. The height is in the look."""
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
