"""Shows a run's events on the screen: text, calls, results and file changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from handrail import Call, Result
from handrail._support import format_duration
from handrail.agent import InnerEvent, RunEvent
from handrail.cli._chat.activity import (
    JobList,
    Plan,
    RunningCall,
    call_rows,
    ended_rows,
    is_inner,
)
from handrail.cli._chat.calls import ending_of, output_rows, title_of, title_row
from handrail.cli._chat.changes import FileContents, changes_rows, count_lines
from handrail.cli._chat.meter import Meter
from handrail.cli._project.models import describe_retry
from handrail.cli._screen.markdown import Markdown
from handrail.cli._screen.rows import Row, Span, plain
from handrail.cli._screen.terminal import Screen
from handrail.events import (
    Asked,
    AttemptFailed,
    Decided,
    Event,
    Finished,
    Lost,
    Progressed,
    Requested,
    Started,
    Waiting,
    Yielded,
)
from handrail.messages import Delta, Model, Reply, Restart, ToolResults, TruncatedCall
from handrail.models import RetryWait
from handrail.sources import unframe

Changed: TypeAlias = Callable[[str], Sequence[FileContents]]
"""Takes a call's id, and returns the files it changed."""
_UNDATED = 0.0
_CUT_OFF: Row = (Span("  … the reply was cut off, and starts again", "warn"),)
_LONG_SECONDS = 5.0
"""Seconds after which a key for running commands is named."""
_PAINT_SECONDS = 1 / 20
"""Seconds between two paintings of streaming text."""


class Watcher:
    """Shows one run at a time. All its methods are called from one thread."""

    def __init__(  # noqa: PLR0915  each is a part of the state
        self, screen: Screen, changed: Changed, clock: Callable[[], float] = time.time
    ) -> None:
        self._screen = screen
        self._changed = changed
        self._clock = clock
        self.meter = Meter()
        self.model: Model | None = None
        """The model whose replies come; set before a run."""
        self.count = 0
        """The last call's number."""
        self.last_output = ""
        """The whole result from the last ended call."""
        self._hinted = False
        self.jobs = JobList(tuple)
        self._plan = Plan()
        self._text = Markdown(screen.width)
        self._streamed = False
        """Whether text from the current reply has been streamed."""
        self._calls: dict[str, RunningCall] = {}
        self._over: set[str] = set()
        """Calls in this turn with a shown result: some finish before the reply is complete."""
        self._began = _UNDATED
        """When the run began; 0 if there is none."""
        self._waits = False
        """Whether the chat waits for the model."""
        self._again: tuple[RetryWait, float] | None = None
        """Why the model is asked again, and at what time."""
        self._settled = _UNDATED
        """Events before this time belong to an earlier turn."""
        self._painted = _UNDATED
        self._fresh: list[Row] = []
        """Settled text rows, not painted yet."""
        self._last = ""
        """The last lasting row's kind: text or a call. An empty row is between them."""

    def begin(self) -> None:
        """Prepare for a new run."""
        self._text = Markdown(self._screen.width)
        self._streamed = False
        self._calls, self._over = {}, set()
        self._began, self._waits = self._clock(), True
        self._last = "" if self._screen.frame is None else "message"
        self._again = None

    def pause(self) -> None:
        """Print unsettled text, and clear the changing rows."""
        self._show("text", self._end_text())
        self._screen.paint((), ())

    def end(self) -> None:
        """Clean up after a run."""
        self.pause()
        self._began, self._waits = _UNDATED, False
        if self._plan.changed:
            self._show("plan", self._plan.rows(self._screen.width))
        self._plan = Plan()
        self._settle()

    def on_wait(self, wait: RetryWait) -> None:
        """Show a delayed retry with the model."""
        self._again = wait, self._clock() + wait.seconds
        self.tick()

    def _restart(self) -> None:
        """Mark the shown part of a restarting reply."""
        self._show("text", [*self._end_text(), _CUT_OFF])
        self._streamed = False

    def on_run_event(self, event: RunEvent) -> None:
        """Show the model's reply, a fragment of one, or the results for the model."""
        if isinstance(event, InnerEvent):
            self._show_inner(event)
            return
        self._again = None
        if isinstance(event, Restart):
            self._restart()
        elif isinstance(event, Delta):
            if not event.thought:
                self._show_delta(event.text)
        elif isinstance(event, Reply):
            self._show_reply(event)
        elif isinstance(event, ToolResults):
            for result in event.results:
                self._show_result(result, self._clock())
            self._settle()
            self._waits = True
            self.tick()

    def _show_inner(self, inner: InnerEvent) -> None:
        """Show a sub-agent's call below the call it works for, while this runs."""
        shown = self._calls.get(inner.call_id)
        if isinstance(inner.event, Requested) and shown is not None:
            shown.progress = f"{shown.progress}\n{plain(title_of(inner.event.call))}"
            self.tick()
        elif isinstance(inner.event, Reply) and self.model is not None:
            self.meter.add_inner(inner.event, self.model)

    def _show_delta(self, text: str) -> None:
        self._streamed = True
        self._fresh += self._text.feed(text)
        if self._clock() - self._painted >= _PAINT_SECONDS:
            self.tick()

    def _show_reply(self, reply: Reply) -> None:
        if not self._streamed:
            self._fresh += self._text.feed(reply.text)
        self._show("text", self._end_text())
        self._streamed = self._waits = False
        if self.model is not None:
            self.meter.add(reply, self.model)
        for part in reply.parts:
            if isinstance(part, Call):
                self._note(part)
            elif isinstance(part, TruncatedCall):  # its result says it did not run
                self._note(Call(part.name, {}, part.id))
        self.tick()

    def _end_text(self) -> list[Row]:
        """Return all unpainted text rows, and start another text."""
        rows, self._fresh = [*self._fresh, *self._text.end()], []
        self._text = Markdown(self._screen.width)
        return rows

    def _note(self, call: Call) -> None:
        if call.id not in self._over and call.id not in self._calls:
            self.count += 1
            self._calls[call.id] = RunningCall(call, self.count)

    def show_running(self, event: Event) -> None:
        """Show an event in a command typed by the user, while it runs. It has no number."""
        if isinstance(event, Requested):
            self._calls[event.call.id], self._waits = RunningCall(event.call, 0), False
        elif not isinstance(event, Lost):
            self._step(event)
        self.tick()

    def on_event(self, event: Event) -> None:
        """Show an executor event: a call starts, makes progress or finishes."""
        if isinstance(event, Lost) or event.at < self._settled or is_inner(event):
            return
        match event:
            case Requested(call=call):
                self._note(call)
            case Finished(at, result):
                self._show_result(result, at)
            case Asked(pending=pending):
                if (shown := self._calls.get(pending.call.id)) is not None:
                    shown.asked, shown.call = True, pending.call
            case _:
                self._step(event)
        self.tick()

    def _step(self, event: Event) -> None:
        shown = self._calls.get(getattr(event, "call_id", ""))
        if shown is None:
            return
        match event:
            case Decided(call=Call() as call):
                shown.call = call
            case Waiting(on=behind, reason=reason, what=what):
                shown.waits_for, shown.waits_reason, shown.waits_about = behind, reason, what
            case Started(at=at):
                shown.began = shown.began or at
            case Progressed(message=progress, fraction=fraction):
                shown.progress, shown.fraction = progress, fraction
            case Yielded(text=progress):
                shown.progress = progress
            case AttemptFailed(kind=kind, again_in=again_in):
                shown.progress = f"failed ({kind}); retrying in {again_in:.0f} s"
            case _:
                pass  # not shown

    def _show_result(self, result: Result, at: float) -> None:
        shown = self._calls.pop(result.call_id, None)
        if shown is None:
            return
        self._over.add(result.call_id)
        self.last_output = unframe(result.text)
        call, width = shown.call, self._screen.width
        changed = self._changed(result.call_id)
        change = list(changes_rows(changed, width))
        if result.failure is None:
            self._plan.read(call)
        ending = ending_of(call, result, at - shown.began if shown.began else 0.0)
        summary = count_lines(changed) if result.failure is None else ""
        right = f"{summary or ending.summary}  #{shown.number}"
        rows = [title_row(ending.glyph, title_of(call), right, width)]
        if change and not shown.asked:  # otherwise the approval request has shown it
            rows += change
        elif not change:
            note = self._add_hint(ending.note)
            rows += output_rows(ending.output, note, width, is_end=ending.is_end)
        self._show("text", self._end_text())
        self._show("call", rows)

    def _add_hint(self, note: str) -> str:
        """Return a note about omitted output, once with the key for showing it."""
        if not note or self._hinted or self._screen.frame is None:
            return note
        self._hinted = True
        return f"{note}   Ctrl+O shows all"

    def _show(self, kind: str, rows: Iterable[Row]) -> bool:
        """Print lasting rows, if any, with an empty row before another kind."""
        settled = list(rows)
        if not settled:
            return False
        if self._last and self._last != kind:
            settled.insert(0, ())
        self._last = kind
        self._screen.paint(settled, self._live())
        return True

    def _settle(self) -> None:
        self._calls, self._over = {}, set()
        self._settled = self._clock()

    def tick(self) -> None:
        """Paint the rows that change: the end of the text, the activity, and what was used."""
        self.look_at_jobs()
        if self._began:
            self._painted = self._clock()
            fresh, self._fresh = self._fresh, []
            if not self._show("text", fresh):
                self._screen.paint((), self._live())

    def look_at_jobs(self) -> None:
        """Print the jobs that have ended since the last look."""
        for job in self.jobs.take_ended():
            self._show("job", ended_rows(job, self._screen.width))

    def _live(self) -> list[Row]:
        if not self._began or not self._screen.can_change:
            return []
        now, width = self._clock(), self._screen.width
        tail = self._text.tail()
        if tail and self._last and self._last != "text":
            tail.insert(0, ())
        below = [
            *self._plan.rows(width, max(self._screen.live_rows - 5, 2)),
            *call_rows(list(self._calls.values()), now, width, len(self._over)),
            *self.jobs.rows(width),
        ]
        room = max(self._screen.live_rows - len(below) - 2, 1)
        apart: list[Row] = [()] if self._last or tail else []
        status = [] if self._screen.frame is not None else [self.status(width)]
        return [*tail[-room:], *apart, *below, *status]

    def status(self, width: int) -> Row:
        """Return what happens now, and what was used, as a row; an empty one between turns."""
        if not self._began:
            return ()
        now, stops = self._clock(), "Ctrl+C stops"
        if self._screen.frame is not None:
            stops = "Ctrl+B: background" if self._is_long(now) else "Esc stops"
        if self._again is not None:
            wait, until = self._again
            said = describe_retry(wait, until - now)
            return self.meter.row(f"{said}, {stops}", width, is_busy=True)
        what = "writing" if self._streamed else "thinking" if self._waits else "working"
        took = format_duration(now - self._began)
        return self.meter.row(f"{what} {took} · {stops}", width, is_busy=True)

    def _is_long(self, now: float) -> bool:
        """Return whether a command runs for long enough to continue it in the background."""
        began = [one.began for one in self._calls.values() if one.began and one.call.name == "bash"]
        return bool(began) and now - min(began) >= _LONG_SECONDS
