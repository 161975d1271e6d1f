"""A run as sentences, for screen readers and logs: rows are only added, and signs are words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from handrail import Call, FailureKind, Result
from handrail._support import format_duration
from handrail.agent import InnerEvent, RunEvent
from handrail.cli._chat.activity import JobList, Plan, RunningCall, describe_wait, is_inner
from handrail.cli._chat.calls import Ending, ending_of, title_of
from handrail.cli._chat.changes import FileContents, word_rows
from handrail.cli._chat.meter import Meter
from handrail.cli._project.models import describe_retry
from handrail.cli._screen.rows import Row, Span, fold, plain, safe_line
from handrail.cli._screen.terminal import Screen
from handrail.events import Event, Lost, Requested, Started, Waiting
from handrail.events import Finished as CallFinished
from handrail.messages import Delta, Model, Reply, Restart, ToolResults
from handrail.models import RetryWait

Changed: TypeAlias = Callable[[str], Sequence[FileContents]]
_SAID_AT = (1, 30, 60, 120, 300, 600)
"""Seconds after which a running call is reported."""
_STATES = {"completed": "done", "in_progress": "now", "pending": "to do"}


class PlainWatcher:
    """Shows one run at a time, like a Watcher, as sentences and without any drawing."""

    def __init__(
        self, screen: Screen, changed: Changed, clock: Callable[[], float] = time.time
    ) -> None:
        self._screen = screen
        self._changed = changed
        self._clock = clock
        self.meter = Meter()
        self.model: Model | None = None
        self.count = 0
        self.last_output = ""
        self.jobs = JobList(tuple)
        self._plan = Plan()
        self._text = ""
        """Model text in an incomplete line."""
        self._speaks = False
        """Whether a row from the current text was printed."""
        self._streamed = False
        self._calls: dict[str, RunningCall] = {}
        self._said: dict[str, int] = {}
        """How many reports each running call had."""
        self._over: set[str] = set()

    def begin(self) -> None:
        """Prepare for a new run."""
        self._text, self._speaks, self._streamed = "", False, False
        self._calls, self._said, self._over = {}, {}, set()

    def pause(self) -> None:
        """Print the remaining text."""
        self._say_text(ends=True)

    def end(self) -> None:
        """Print what is left, and the plan if it has changed."""
        self.pause()
        if self._plan.changed and self._plan.steps:
            done = sum(status == "completed" for _, status in self._plan.steps)
            self._say(f"Plan: {done} of {len(self._plan.steps)} done.")
            for text, status in self._plan.steps:
                self._say(f"  {_STATES[status]}: {safe_line(' '.join(text.split()))}")
        self._plan = Plan()
        self.begin()

    def status(self, _width: int) -> Row:
        """Return nothing: no row changes."""
        return ()

    def look_at_jobs(self) -> None:
        """Report the jobs that have ended since the last look."""
        for job in self.jobs.take_ended():
            self._say(f"Job {job.number} ended: {job.ending}.")

    def tick(self) -> None:
        """Report calls that take long, and jobs that have ended."""
        self.look_at_jobs()
        now = self._clock()
        for name, one in self._calls.items():
            due = self._said.get(name, 0)
            if one.began and due < len(_SAID_AT) and now - one.began >= _SAID_AT[due]:
                self._said[name] = due + 1
                title = _title(one.call)
                took = format_duration(_SAID_AT[due], words=True)
                what = f"still running, {took}." if due else f"{title}. Running."
                self._say(f"Call {one.number}: {what}")

    def on_wait(self, wait: RetryWait) -> None:
        """Report a delayed retry with the model."""
        self._say_text(ends=True)
        said = describe_retry(wait, wait.seconds).replace(" s (", " seconds (")
        self._say(f"The model: {said}.")

    def on_run_event(self, event: RunEvent) -> None:
        """Show the model's text, its calls, or their results."""
        if isinstance(event, Restart):
            self._say_text(ends=True)
            self._streamed = False
            self._say("The reply was cut off, and starts again.")
        elif isinstance(event, Delta):
            if not event.thought:
                self._streamed = True
                self._text += event.text
                self._say_text(ends=False)
        elif isinstance(event, Reply):
            self._take_reply(event)
        elif isinstance(event, ToolResults):
            for result in event.results:
                self._say_result(result)
        elif isinstance(event, InnerEvent):
            self._count_inner(event)

    def _count_inner(self, inner: InnerEvent) -> None:
        if isinstance(inner.event, Reply) and self.model is not None:
            self.meter.add_inner(inner.event, self.model)

    def _take_reply(self, reply: Reply) -> None:
        if not self._streamed:
            self._text += reply.text
        self._streamed = False
        self._say_text(ends=True)
        if self.model is not None:
            self.meter.add(reply, self.model)
        for call in reply.calls:
            self._note(call)

    def show_running(self, event: Event) -> None:
        """Say nothing about a command typed by the user: its output follows."""

    def on_event(self, event: Event) -> None:
        """Take what the executor says about a call."""
        if isinstance(event, Lost) or is_inner(event):
            return
        match event:
            case Requested(call=call):
                self._note(call)
            case CallFinished(result=result):
                self._say_result(result)
            case Started(at=at, call_id=name) if name in self._calls:
                self._calls[name].began = self._calls[name].began or at
            case Waiting(call_id=name, on=behind, reason=reason, what=what) if name in self._calls:
                one = self._calls[name]
                one.waits_for, one.waits_reason, one.waits_about = behind, reason, what
                numbers = {key: other.number for key, other in self._calls.items()}
                why = describe_wait(one, numbers).replace("#", "call ")
                self._say(f"Call {one.number}: {_title(one.call)}. It {why}.")
            case _:
                pass  # a call's end says enough

    def _say(self, text: str) -> None:
        """Print a sentence, broken between words."""
        first, *others = fold((Span(text),), self._screen.width)
        rest = [piece for row in others for piece in fold(row, self._screen.width - 2)]
        self._screen.show(first, *((Span("  "), *row) for row in rest))

    def _note(self, call: Call) -> None:
        if call.id not in self._calls and call.id not in self._over:
            self.count += 1
            self._calls[call.id] = RunningCall(call, self.count)

    def _say_result(self, result: Result) -> None:
        one = self._calls.pop(result.call_id, None)
        if one is None:
            return
        self._over.add(result.call_id)
        change = self._changed(result.call_id)
        if result.failure is None:
            self._plan.read(one.call)
        seconds = self._clock() - one.began if one.began else 0.0
        ending = ending_of(one.call, result, seconds, words=True)
        self._say_text(ends=True)
        title = "" if result.call_id in self._said else f"{_title(one.call)}. "
        self._say(f"Call {one.number}: {title}{_how(result, ending)}.")
        rows = word_rows(change) if change else _output(ending)
        for row in rows:
            self._say(f"  | {row}")

    def _say_text(self, *, ends: bool) -> None:
        """Print the text's complete lines, or everything if it ends."""
        *lines, self._text = self._text.split("\n")
        if ends:
            lines, self._text = [*lines, self._text], ""
        for line in lines:
            if line.strip():
                self._say(f"{'  ' if self._speaks else 'Model: '}{safe_line(line)}")
                self._speaks = True
        if ends:
            self._speaks = False


def _title(call: Call) -> str:
    return plain(title_of(call))


def _how(result: Result, ending: Ending) -> str:
    """Return how a call ended, as text."""
    parts = ending.summary.replace(" · ", ", ")
    if result.failure is None:
        failed = ending.glyph == Span("✗", "bad")
        return f"{'Failed' if failed else 'Done'}, {parts}"
    if result.failure.kind is FailureKind.PENDING:
        return "Waits for approval"
    return f"{'Denied' if result.failure.kind is FailureKind.DENIED else 'Failed'}, {parts}"


def _output(ending: Ending) -> Iterator[str]:
    lines, note = map(safe_line, ending.output), ending.note.removeprefix("… ")
    notes = [note] if note else []
    yield from (*notes, *lines) if ending.is_end else (*lines, *notes)
