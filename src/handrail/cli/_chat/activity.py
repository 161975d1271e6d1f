"""Rows changing during a turn: running calls, the plan, and jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from handrail import Call
from handrail._support import format_duration, is_list
from handrail.cli._chat.calls import (
    FRAMES,
    bar_row,
    output_rows,
    read_args,
    shorten,
    title_of,
    title_row,
)
from handrail.cli._screen.rows import GUTTER, Row, Span, safe_line
from handrail.events import Event, WaitReason
from handrail.runs.lines import turn_fields

if TYPE_CHECKING:
    from handrail.tools import JobStatus

_FRAMES_A_SECOND = 8
_MAX_RUNNING = 6
_MAX_PLAN_ROWS = 8
_MAX_OUTPUT_ROWS = 3
_MAX_SHOWN_CHARS = 1_000
_MIN_SHOWN_SECONDS = 1.0
_MAX_AWAITED = 3
"""Calls to name when another one waits for them."""
_MAX_RESOURCE_CHARS = 30
_MARKS = {
    "completed": Span("✓", "ok"),
    "in_progress": Span("▸", "accent"),
    "pending": Span("▫", "muted"),
}
FindJobs: TypeAlias = "Callable[[], Sequence[JobStatus]]"
"""Returns the background jobs of a run."""


@dataclass
class RunningCall:
    """A call in this turn without a result."""

    call: Call
    number: int
    began: float = 0.0
    """When it started; 0 if it waits."""
    progress: str = ""
    fraction: float | None = None
    waits_for: tuple[str, ...] = ()
    """The calls to end first."""
    waits_reason: WaitReason = "resource"
    waits_about: str = ""
    """The resource, or the tool without a free slot."""
    asked: bool = False


def is_inner(event: Event) -> bool:
    """Return whether an event is a sub-agent's: the call it works for shows it."""
    return "inner" in turn_fields(event.turn)


def call_rows(calls: Sequence[RunningCall], now: float, width: int, done: int = 0) -> Iterator[Row]:
    """Yield unfinished calls, below a row counting them if there are several."""
    sign = Span(FRAMES[int(now * _FRAMES_A_SECOND) % len(FRAMES)], "accent")
    running = [call.began for call in calls if call.began]
    if len(calls) == 1 or not running:
        yield from _call_rows(calls, sign, now, width)
        return
    asks = sum(call.asked and not call.began for call in calls)
    counts = {
        "done": done,
        "running": len(running),
        "waiting": len(calls) - len(running) - asks,
        "asks you" if asks == 1 else "ask you": asks,
    }
    words = ", ".join([f"{count} {what}" for what, count in counts.items() if count])
    title = (Span(f"{done + len(calls)} calls: {words}"),)
    yield title_row(sign, title, format_duration(now - min(running)), width)
    for row in _call_rows(calls, sign, now, width - len(GUTTER)):
        yield (Span(GUTTER), *row)


def _call_rows(calls: Sequence[RunningCall], sign: Span, now: float, width: int) -> Iterator[Row]:
    """Yield what each call does, for how long, and the last it said."""
    running = [call for call in calls if call.began]
    shown = running if len(running) <= _MAX_RUNNING else running[: _MAX_RUNNING - 1]
    for one in shown:
        seconds = now - one.began
        took = f"{format_duration(seconds)}  " if seconds >= _MIN_SHOWN_SECONDS else ""
        number = f"#{one.number}" if one.number else ""
        yield title_row(sign, title_of(one.call), f"{took}{number}", width)
        if one.fraction is not None:
            yield bar_row(one.fraction, one.progress, width)
        elif len(shown) == 1 or one is shown[0]:
            lines = one.progress[-_MAX_SHOWN_CHARS:].rstrip().splitlines()
            yield from output_rows(
                [line for line in lines if line.strip()][-_MAX_OUTPUT_ROWS:], "", width
            )
    if len(running) > len(shown):
        yield (Span(f"{GUTTER}and {len(running) - len(shown)} more", "muted"),)
    numbers = {call.call.id: call.number for call in calls}
    for one in calls:
        if not one.began and (one.waits_for or one.waits_reason == "slot"):
            yield _waiting_row(one, numbers, width)


def _waiting_row(one: RunningCall, numbers: Mapping[str, int], width: int) -> Row:
    right = f"{describe_wait(one, numbers)}  #{one.number}"
    return title_row(Span("⋯", "muted"), title_of(one.call), right, width)


def describe_wait(one: RunningCall, numbers: Mapping[str, int]) -> str:
    """Return why a call waits: for others using the same, or for a free slot."""
    about = safe_line(" ".join(one.waits_about.split()))
    if one.waits_reason == "slot":
        return f"waits for a free slot of {about}" if about else "waits for a free slot"
    awaited = [f"#{numbers[name]}" for name in one.waits_for if name in numbers]
    if not awaited:
        return "waits"
    shown = awaited[:_MAX_AWAITED]
    if len(awaited) > len(shown):
        shown.append(f"{len(awaited) - len(shown)} more")
    names = " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)
    uses = f": {about}" if about not in {"", "*"} and len(about) <= _MAX_RESOURCE_CHARS else ""
    return f"waits for {names}{uses}"


@dataclass
class Plan:
    """Steps in the model's plan: the last ``todo`` arguments."""

    steps: tuple[tuple[str, str], ...] = ()
    """Each step with its status."""
    changed: bool = False

    def read(self, call: Call) -> None:
        """Read a call's steps, if it is an understood ``todo``."""
        args = read_args(call)
        if call.name != "todo" or not isinstance(args, Mapping):
            return
        given = args.get("todos")
        steps = given if is_list(given) else []
        read = [_read_step(step) for step in steps]
        self.steps = tuple([step for step in read if step is not None])
        self.changed = True

    def rows(self, width: int, most: int = _MAX_PLAN_ROWS) -> Iterator[Row]:
        """Yield the steps; many finished steps become one row."""
        if not self.steps:
            return
        done = sum(status == "completed" for _, status in self.steps)
        yield title_row(
            Span(" "), (Span("Plan", "title"),), f"{done} of {len(self.steps)} done", width
        )
        steps = self.steps
        if len(steps) >= most and done:
            steps = tuple([step for step in steps if step[1] != "completed"])
            yield (Span(GUTTER), _MARKS["completed"], Span(f" {done} done", "muted"))
        for text, status in steps[:most]:
            role = "title" if status == "in_progress" else "text"
            words = safe_line(" ".join(text[:_MAX_SHOWN_CHARS].split()))
            row = (Span(GUTTER), _MARKS[status], Span(" "), Span(words, role))
            yield shorten(row, width)
        if len(steps) > most:
            yield (Span(f"{GUTTER}… {len(steps) - most} more", "muted"),)


def _read_step(step: Any) -> tuple[str, str] | None:
    if not isinstance(step, Mapping):
        return None
    given = cast("Mapping[str, Any]", step)
    text, status = given.get("content"), given.get("status")
    return (str(text), str(status)) if status in _MARKS and isinstance(text, str) else None


class JobList:
    """The current background commands."""

    def __init__(self, find: FindJobs) -> None:
        self._find = find
        self._running: set[int] = set()

    @property
    def running(self) -> Sequence[JobStatus]:
        """The jobs that run."""
        return [job for job in self._find() if not job.ending]

    def take_ended(self) -> Sequence[JobStatus]:
        """Return the jobs that have ended by themselves since the last call."""
        jobs = self._find()
        ended = [job for job in jobs if job.ending and job.number in self._running]
        self._running = {job.number for job in jobs if not job.ending}
        return [job for job in ended if job.ending != "stopped"]

    def rows(self, width: int) -> Iterator[Row]:
        """Yield a row for each job that runs, with its last line."""
        for job in self.running:
            words = safe_line(" ".join(job.last_line.split()))
            said = f"   “{words}”" if words else ""
            how = Span(f"   {format_duration(job.seconds)}{said}", "muted")
            yield shorten((Span(GUTTER), *_name_job(job), how), width)


def ended_rows(job: JobStatus, width: int) -> Iterator[Row]:
    """Yield how a job ended, and its last line."""
    ending = job.ending.replace("exit code", "exit")
    sign = Span("✓", "ok") if ending == "exit 0" else Span("✗", "bad")
    yield title_row(sign, _name_job(job), f"{ending} · {format_duration(job.seconds)}", width)
    yield from output_rows([job.last_line] if job.last_line else [], "", width)


def _name_job(job: JobStatus) -> Row:
    command = safe_line(" ".join(job.command[:_MAX_SHOWN_CHARS].split()))
    return Span(f"Job {job.number}  "), Span(command, "path")
