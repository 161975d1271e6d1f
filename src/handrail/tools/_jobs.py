"""Jobs: commands that go on while other calls run, until they end, are stopped, or all ends."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Self

import anyio
from anyio import to_thread

from handrail import READ, WRITE, Access, Tool, ToolFailed, tool
from handrail.sandbox import Running, Unavailable
from handrail.tools._collect import whole
from handrail.tools._screen import screened

MOST_WAIT_MS = 30_000
_MOST_SHOWN = 20_000
"""Bytes of a job's output that are given at once."""
_SHOWN_OF_A_LINE = 60
_SIGNALS = {int(one): one.name for one in signal.Signals}


class Job:
    """One command in the background. It is heard in a thread of its own, and read from any."""

    def __init__(self, number: int, command: str, kept: int) -> None:
        self.number = number
        self.command = command
        self.began = time.monotonic()
        self.seconds: float | None = None
        """How long it ran; None while it does."""
        self.code: int | None = None
        """Negative for a signal; None while it runs, and where it was stopped."""
        self.remark = ""
        """What is to be said of it, now that it has ended."""
        self._changed = threading.Condition()
        """It has said something more, or has ended. Holds all of this together, too."""
        self._kept = kept
        self._said = bytearray()
        self._dropped = 0
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Rung to stop it, from any thread, and without a wait for anybody."""

    def run(self, start: Callable[[], Running], ended: Callable[[], Awaitable[str]]) -> None:
        """Start it, in a thread that ends with it. Raises what starting it raises."""
        started: Future[None] = Future()
        work = partial(anyio.run, partial(self._run, start, ended, started))
        threading.Thread(target=work, name=f"handrail-job-{self.number}", daemon=True).start()
        started.result()

    async def _run(
        self,
        start: Callable[[], Running],
        ended: Callable[[], Awaitable[str]],
        started: Future[None],
    ) -> None:
        try:
            running = start()
        except BaseException as error:  # noqa: BLE001  for whoever waits for it
            os.close(self._bell)
            started.set_exception(error)
            return
        started.set_result(None)
        code = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._until_rung, group.cancel_scope)
            code = await self._hear(running)
            group.cancel_scope.cancel()
        await running.end()
        self._end(code, await ended())

    async def _until_rung(self, scope: anyio.CancelScope) -> None:
        await anyio.wait_readable(self._bell)
        scope.cancel()

    async def _hear(self, running: Running) -> int | None:
        """How it ended; None where its sandbox could not be set up: it has said why."""
        while piece := await running.read():
            with self._changed:
                self._said += piece
                if len(self._said) > 2 * self._kept:  # now and then, so that it costs little
                    self._dropped += len(self._said) - self._kept
                    del self._said[: -self._kept]
                self._changed.notify_all()
        with suppress(Unavailable):
            return await running.wait()
        return None

    def _end(self, code: int | None, remark: str) -> None:
        with self._changed:
            self.code, self.remark = code, remark
            self.seconds = time.monotonic() - self.began
            os.close(self._bell)
            self._changed.notify_all()

    def stop(self) -> None:
        """End it, and wait until nothing of it is left. Not for the thread of an event loop."""
        with self._changed:
            if not self.over:
                os.eventfd_write(self._bell, 1)
        self.wait(None)

    def wait(self, seconds: float | None, *, since: float = math.inf) -> None:
        """Wait for its end, or until it has said more than this. Not for an event loop either."""
        with self._changed:
            self._changed.wait_for(lambda: self.over or self.total > since, seconds)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.seconds is not None

    @property
    def total(self) -> int:
        """Bytes that it has said."""
        return self._dropped + len(self._said)

    def since(self, cursor: int) -> tuple[int, bytes, bool]:
        """Where what is kept begins, at or after a cursor; a page of it; whether there is more."""
        with self._changed:
            start = min(max(cursor, self._dropped), self.total)
            page = bytes(self._said[start - self._dropped :][:_MOST_SHOWN])
            more = self.total - start > _MOST_SHOWN
        if self.over and not more:
            return start, page, more
        cut = page.rfind(b"\n") + 1
        return start, page[:cut] if cut else whole(page), more

    @property
    def state(self) -> str:
        """How it is, in a few words."""
        if self.seconds is None:
            return f"running for {int(time.monotonic() - self.began)} s"
        return f"{ending(self.code)} after {self.seconds:.1f} s"


class Jobs:
    """The jobs of one agent. Each ends with the executor that started it, or with this block.

    Args:
        most: How many may run at once.
        kept: Bytes of the latest output that are kept of each.
    """

    def __init__(self, *, most: int = 8, kept: int = 262_144) -> None:
        self._most = most
        self._kept = kept
        self._all: dict[int, Job] = {}
        self._last = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def end(self) -> None:
        """Stop all jobs that are running."""
        with anyio.CancelScope(shield=True):
            for job in self._running():
                await to_thread.run_sync(job.stop)

    async def start(
        self,
        command: str,
        start: Callable[[], Running],
        *,
        ended: Callable[[], Awaitable[str]],
        at_close: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> Job:
        """Start a job. ``ended`` is called when it has ended, and says what there is to remark."""
        if len(self._running()) >= self._most:
            raise ToolFailed(
                f"{self._most} jobs are running, and no more can. Stop one with stop_job first. "
                f"{self.listed()}"
            )
        self._last += 1
        job = Job(self._last, command, self._kept)
        await to_thread.run_sync(job.run, start, ended)
        self._all[job.number] = job
        self._forget_old()

        async def stop() -> None:
            await to_thread.run_sync(job.stop)

        at_close(stop)
        return job

    def get(self, number: int) -> Job:
        """A job by its number."""
        job = self._all.get(number)
        if job is None:
            raise ToolFailed(f"There is no job {number}. {self.listed()}")
        return job

    def listed(self) -> str:
        """All jobs, a line each."""
        lines = [f"\njob {one.number}, {one.state}: {_short(one)}" for one in self._all.values()]
        return f"The jobs are:{''.join(lines)}" if lines else "No job was started."

    def _running(self) -> list[Job]:
        return [one for one in self._all.values() if not one.over]

    def _forget_old(self) -> None:
        over = [one.number for one in self._all.values() if one.over]
        for number in over[: max(0, len(over) - self._most)]:
            del self._all[number]


def ending(code: int | None) -> str:
    """How a command ended, in a few words."""
    if code is None:
        return "stopped"
    if code < 0:
        return f"ended by {_SIGNALS.get(-code, f'signal {-code}')}"
    told = _SIGNALS.get(code - 128)  # as shells tell it
    return f"exit code {code}" + (f", as after {told}" if told else "")


def _short(job: Job) -> str:
    line = " ".join(job.command.split())
    return line if len(line) <= _SHOWN_OF_A_LINE else f"{line[:_SHOWN_OF_A_LINE]}..."


def heard(job: Job, since: int) -> str:
    """What a job has said since a cursor, how it is, and where to go on."""
    since = max(0, since)
    start, said, rest = job.since(since)
    dropped = f"[{start - since:,} bytes before this were not kept.]\n" if start > since else ""
    text = screened(said).rstrip("\n") or f"(It has said nothing{' more' if since else ''}.)"
    more = " There is more." if rest else ""
    state = f"[job {job.number}, {job.state}. Next: since {start + len(said)}.{more}]"
    return f"{dropped}{text}{job.remark}\n{state}"


def read_job(jobs: Jobs) -> Tool[..., Any]:
    """A tool that reads what a job has said."""

    def touches(job: int, **_: object) -> Access:
        return Access(READ, f"job:{job}")

    @tool(effect=READ, touches=touches, timeout=MOST_WAIT_MS / 1000 + 10, max_chars=30_000)
    async def read_job(job: int, since: int = 0, wait_ms: int = 0) -> str:
        """Read the output of a job that bash started with background, and whether it still runs.

        Use wait_ms rather than calling again and again. It is not for commands that bash ran in
        the foreground: their result has all they said.

        Args:
            job: The number of the job.
            since: Where to begin, as the last result said; 0 for the beginning.
            wait_ms: How long to wait for more output or for the end, at most 30000.
        """
        found = jobs.get(job)
        if wait_ms > 0:
            wait = partial(found.wait, min(wait_ms, MOST_WAIT_MS) / 1000, since=since)
            await to_thread.run_sync(wait, abandon_on_cancel=True)
        return heard(found, since)

    return read_job


def stop_job(jobs: Jobs) -> Tool[..., Any]:
    """A tool that ends a job."""

    def touches(job: int, **_: object) -> Access:
        return Access(WRITE, f"job:{job}")

    @tool(effect=WRITE, touches=touches, idempotent=True, timeout=30.0, max_chars=30_000)
    async def stop_job(job: int) -> str:
        """End a job that bash started with background, and everything that it started.

        It is not needed for commands in the foreground: nothing is left of those.

        Args:
            job: The number of the job.
        """
        found = jobs.get(job)
        if found.over:
            return f"Job {job} had ended already: {found.state}."
        await to_thread.run_sync(found.stop)
        return f"Job {job} is stopped, and nothing of it is left.{found.remark}"

    return stop_job
