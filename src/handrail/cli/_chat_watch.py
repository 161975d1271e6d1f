"""What happens in a run, from its events to the screen: words, calls, results, changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from handrail import Call, Result
from handrail.agent import Happening
from handrail.approvals import Line
from handrail.cli._chat_lines import call_line, live_line, result_lines
from handrail.cli._chat_screen import Screen
from handrail.cli._chat_words import Words
from handrail.events import (
    Asked,
    AttemptFailed,
    Event,
    Finished,
    Judged,
    Progressed,
    Requested,
    Started,
)
from handrail.messages import Delta, Reply

Changed: TypeAlias = Callable[[str, int], Iterable[Line]]
"""The change that a call made, by its id, as lines of this width; none where it made none."""
_UNDATED = 0.0


@dataclass
class _Shown:
    """A call of this turn, as far as it was shown."""

    call: Call
    began: float = _UNDATED
    words: str = ""
    asked: bool = False


class Watcher:
    """Shows one run after the other. It is told of everything in one thread."""

    def __init__(
        self, screen: Screen, changed: Changed, clock: Callable[[], float] = time.time
    ) -> None:
        self._screen = screen
        self._changed = changed
        self._clock = clock
        self._words = Words(screen.width)
        self._spoke = False
        """Whether the reply under way was heard in pieces."""
        self._calls: dict[str, _Shown] = {}
        self._over: set[str] = set()
        """Calls of this turn that were shown to their end: some run before the reply is whole."""
        self._since = _UNDATED
        """When it began to wait for the model; 0 while it does not."""
        self._settled = _UNDATED
        """What happened before this belongs to a turn that was shown to its end."""

    def begin(self) -> None:
        """A run begins."""
        self._words = Words(self._screen.width)
        self._spoke = False
        self._calls, self._over = {}, set()
        self._since = self._clock()

    def pause(self) -> None:
        """Somebody else is about to speak."""
        self._screen.live("")
        self._screen.write(self._words.end())

    def end(self) -> None:
        """A run has ended, whatever way."""
        self.pause()
        self._since = _UNDATED
        self._settle()

    def happening(self, one: Happening) -> None:
        """What the model says, and what it is told."""
        if isinstance(one, Delta):
            self._heard(one)
        elif isinstance(one, Reply):
            self._replied(one)
        else:
            for result in one.results:
                self._finished(result, self._clock())
            self._settle()
            self._since = self._clock()

    def _heard(self, piece: Delta) -> None:
        if not piece.thought:
            self._spoke = True
            self._screen.write(self._words.feed(piece.text))

    def _replied(self, reply: Reply) -> None:
        said = "" if self._spoke else self._words.feed(reply.text)
        self._screen.write(said + self._words.end())
        self._spoke = False
        self._since = _UNDATED
        for call in reply.calls:
            self._note(call)

    def _note(self, call: Call) -> None:
        if call.id not in self._over:
            self._calls.setdefault(call.id, _Shown(call))

    def event(self, event: Event) -> None:
        """What becomes of calls."""
        if event.at < self._settled:
            return
        match event:
            case Requested(call=call):
                self._note(call)
            case Finished(at, result):
                self._finished(result, at)
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
            case Judged(call=Call() as call):
                shown.call = call
            case Started(at=at):
                shown.began = shown.began or at
            case Progressed(words=words):
                shown.words = words
            case AttemptFailed(kind=kind, again_in=again_in):
                shown.words = f"failed ({kind}); again in {again_in:.0f} s"
            case _:
                pass  # nothing that would be seen

    def _finished(self, result: Result, at: float) -> None:
        shown = self._calls.pop(result.call_id, None)
        if shown is None:
            return
        self._over.add(result.call_id)
        screen, width = self._screen, self._screen.width
        screen.write(self._words.end())
        screen.show(call_line(shown.call, width))
        change = list(self._changed(result.call_id, width))
        if not shown.asked:  # else it was shown with the question
            screen.show(*change)
        seconds = at - shown.began if shown.began else 0.0
        screen.show(*result_lines(result, width, seconds))

    def _settle(self) -> None:
        self._calls, self._over = {}, set()
        self._settled = self._clock()

    def tick(self) -> None:
        """Show what goes on now, and for how long; never behind words on the same row."""
        if self._words.amid:
            return
        now, width = self._clock(), self._screen.width
        running = [one for one in self._calls.values() if one.began]
        if running:
            names = [call_line(one.call, width // 2).text for one in running]
            words = next((one.words for one in running if one.words), "")
            self._screen.live(live_line(names, words, now - running[0].began, width))
        elif self._since and not self._spoke:
            self._screen.live(live_line(["waiting for the model"], "", now - self._since, width))
