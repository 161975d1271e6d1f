"""Places: how many calls run and wait, for each principal, so that none holds up the others."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeAlias

import anyio

Principal: TypeAlias = str | None

_BUSY = "Not run: {} calls of this server are waiting already. Call again later."
_YOURS = (
    "Not run: {} of your calls are running or waiting already. Call again when some have ended."
)


class Places:
    """Lets calls start in turn between principals, each within its share.

    Args:
        calls: Calls that run, wait or ask at a time.
        running: Calls that run at a time, of those.
        share: The part of both that one principal can take. A server without principals has one
            client, or many that it cannot tell apart: they have all places.
    """

    def __init__(self, *, calls: int, running: int, share: float) -> None:
        self._calls = calls
        self._most_running = min(running, calls)
        self._share = share
        self._running = Counter[Principal]()
        self._asking = Counter[Principal]()
        self._answering = Counter[Principal]()
        self._waiting: dict[Principal, deque[anyio.Event]] = {}
        """Who is first here gets the next place."""

    async def enter(self, principal: Principal) -> str:
        """Wait for a place, and take it. Returns why there is none; empty if there is."""
        if refused := self._refuse(principal):
            return refused
        started = anyio.Event()
        self._waiting.setdefault(principal, deque()).append(started)
        self._start()
        try:
            await started.wait()
        except BaseException:
            if started.is_set():
                self.leave(principal)
            else:
                self._drop(principal, started)
            raise
        return ""

    def leave(self, principal: Principal) -> None:
        """Free a place. The next call starts."""
        self._running[principal] -= 1
        self._start()

    @contextmanager
    def ask(self, principal: Principal) -> Generator[None]:
        """Free the place of a call while its question is open. After that, it waits for none."""
        self._asking[principal] += 1
        self.leave(principal)
        try:
            yield
        finally:
            self._asking[principal] -= 1
            self._running[principal] += 1

    @contextmanager
    def answer(self, principal: Principal) -> Generator[str]:
        """Let an answer through, though calls of its principal wait for it in all places."""
        answering = self._answering[principal]
        if answering >= self._part(self._calls, principal):
            yield _YOURS.format(answering)
            return
        self._answering[principal] += 1
        try:
            yield ""
        finally:
            self._answering[principal] -= 1

    def _refuse(self, principal: Principal) -> str:
        waiting = self._waiting.get(principal, ())
        own = self._running[principal] + self._asking[principal] + len(waiting)
        if own >= self._part(self._calls, principal):
            return (_BUSY if principal is None else _YOURS).format(own)
        all_waiting = sum(map(len, self._waiting.values()))
        total = self._running.total() + self._asking.total() + all_waiting
        # a principal without a call always gets its turn
        return _BUSY.format(total) if total >= self._calls and own else ""

    def _start(self) -> None:
        """Start the calls that have a place now, one of each principal after the other."""
        while self._running.total() < self._most_running and (able := self._find_able()):
            principal = able[0]
            started = self._waiting[principal][0]
            started.set()
            self._drop(principal, started)
            if principal in self._waiting:  # it is the last one now
                self._waiting[principal] = self._waiting.pop(principal)
            self._running[principal] += 1

    def _find_able(self) -> list[Principal]:
        """Return the principals with a waiting call and a free place, in turn."""
        return [
            principal
            for principal in self._waiting
            if self._running[principal] < self._part(self._most_running, principal)
        ]

    def _drop(self, principal: Principal, started: anyio.Event) -> None:
        waiting = self._waiting[principal]
        waiting.remove(started)
        if not waiting:
            del self._waiting[principal]

    def _part(self, places: int, principal: Principal) -> int:
        return places if principal is None else max(1, int(places * self._share))
