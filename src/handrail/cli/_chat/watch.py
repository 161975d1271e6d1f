"""Shows the events of a run on the screen: text, calls, results and changes to files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from handrail import Call, Result
from handrail.agent import RunEvent
from handrail.approvals import RenderedLine
from handrail.cli._chat.lines import call_line, live_line, result_lines
from handrail.cli._chat.screen import ChatScreen
from handrail.cli._chat.text import StreamedText
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
    Yielded,
)
from handrail.messages import Delta, Reply, ToolResults, TruncatedCall

Changed: TypeAlias = Callable[[str, int], Iterable[RenderedLine]]
"""Takes a call's id and a width, and returns the change that the call made as lines, if any."""
_UNDATED = 0.0


@dataclass
class _CallOnScreen:
    """A call of this turn that has no result yet."""

    call: Call
    began: float = _UNDATED
    progress: str = ""
    asked: bool = False


class Watcher:
    """Shows one run at a time. All its methods are called from one thread."""

    def __init__(
        self, screen: ChatScreen, changed: Changed, clock: Callable[[], float] = time.time
    ) -> None:
        self._screen = screen
        self._changed = changed
        self._clock = clock
        self._text = StreamedText(screen.width)
        self._streamed = False
        """Whether text of the current reply has been streamed."""
        self._calls: dict[str, _CallOnScreen] = {}
        self._over: set[str] = set()
        """Calls of this turn whose result was shown: some finish before the reply is complete."""
        self._since = _UNDATED
        """When the wait for the model began; 0 if the chat is not waiting for it."""
        self._settled = _UNDATED
        """Events before this time belong to an earlier turn."""

    def begin(self) -> None:
        """Prepare for a new run."""
        self._text = StreamedText(self._screen.width)
        self._streamed = False
        self._calls, self._over = {}, set()
        self._since = self._clock()

    def pause(self) -> None:
        """Clear the status row and finish the current row, before something else prints."""
        self._screen.live("")
        self._screen.write(self._text.end())

    def end(self) -> None:
        """Clean up after a run."""
        self.pause()
        self._since = _UNDATED
        self._settle()

    def on_run_event(self, event: RunEvent) -> None:
        """Show a reply of the model, a piece of one, or the results that the model gets."""
        if isinstance(event, Delta):
            self._show_delta(event)
        elif isinstance(event, Reply):
            self._show_reply(event)
        elif isinstance(event, ToolResults):
            for result in event.results:
                self._show_result(result, self._clock())
            self._settle()
            self._since = self._clock()

    def _show_delta(self, piece: Delta) -> None:
        if not piece.thought:
            self._streamed = True
            self._screen.write(self._text.feed(piece.text))

    def _show_reply(self, reply: Reply) -> None:
        text = "" if self._streamed else self._text.feed(reply.text)
        self._screen.write(text + self._text.end())
        self._streamed = False
        self._since = _UNDATED
        for part in reply.parts:
            if isinstance(part, Call):
                self._note(part)
            elif isinstance(part, TruncatedCall):  # its result says that it did not run
                self._note(Call(part.name, {}, part.id))

    def _note(self, call: Call) -> None:
        if call.id not in self._over:
            self._calls.setdefault(call.id, _CallOnScreen(call))

    def on_event(self, event: Event) -> None:
        """Show an event of the executor: a call starts, makes progress or finishes."""
        if isinstance(event, Lost) or event.at < self._settled:
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
            case Started(at=at):
                shown.began = shown.began or at
            case Progressed(message=progress) | Yielded(text=progress):
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
        screen, width = self._screen, self._screen.width
        screen.write(self._text.end())
        screen.show(call_line(shown.call, width))
        change = list(self._changed(result.call_id, width))
        if not shown.asked:  # otherwise the approval request has shown it
            screen.show(*change)
        seconds = at - shown.began if shown.began else 0.0
        screen.show(*result_lines(result, width, seconds))

    def _settle(self) -> None:
        self._calls, self._over = {}, set()
        self._settled = self._clock()

    def tick(self) -> None:
        """Show the current activity and its duration, unless a row of text is unfinished."""
        if self._text.is_mid_row:
            return
        now, width = self._clock(), self._screen.width
        running = [shown for shown in self._calls.values() if shown.began]
        if running:
            names = [call_line(shown.call, width // 2).text for shown in running]
            progress = next((shown.progress for shown in running if shown.progress), "")
            self._screen.live(live_line(names, progress, now - running[0].began, width))
        elif self._since and not self._streamed:
            self._screen.live(live_line(["waiting for the model"], "", now - self._since, width))
