"""Deliver events: a buffer for each listener, which reads it at its own pace."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Self, TypeAlias, cast

import anyio

from handrail._support import get_log
from handrail.events import Asked, Event, Finished, Lost

MAX_UNREAD = 100_000
"""A listener's unread events. After that, the oldest are dropped, except questions."""

RawEvent: TypeAlias = tuple[int, type[Event], Any, tuple[Any, ...]]
"""An unread event: its number, its class, its call, its fields."""


_AS_IT_IS: Any = object()
"""In place of an event's class: the field is a value from another source."""


class EventFeed:
    """An executor's events, from when the feed was made until it is closed.

    Iterate over it. As a context manager, it is closed when the block ends.
    """

    def __init__(
        self,
        leave: Callable[[EventFeed], None],
        wants: Callable[[Any], bool] | None,
        *,
        ends: bool = False,
    ) -> None:
        self._leave = leave
        self._wants = wants
        """Returns whether the feed includes a call; None includes all."""
        self._ends = ends
        """Whether a call's result closes the feed."""
        self._unread: deque[RawEvent] = deque()
        self._kept: deque[RawEvent] = deque()
        """Kept events before the unread ones; never dropped."""
        self._lost = 0
        self._asleep: anyio.Event | None = None
        self._closed = False

    def put(self, event: RawEvent) -> None:
        """Add an event, if the feed includes its call. Never waits."""
        if self._wants is not None and not self._wants(event[2]):
            return
        if len(self._unread) >= MAX_UNREAD:
            self._drop(self._unread.popleft())
        self._unread.append(event)
        if self._ends and event[1] is Finished:
            self.close()
        elif self._asleep is not None:
            self.wake()

    def insert(self, value: Any) -> None:
        """Add a value from another source. It is read in order with the events, never dropped."""
        if not self._closed:
            self._unread.append((0, _AS_IT_IS, None, (value,)))
            self.wake()

    def close(self) -> None:
        """Receive no more events. Unread events can still be read."""
        if not self._closed:
            self._closed = True
            self._leave(self)
            self.wake()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._unread:
            if self._closed:
                raise StopAsyncIteration
            asleep = self._asleep = self._asleep or anyio.Event()
            await asleep.wait()
        if self._lost and not self._kept:
            lost, self._lost = self._lost, 0
            return Lost(lost, number=self._unread[0][0] - 1)
        number, kind, running, fields = (self._kept or self._unread).popleft()
        if kind is _AS_IT_IS:
            return cast("Event", fields[0])
        return kind(*fields, number=number, turn=running.turn.key)

    def _drop(self, oldest: RawEvent) -> None:
        """Drop the oldest event, unless a call waits until it is read."""
        if oldest[1] in (Asked, _AS_IT_IS):
            self._kept.append(oldest)
        else:
            self._lost += 1

    def wake(self) -> None:
        """Wake the task waiting for the next event."""
        if self._asleep is not None:
            asleep, self._asleep = self._asleep, None
            asleep.set()


class Observers:
    """Functions that get each event when it happens, in place of a feed."""

    def __init__(self, functions: Sequence[Callable[[str, Any, Event], None]]) -> None:
        self._functions = functions

    def put(self, event: RawEvent) -> None:
        """Call each function. An error in one is logged, and never reaches the call."""
        number, kind, running, fields = event
        turn = running.turn
        fact, key = kind(*fields, number=number, turn=turn.key), turn.key_of(*running.name)
        for function in self._functions:
            try:
                function(key, running.subject, fact)
            except Exception:
                log = get_log()
                log.exception("an observer of a call of %r failed", running.call.name)

    def close(self) -> None:
        """Do nothing: they observe as long as the executor exists."""

    def wake(self) -> None:
        """Do nothing: they never wait."""


class Listeners:
    """An executor's feeds."""

    def __init__(
        self,
        clock: Callable[[], float],
        call: Callable[[Callable[[], None]], None],
        is_live: Callable[[Any], bool],
        observers: Sequence[Callable[[str, Any, Event], None]] = (),
    ) -> None:
        self.clock = clock
        self._call = call
        """Calls a function in the executor's event loop, from any thread."""
        self._is_live = is_live
        """Returns whether a call has no result yet."""
        self.feeds: tuple[EventFeed | Observers, ...] = ()
        if observers:
            self.feeds = (Observers(observers),)
        self._count = 0

    def listen(self, wants: Callable[[Any], bool] | None, *, ends: bool = False) -> EventFeed:
        """Return a feed of future events, for the calls in ``wants``."""
        feed = EventFeed(self._leave, wants, ends=ends)
        self.feeds = (*self.feeds, feed)
        return feed

    def emit(self, running: Any, kind: Any, *fields: Any) -> None:
        """Send an event to all feeds. An event begins with the time, which is added here."""
        self._count += 1
        event = (self._count, kind, running, (self.clock(), *fields))
        for feed in self.feeds:
            feed.put(event)

    def emit_from_anywhere(self, running: Any, kind: Any, *fields: Any) -> None:
        """Send an event from any thread. It is dropped if its call has ended."""
        if self.feeds:
            self._call(partial(self._emit_of_live, running, kind, *fields))

    def _emit_of_live(self, running: Any, kind: Any, *fields: Any) -> None:
        if self._is_live(running):
            self.emit(running, kind, *fields)

    def close(self) -> None:
        """Close all feeds."""
        for feed in self.feeds:
            feed.close()

    def wake(self) -> None:
        """Wake the tasks waiting for events. A closed loop's tasks are forgotten."""
        for feed in self.feeds:
            with suppress(RuntimeError):
                feed.wake()

    def _leave(self, feed: EventFeed) -> None:
        self.feeds = tuple([other for other in self.feeds if other is not feed])
