"""A run in this process: its events so far, for all who watch it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import anyio

from handrail.web._records import ChatRecord
from handrail.web._wire import WireEvent
from handrail.web.conversations import ConversationHead

_MAX_ENDED = 100
"""Ended runs whose events stay for watchers who reconnect."""


class LiveRun:
    """Events of one run, and whether someone waits for them."""

    def __init__(self, head: ConversationHead, record: ChatRecord) -> None:
        self.head = head
        self.record = record
        self.events: list[WireEvent] = []
        self.is_working = True
        self.is_waiting = False
        """Whether it waits for a person."""
        self.is_cancelled = False
        """Whether a command has cancelled it."""
        self.is_stopped = False
        """Whether its user has stopped it."""
        self.interrupt: Callable[[], None] = _ignore
        self.task: object = None
        self.watchers = 0
        self._changed: anyio.Event | None = None
        """What watchers wait for, if some do."""
        self._joined = anyio.Event()
        self._left = anyio.Event()

    def put(self, event: WireEvent) -> None:
        """Add an event, and wake the watchers."""
        self.events.append(event)
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def wait(self, seen: int) -> None:
        """Wait for another event."""
        if len(self.events) == seen:
            self._changed = self._changed or anyio.Event()
            await self._changed.wait()

    def join(self) -> None:
        """Begin to watch."""
        self.watchers += 1
        self._joined.set()

    def leave(self) -> None:
        """Watch no more."""
        self.watchers -= 1
        if not self.watchers:
            self._left.set()

    async def stop_unwatched(self, seconds: float) -> None:
        """Interrupt the run once no one has watched it for this long."""
        while True:
            if self.watchers:
                self._left = anyio.Event()
                await self._left.wait()
            self._joined = anyio.Event()
            with anyio.move_on_after(seconds):
                await self._joined.wait()
            if not self.watchers:
                self.interrupt()
                return

    def read(self, seen: int, prefix: str) -> list[WireEvent]:
        """Return the events behind a place. Neighbouring pieces of text are joined."""
        found: list[WireEvent] = []
        text = ""
        last = len(self.events)
        for number in range(seen, last):
            event = self.events[number]
            if event.kind == "text":
                text += event.data["text"]
                follows = number + 1 < last and self.events[number + 1].kind == "text"
                if not follows:
                    found.append(WireEvent("text", {"text": text}, f"{prefix}{number + 1}"))
                    text = ""
            else:
                found.append(event._replace(id=f"{prefix}{number + 1}"))
        return found


class LiveRuns:
    """The runs of this process, and the last ones that have ended."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, LiveRun] = OrderedDict()

    def find(self, run: str) -> LiveRun | None:
        """Return a run of this process."""
        return self._runs.get(run)

    def list_working(self) -> list[LiveRun]:
        """Return the runs under way."""
        return [one for one in self._runs.values() if one.is_working]

    def add(self, live: LiveRun) -> None:
        """Add a run, and forget old ones that have ended."""
        self._runs[live.head.run] = live
        ended = [run for run, one in self._runs.items() if not (one.is_working or one.watchers)]
        for run in ended[:-_MAX_ENDED]:
            del self._runs[run]


def _ignore() -> None: ...
