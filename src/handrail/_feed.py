"""Where events go: a buffer for each listener, filled without waiting, read at its own pace."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeAlias

import anyio

from handrail._access import Access
from handrail._call import Call
from handrail._decision import Decision
from handrail._event import Event, Finished, Judged, Requested, Started, Stored
from handrail._result import Result

MAX_UNREAD = 100_000
"""Records that a listener may fall behind; then it loses its oldest."""

Brief: TypeAlias = tuple[float, float, Call, tuple[Access, ...], Decision, Result, int]
"""A call that ran at once, from its request to its result: made cheaply, told in full when read.
The last is how many characters of its result were stored, if it was too long."""


class Feed:
    """One listener's events that it has not read yet."""

    def __init__(self) -> None:
        self._unread: deque[Event | Brief] = deque(maxlen=MAX_UNREAD)
        self._asleep: anyio.Event | None = None
        self._closed = False

    def put(self, record: Event | Brief) -> None:
        """Take a record; never waits."""
        self._unread.append(record)
        if self._asleep is not None:
            self._asleep.set()
            self._asleep = None

    def close(self) -> None:
        """Nothing more will come."""
        self._closed = True
        if self._asleep is not None:
            self._asleep.set()

    async def events(self, left: Callable[[], None]) -> AsyncIterator[Event]:
        """Everything that was put, in order, until it is closed; ``left`` is called at the end."""
        try:
            while True:
                while self._unread:
                    for event in _told(self._unread.popleft()):
                        yield event
                if self._closed:
                    return
                asleep = self._asleep = anyio.Event()
                await asleep.wait()
        finally:
            left()


def _told(record: Event | Brief) -> Iterator[Event]:
    if not isinstance(record, tuple):
        yield record
        return
    began, ended, call, accesses, decision, result, stored = record
    yield Requested(began, call)
    yield Judged(began, call.id, accesses, decision)
    yield Started(began, call.id, 1)
    if stored:
        yield Stored(ended, call.id, stored)
    yield Finished(ended, result)
