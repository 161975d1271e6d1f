"""Slots: running and waiting calls for each principal, so none blocks the others."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from itertools import count
from typing import TypeAlias

import anyio

Principal: TypeAlias = str | None
_number: ContextVar[int] = ContextVar("_number", default=0)
"""The current call's number, for its starting order."""

_Waiting: TypeAlias = tuple[int, anyio.Event]
_BUSY = "Not run: {} calls of this server are waiting already. Call again later."
_YOURS = (
    "Not run: {} of your calls are running or waiting already. Call again when some have ended."
)


class Places:
    """Starts calls in turn between principals, each within its share.

    Args:
        calls: Calls running, waiting or asking at a time.
        running: How many of these calls can run at a time.
        share: One principal's maximum part of both. A server without principals has one client, or
            many it cannot tell apart: they have all slots.
    """

    def __init__(self, *, calls: int, running: int, share: float) -> None:
        self._calls = calls
        self._most_running = min(running, calls)
        self._share = share  # one user's slow calls leave room for others: decision 087
        self._running: dict[Principal, list[int]] = {}
        """The running calls' numbers."""
        self._numbers = count(1)
        self._asking = Counter[Principal]()
        self._answering = Counter[Principal]()
        self._waiting: dict[Principal, deque[_Waiting]] = {}
        """Who is first here gets the next place."""

    async def enter(self, principal: Principal) -> str:
        """Wait for a slot and acquire it. Returns why there is none, or ""."""
        if refused := self._refuse(principal):
            return refused
        _number.set(next(self._numbers))
        try:
            await self._wait(principal)
        except BaseException:
            self.leave(principal)
            raise
        return ""

    def leave(self, principal: Principal) -> None:
        """Free a place. The next call starts."""
        self._running[principal].remove(_number.get())
        if not self._running[principal]:
            del self._running[principal]
        self._start()

    @asynccontextmanager
    async def ask(self, principal: Principal, *, is_scheduled: bool) -> AsyncGenerator[None]:
        """Free a call's slot while its approval request is open. Afterwards, it waits for one.

        Running calls may wait for a call scheduled by the executor. If it started before all of
        them, it gets a slot immediately. One scheduled again starts like a new one.
        """
        number = _number.get()
        self._asking[principal] += 1
        self.leave(principal)
        try:
            yield
        except BaseException:
            self._asking[principal] -= 1
            self._take(principal, number)
            raise
        self._asking[principal] -= 1
        if is_scheduled and number < min(self._running.get(principal, [number + 1])):
            self._take(principal, number)
        else:
            if not is_scheduled:
                _number.set(next(self._numbers))
            await self._wait(principal)

    @asynccontextmanager
    async def answer(self, principal: Principal) -> AsyncGenerator[str]:
        """Wait for a slot for an answer, although its principal has no more calls.

        Calls waiting for the answer have no slot, but they are counted.
        """
        answering = self._answering[principal]
        if answering >= self._part(self._calls, principal):
            yield _YOURS.format(answering)
            return
        self._answering[principal] += 1
        _number.set(next(self._numbers))
        try:
            await self._wait(principal)
            yield ""
        finally:
            self._answering[principal] -= 1
            self.leave(principal)

    async def _wait(self, principal: Principal) -> None:
        """Wait for a place, and take it. If the wait is given up, the place is taken anyway."""
        number = _number.get()
        if not (self._waiting or self._is_full()) and self._has_share(principal):
            self._take(principal, number)
            return
        started = anyio.Event()
        self._waiting.setdefault(principal, deque()).append((number, started))
        self._start()
        try:
            await started.wait()
        except BaseException:
            if not started.is_set():
                self._drop(principal, (number, started))
                self._take(principal, number)
            raise

    def _take(self, principal: Principal, number: int) -> None:
        self._running.setdefault(principal, []).append(number)

    def _count(self, principal: Principal) -> int:
        return len(self._running.get(principal, ()))

    def _refuse(self, principal: Principal) -> str:
        waiting = self._waiting.get(principal, ())
        own = self._count(principal) + self._asking.get(principal, 0) + len(waiting)
        if not own:  # a principal without a call always gets its turn
            return ""
        if own >= self._part(self._calls, principal):
            return (_BUSY if principal is None else _YOURS).format(own)
        all_waiting = sum(map(len, self._waiting.values()))
        total = self._count_all() + self._asking.total() + all_waiting
        return _BUSY.format(total) if total >= self._calls else ""

    def _start(self) -> None:
        """Start the calls with a free slot, one from each principal in turn."""
        while not self._is_full() and (able := list(filter(self._has_share, self._waiting))):
            principal = able[0]
            number, started = first = self._waiting[principal][0]
            started.set()
            self._drop(principal, first)
            if principal in self._waiting:  # it is the last one now
                self._waiting[principal] = self._waiting.pop(principal)
            self._take(principal, number)

    def _count_all(self) -> int:
        return sum(map(len, self._running.values()))

    def _is_full(self) -> bool:
        return self._count_all() >= self._most_running

    def _has_share(self, principal: Principal) -> bool:
        """Return whether a principal may run one more call, if there is a place."""
        return self._count(principal) < self._part(self._most_running, principal)

    def _drop(self, principal: Principal, call: _Waiting) -> None:
        waiting = self._waiting[principal]
        waiting.remove(call)
        if not waiting:
            del self._waiting[principal]

    def _part(self, places: int, principal: Principal) -> int:
        return places if principal is None else max(1, int(places * self._share))
