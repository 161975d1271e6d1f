"""Segments and calls running in this worker, and stopping them from any thread."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, NamedTuple

import anyio

from handrail import Executor
from handrail._support.loop import running_loop
from handrail.runs._durable.counts import Counts
from handrail.runs._durable.rows import Rows

_PAUSE = 0.05
"""Seconds between two checks for running calls."""


class Gate:
    """Gate for a worker's calls. A worker has its own, closed before it ends.

    A call runs until its threads have ended, too: they outlive a call that timed out or was
    cancelled.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # threads end anywhere, and loops can differ
        self._is_open = True
        self._running: Counter[object] = Counter()
        """Running calls, each with its number of threads and coroutines."""

    @property
    def calls(self) -> int:
        """How many calls run."""
        return len(self._running)

    @asynccontextmanager
    async def calling(self) -> AsyncGenerator[None]:
        """Run a call inside. It never begins if the gate is closed: another worker runs it."""
        count = partial(self._count, object())
        if not self._enter(count):
            await anyio.sleep_forever()
        try:
            with Executor.count_threads(count):
                yield
        finally:
            count(-1)

    def _enter(self, count: Callable[[int], None]) -> bool:
        with self._lock:
            if self._is_open:
                count(1)
            return self._is_open

    def _count(self, call: object, change: int) -> None:
        with self._lock:
            self._running[call] += change
            if not self._running[call]:
                del self._running[call]

    def close(self) -> None:
        """Let no more calls begin."""
        with self._lock:
            self._is_open = False

    async def wait(self, seconds: float) -> bool:
        """Wait until no call runs. Returns False if some still run after these seconds."""
        until = time.monotonic() + seconds
        while self.calls and time.monotonic() < until:  # noqa: ASYNC110  other threads end them
            await anyio.sleep(_PAUSE)
        return not self.calls


class _Scope(NamedTuple):
    run: str
    id: str
    loop: Any
    scope: anyio.CancelScope
    gate: Gate


class Active:
    """Segments and queued calls running in this worker."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._scopes: list[_Scope] = []
        self.gate = Gate()
        """For calls beginning now."""
        self.counts = Counts()
        """The running worker's counts."""

    def __len__(self) -> int:
        """Their number, without those left by an earlier worker in this process."""
        return sum(active.gate is self.gate for active in self._scopes)

    @contextmanager
    def running(self, run: str, id_: str) -> Generator[None]:
        """Run part of a run inside, cancelling it when stopped."""
        active = _Scope(run, id_, running_loop(), anyio.CancelScope(), self.gate)
        self._scopes.append(active)
        try:
            with active.scope:
                yield
        finally:
            self._scopes.remove(active)

    @property
    def ids(self) -> set[str]:
        """The ids of all that runs."""
        return {active.id for active in self._scopes}

    async def stop_cancelled(self) -> None:
        """Stop everything in cancelled runs, also inside their tools."""
        if self._scopes:
            cancelled = await self._rows.cancelled_of([active.run for active in self._scopes])
            _stop(active for active in self._scopes if active.run in cancelled)

    def stop_others(self, owned: Sequence[str]) -> None:
        """Stop what other workers have taken over."""
        _stop(active for active in self._scopes if active.id not in owned)


def _stop(scopes: Iterable[_Scope]) -> None:
    for active in list(scopes):
        active.loop.call_soon_threadsafe(active.scope.cancel)
