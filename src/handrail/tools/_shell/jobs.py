"""Background jobs: commands that run until they end, are stopped, or the executor closes."""

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
from handrail.sandbox import Process, SandboxUnavailable
from handrail.tools._descriptions import READ_JOB_DESCRIPTION, STOP_JOB_DESCRIPTION
from handrail.tools._habits import READ_JOB_INSTEAD_OF, STOP_JOB_INSTEAD_OF
from handrail.tools._shell.head_and_tail import drop_partial_character
from handrail.tools._shell.terminal_text import clean_output

_MAX_WAIT_MS = 30_000
_MAX_PAGE_BYTES = 20_000
"""Bytes of a job's output in one result."""
_MAX_COMMAND_CHARS = 60
_SIGNALS = {int(number): number.name for number in signal.Signals}


class Job:
    """One command in the background. Its own thread collects the output; any thread can read it."""

    def __init__(self, number: int, command: str, max_output_bytes: int) -> None:
        self.number = number
        self.command = command
        self.began = time.monotonic()
        self.seconds: float | None = None
        """How long it ran; None while it runs."""
        self.code: int | None = None
        """Negative for a signal; None while it runs, and if it was stopped."""
        self.note = ""
        """The note of the scan after its end."""
        self._changed = threading.Condition()
        """Signals new output or the end, and guards this state."""
        self._max_output_bytes = max_output_bytes
        self._output = bytearray()
        self._dropped = 0
        self._stop_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Written to stop it, from any thread and without waiting."""

    def run(self, start: Callable[[], Process], ended: Callable[[], Awaitable[str]]) -> None:
        """Start it in a thread that ends with it. Raises what ``start`` raises."""
        started: Future[None] = Future()
        work = partial(anyio.run, partial(self._run, start, ended, started))
        threading.Thread(target=work, name=f"handrail-job-{self.number}", daemon=True).start()
        started.result()

    async def _run(
        self,
        start: Callable[[], Process],
        ended: Callable[[], Awaitable[str]],
        started: Future[None],
    ) -> None:
        try:
            running = start()
        except BaseException as error:  # noqa: BLE001  raised in the thread that waits
            os.close(self._stop_fd)
            started.set_exception(error)
            return
        started.set_result(None)
        code = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._cancel_when_stopped, group.cancel_scope)
            code = await self._collect_output(running)
            group.cancel_scope.cancel()
        await running.kill()
        self._end(code, await ended())

    async def _cancel_when_stopped(self, scope: anyio.CancelScope) -> None:
        await anyio.wait_readable(self._stop_fd)
        scope.cancel()

    async def _collect_output(self, running: Process) -> int | None:
        """Return the exit code; None if the sandbox could not be set up, as the output says."""
        kept = self._max_output_bytes
        while piece := await running.read():
            with self._changed:
                self._output += piece
                if len(self._output) > 2 * kept:  # not at every piece, so that it costs little
                    self._dropped += len(self._output) - kept
                    del self._output[:-kept]
                self._changed.notify_all()
        with suppress(SandboxUnavailable):
            return await running.wait()
        return None

    def _end(self, code: int | None, note: str) -> None:
        with self._changed:
            self.code, self.note = code, note
            self.seconds = time.monotonic() - self.began
            os.close(self._stop_fd)
            self._changed.notify_all()

    def stop(self) -> None:
        """Stop it, and wait until no process of it is left. Blocks."""
        with self._changed:
            if not self.over:
                os.eventfd_write(self._stop_fd, 1)
        self.wait(None)

    def wait(self, seconds: float | None, *, since: float = math.inf) -> None:
        """Wait for its end, or for output after a byte offset. Blocks."""
        with self._changed:
            self._changed.wait_for(lambda: self.over or self.total > since, seconds)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.seconds is not None

    @property
    def total(self) -> int:
        """The number of bytes it has printed."""
        return self._dropped + len(self._output)

    def since(self, cursor: int) -> tuple[int, bytes, bool]:
        """Return the offset of the output after a cursor, a page of it, and if there is more."""
        with self._changed:
            start = min(max(cursor, self._dropped), self.total)
            page = bytes(self._output[start - self._dropped :][:_MAX_PAGE_BYTES])
            more = self.total - start > _MAX_PAGE_BYTES
        if self.over and not more:
            return start, page, more
        cut = page.rfind(b"\n") + 1
        return start, page[:cut] if cut else drop_partial_character(page), more

    @property
    def state(self) -> str:
        """The state in a few words."""
        if self.seconds is None:
            return f"running for {int(time.monotonic() - self.began)} s"
        return f"{describe_exit(self.code)} after {self.seconds:.1f} s"


class Jobs:
    """The background jobs of one agent. They end with their executor, or with this context.

    Args:
        max_running: The number of jobs that can run at once.
        max_output_bytes: Bytes of the latest output that are kept of each job.
    """

    def __init__(self, *, max_running: int = 8, max_output_bytes: int = 262_144) -> None:
        self._max_running = max_running
        self._max_output_bytes = max_output_bytes
        self._all: dict[int, Job] = {}
        self._last = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def end(self) -> None:
        """Stop all running jobs."""
        with anyio.CancelScope(shield=True):
            for job in self._running():
                await to_thread.run_sync(job.stop)

    async def start(
        self,
        command: str,
        start: Callable[[], Process],
        *,
        ended: Callable[[], Awaitable[str]],
        on_close: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> Job:
        """Start a job. ``ended`` is called after its end, and returns a note for the model."""
        if len(self._running()) >= self._max_running:
            raise ToolFailed(
                f"Not started: at most {self._max_running} jobs can run. Stop one with stop_job "
                f"first. {self.describe()}"
            )
        self._last += 1
        job = Job(self._last, command, self._max_output_bytes)
        await to_thread.run_sync(job.run, start, ended)
        self._all[job.number] = job
        self._forget_old()

        async def stop() -> None:
            await to_thread.run_sync(job.stop)

        on_close(stop)
        return job

    def get(self, number: int) -> Job:
        """Return a job by its number. Raises ToolFailed if there is none."""
        job = self._all.get(number)
        if job is None:
            raise ToolFailed(f"There is no job {number}. {self.describe()}")
        return job

    def describe(self) -> str:
        """Describe all jobs, one per line."""
        lines = [
            f"\njob {job.number}, {job.state}: {_shorten_command(job)}"
            for job in self._all.values()
        ]
        return f"Jobs:{''.join(lines)}" if lines else "No job was started."

    def _running(self) -> list[Job]:
        return [job for job in self._all.values() if not job.over]

    def _forget_old(self) -> None:
        over = [job.number for job in self._all.values() if job.over]
        for number in over[: max(0, len(over) - self._max_running)]:
            del self._all[number]


def describe_exit(code: int | None) -> str:
    """Return how a command ended, in a few words."""
    if code is None:
        return "stopped"
    if code < 0:
        return f"killed by {_SIGNALS.get(-code, f'signal {-code}')}"
    name = _SIGNALS.get(code - 128)  # a shell's convention
    return f"exit code {code}" + (f" ({name})" if name else "")


def _shorten_command(job: Job) -> str:
    line = " ".join(job.command.split())
    return line if len(line) <= _MAX_COMMAND_CHARS else f"{line[:_MAX_COMMAND_CHARS]}..."


def format_output(job: Job, since: int) -> str:
    """Return the output of a job after a cursor, its state, and the next cursor."""
    since = max(0, since)
    start, output, rest = job.since(since)
    dropped = f"[{start - since:,} earlier bytes were dropped.]\n" if start > since else ""
    text = clean_output(output).rstrip("\n") or ("(no new output)" if since else "(no output)")
    more = " There is more." if rest else ""
    state = f"[job {job.number}, {job.state}. Next: since={start + len(output)}.{more}]"
    return f"{dropped}{text}{job.note}\n{state}"


def read_job(jobs: Jobs) -> Tool[..., Any]:
    """Make a tool that reads the output of a job."""

    def touches(job: int, **_: object) -> Access:
        return Access(READ, f"job:{job}")

    @tool(
        description=READ_JOB_DESCRIPTION,
        effect=READ,
        touches=touches,
        timeout=_MAX_WAIT_MS / 1000 + 10,
        max_chars=30_000,
        instead_of=READ_JOB_INSTEAD_OF,
    )
    async def read_job(job: int, since: int = 0, wait_ms: int = 0) -> str:
        """Read the output of a job.

        Args:
            job: Number of the job.
            since: Byte offset to start at, from the last result; 0 for the beginning.
            wait_ms: Milliseconds to wait for new output or the end, at most 30000.
        """
        background_job = jobs.get(job)
        if wait_ms > 0:
            wait = partial(background_job.wait, min(wait_ms, _MAX_WAIT_MS) / 1000, since=since)
            await to_thread.run_sync(wait, abandon_on_cancel=True)
        return format_output(background_job, since)

    return read_job


def stop_job(jobs: Jobs) -> Tool[..., Any]:
    """Make a tool that stops a job."""

    def touches(job: int, **_: object) -> Access:
        return Access(WRITE, f"job:{job}")

    @tool(
        description=STOP_JOB_DESCRIPTION,
        effect=WRITE,
        touches=touches,
        idempotent=True,
        timeout=30.0,
        max_chars=30_000,
        instead_of=STOP_JOB_INSTEAD_OF,
    )
    async def stop_job(job: int) -> str:
        """Stop a job.

        Args:
            job: Number of the job.
        """
        background_job = jobs.get(job)
        if background_job.over:
            return f"Job {job} had already ended: {background_job.state}."
        await to_thread.run_sync(background_job.stop)
        return f"Job {job} was stopped, with every process it started.{background_job.note}"

    return stop_job
