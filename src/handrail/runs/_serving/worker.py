"""A worker: runs segments, and takes over those left by dead workers."""

from __future__ import annotations

import logging
import math
import os
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio
from anyio import to_thread

from handrail import HandrailError
from handrail.runs._durable.active import Gate
from handrail.runs._durable.counts import Counts
from handrail.runs._durable.segments import Segments
from handrail.runs._engine.port import Engine
from handrail.runs._live.news import watch
from handrail.runs._serving.measuring import Meter
from handrail.runs._serving.taking import Taker
from handrail.runs._store.database import Database
from handrail.runs._store.liveness import Lock, make_lock
from handrail.runs._store.port import DatabaseAway

log = logging.getLogger("handrail.runs")

_SWEEP = 10
"""Looks for each read of run owners."""
GRACE_SECONDS = 5.0
"""Seconds for calls outlasting the drain, while no more begin."""
_FAREWELL_SECONDS = 2.0
"""Seconds a stopping worker may try to report it. Without the database, it stops all the same."""


def make_worker_id() -> str:
    """Return a unique worker id."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


class Worker:
    """Runs segments until it is stopped.

    Args:
        database: Has the locks that prove which workers live.
        engine: Runs the segments.
        segments: Their body.
        swept: The same for looks, which are repeated: they do not wait for the database.
        version: The version of the application. It takes over only runs of this version.
        slots: How many segments it runs at once.
        poll: Seconds between two looks for work.
        interval: Seconds between two checks for dead workers and for answers.
        end_process: Ends the process if work outlasts the drain and the grace. Without it, the
            worker waits for the last call.
    """

    def __init__(  # noqa: PLR0913  each is a part or a setting of its own
        self,
        database: Database,
        engine: Engine,
        segments: Segments,
        swept: Segments,
        *,
        version: str,
        slots: int,
        poll: float,
        interval: float,
        end_process: Callable[[int], object] | None = None,
    ) -> None:
        self._end_process = end_process
        self._database = database
        self._engine = engine
        self._segments = segments
        self._swept = swept
        self._rows = swept.rows
        self._calls = segments.calls
        self._active = segments.calls.active
        self._questions = swept.questions
        self._taker = Taker(engine, segments, database, slots=slots)
        self._active.counts = Counts()
        self.meter = Meter(engine, database, self._taker, self._active.counts)
        self._version = version
        self._poll = poll
        self._interval = interval
        self._seen_at = self._trusted_at = -float("inf")
        self._looks = 0
        self._ended: set[str] = set()
        """What had ended at the last read of run owners, and the engine says still runs."""
        self.id = engine.find_host() or make_worker_id()
        self._lock: Lock = make_lock(database, self.id)
        self._news = anyio.Event()
        """Is set when runs have changed since the last look for work."""

    @property
    def is_ready(self) -> bool:
        """Whether it takes runs, and has lately reached the database."""
        recent = time.monotonic() - self._seen_at < max(5.0, 3 * self._interval)
        return recent and not self._segments.is_draining

    @asynccontextmanager
    async def running(self, drain_seconds: float) -> AsyncGenerator[None]:
        """Run segments inside; at the end, let running ones reach their turn's end."""
        if not await to_thread.run_sync(self._lock.take):
            raise HandrailError(
                f"Another worker has the id {self.id!r}. Give each process its own `executor_id`."
            )
        await self._rows.add_worker(self.id, self._version)
        self._segments.is_draining = self._segments.is_clearing = False
        self._active.gate = Gate()
        try:
            await self._engine.launch(self._segments.run, self._calls.run, self.id)
        except BaseException:
            self._lock.release()
            raise
        failed: list[Exception] = []
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._repeat, self.look, partial(anyio.sleep, self._interval))
                group.start_soon(self._repeat, self._taker.look, self._wait_for_news)
                group.start_soon(watch, self._database, self._note_news)
                try:
                    yield
                except Exception as error:  # noqa: BLE001  raised below, outside of the group
                    failed.append(error)
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._stop(drain_seconds, None if failed else self._end_process)
        if failed:
            raise failed[0]

    async def _stop(
        self, drain_seconds: float, end_process: Callable[[int], object] | None
    ) -> None:
        """Let local work end, and release the lock: never while a call runs.

        A plain function runs in a thread, which cannot be stopped, also after its call has timed
        out. With a free lock, another worker would run its call too, report its end, or begin one
        which must not run at the same time.
        """
        async with anyio.create_task_group() as group:
            group.start_soon(self._hold)
            self._segments.is_draining = True
            with suppress(Exception), anyio.move_on_after(_FAREWELL_SECONDS):
                await self._engine.excuse(self.id)
            await self._drain(drain_seconds, end_process)
            with anyio.move_on_after(_FAREWELL_SECONDS):
                await self._segments.live.flush()
            group.cancel_scope.cancel()
        with suppress(Exception), anyio.move_on_after(_FAREWELL_SECONDS):
            await self._engine.recover(self.id)
            await self._rows.remove_worker(self.id)  # else others see its absence, and why
        await self._taker.release()
        await to_thread.run_sync(self._lock.release)

    async def _drain(
        self, drain_seconds: float, end_process: Callable[[int], object] | None
    ) -> None:
        gate, until = self._active.gate, time.monotonic() + drain_seconds
        await self._engine.drain(drain_seconds if len(self._active) else 0)
        gate.close()
        is_idle = await gate.wait(max(0.0, until - time.monotonic()) + GRACE_SECONDS)
        if end_process is not None and (len(self._active) or not is_idle):
            end_process(gate.calls)
        if not is_idle:
            log.warning("%d calls still run: the worker %s waits for them", gate.calls, self.id)
            await gate.wait(math.inf)

    async def _hold(self) -> None:
        """Keep the lock, also if the database restarts, and stop cancelled runs."""
        while True:
            with suppress(Exception):  # the next try may reach it
                await self._keep_lock()
                await self._active.stop_cancelled()
            await anyio.sleep(self._interval)

    def _note_news(self) -> None:
        self._news.set()

    async def _wait_for_news(self) -> None:
        """Wait until runs have changed, or for the pause between two looks for work."""
        with anyio.move_on_after(self._poll):
            await self._news.wait()
        self._news = anyio.Event()

    async def _repeat(
        self, look: Callable[[], Awaitable[None]], wait: Callable[[], Awaitable[None]]
    ) -> None:
        """Look again and again. An outage is reported once."""
        is_away = False
        while True:
            try:
                await look()
                is_away = False
            except DatabaseAway as error:
                if not is_away:
                    log.warning("a worker of durable runs waits for the database: %s", error)
                is_away = True
            except Exception:
                log.exception("a worker of durable runs could not read the database")
            await wait()

    async def look(self) -> None:
        """Take over dead workers' runs, and wake runs whose answer woke no one."""
        await self._keep_lock()
        if time.monotonic() >= self._trusted_at:
            for other in await self._find_others():
                await self._take_over(other)
        for run, number in await self._questions.answered():
            await self._swept.wake(run, number)
        await self._active.stop_cancelled()
        if self._looks % _SWEEP == 0:
            await self._requeue_ended()
            await self._note_given_up()
            await self._rows.drop_pieces()
            await self.meter.refresh()
        self._seen_at = time.monotonic()

    async def _requeue_ended(self) -> None:
        """Queue again what has ended here without the engine's record, as on a full disk.

        It runs again from its records, and does nothing a second time. The engine gets the time
        until the next read to write an end.
        """
        known = {*self._engine.taken, *self._active.ids}
        ended = set(await self._engine.owned(self.id)) - known - set(self._engine.taken)
        for id_ in ended & self._ended:
            log.warning("%s is queued again: its end could not be written", id_)
            await self._engine.delay(id_, 0.0)
        self._ended = ended - self._ended

    async def _note_given_up(self) -> None:
        """Record failures for runs whose segment was given up."""
        for run, number, why in await self._engine.given_up():
            await self._swept.give_up(run, number, why)

    async def _keep_lock(self) -> None:
        """Acquire the own lock again after its loss, such as by a database restart.

        The other workers have then lost theirs too. They get time to take them.
        """
        if await to_thread.run_sync(self._lock.is_held):
            return
        self._trusted_at = time.monotonic() + 2 * self._interval + 0.5
        if await to_thread.run_sync(self._lock.take):
            await self._rows.add_worker(self.id, self._version)
            self._active.stop_others(await self._engine.owned(self.id))

    async def _find_others(self) -> set[str]:
        """Return the other workers. Now and then, also those no longer recorded.

        A worker taken for dead can come back, begin a run, and die.
        """
        found = set(await self._rows.workers_of(self._version))
        self._looks += 1
        if self._looks % _SWEEP == 0:
            found |= set(await self._engine.owners())
        return found - {self.id}

    async def _take_over(self, other: str) -> None:
        """Queue a worker's runs again if its lock is free: then it is dead."""
        lock = make_lock(self._database, other)
        if not await to_thread.run_sync(lock.take):
            return
        try:
            if not await to_thread.run_sync(self._lock.is_held):
                return  # the database restarted since the last look, and took all locks
            count = await self._engine.recover(other)
            self._active.counts.takeovers += 1
            self._active.counts.taken_over += count
            await self._rows.remove_worker(other)
            log.warning("the worker %s died: %d of its runs continue", other, count)
            await self._note_given_up()
        finally:
            await to_thread.run_sync(lock.release)
