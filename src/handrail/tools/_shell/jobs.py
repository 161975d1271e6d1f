"""Background jobs: commands running until they end, are stopped, or the executor closes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, Self

import anyio
from anyio import to_thread

from handrail import READ, WRITE, Access, Tool, ToolFailed, tool
from handrail.sandbox import Process, SandboxUnavailable
from handrail.tools._descriptions import READ_JOB_DESCRIPTION, STOP_JOB_DESCRIPTION
from handrail.tools._habits import READ_JOB_INSTEAD_OF, STOP_JOB_INSTEAD_OF
from handrail.tools._shell.foreground import Foreground
from handrail.tools._shell.head_and_tail import drop_partial_character
from handrail.tools._shell.terminal_text import clean_output

_MAX_WAIT_MS = 600_000
_MAX_PAGE_BYTES = 20_000
"""Bytes of a job's output in one result."""
_MAX_LINE_BYTES = 1_000
"""Bytes at the end of a job's output, of which the last line is shown."""
_MAX_COMMAND_CHARS = 60
_SIGNALS = {int(number): number.name for number in signal.Signals}


class JobOutput(NamedTuple):
    """A page of a job's output."""

    page: bytes
    dropped: int
    """Bytes before it that were not kept."""
    cursor: int
    """Where the next page starts."""
    more: bool


class JobStatus(NamedTuple):
    """A background job at one moment, for a user interface."""

    number: int
    command: str
    seconds: float
    """How long it has run."""
    ending: str
    """How it ended, such as "exit code 0" or "stopped"; empty while it runs."""
    last_line: str
    """The last line of its output that is not empty."""


class Job:
    """One command in the background. Its own thread collects the output; any thread can read it."""

    def __init__(
        self, number: int, command: str, max_output_bytes: int, output: bytes = b""
    ) -> None:
        self.number = number
        self.command = command
        self.began = time.monotonic()
        self.seconds: float | None = None
        """How long it ran; None while it runs."""
        self.code: int | None = None
        """Negative for a signal; None while it runs, and if it was stopped."""
        self.note = ""
        """The scan's note after its end."""
        self.cursor = 0
        """The byte offset after what was read."""
        self.awaited = 0
        """The same, without what was read when it started: a text is often awaited right then."""
        self._changed = threading.Condition()
        """Signals new output or the end, and guards this state."""
        self._max_output_bytes = max_output_bytes
        self._output = bytearray(output)
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
                if len(self._output) > 2 * kept:  # not at every piece, so it costs little
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

    def wait(self, seconds: float | None, *, until: str = "") -> None:
        """Wait for its end, or for output with this text after what was awaited. Blocks."""
        text, start = until.encode(errors="replace"), self.awaited

        def found() -> bool:
            nonlocal start
            has = self._output.find(text, max(0, start - self._dropped)) >= 0
            start = max(start, self.total - len(text))  # the text may come in two pieces
            return has

        with self._changed:
            self._changed.wait_for(lambda: self.over or (bool(text) and found()), seconds)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.seconds is not None

    @property
    def total(self) -> int:
        """The number of bytes it has printed."""
        return self._dropped + len(self._output)

    def read(self, since: int) -> JobOutput:
        """Return a page of the output: after a byte offset; below 0, what was not read yet."""
        with self._changed:
            wanted = self.cursor if since < 0 else since
            start = min(max(wanted, self._dropped), self.total)
            page = bytes(self._output[start - self._dropped :][:_MAX_PAGE_BYTES])
            more = self.total - start > _MAX_PAGE_BYTES
            whole = page.rfind(b"\n") + 1
            if more:
                page = page[:whole] if whole else drop_partial_character(page)
            elif not self.over:  # the beginning of a line is shown, and again when it is complete
                page = drop_partial_character(page)
            ends = len(page) if more or self.over else whole
            self.cursor = start + ends
            return JobOutput(page, start - min(wanted, start), self.cursor, more)

    @property
    def status(self) -> JobStatus:
        """The job at this moment."""
        with self._changed:
            tail, seconds = bytes(self._output[-_MAX_LINE_BYTES:]), self.seconds
        lines = [line for line in clean_output(tail).splitlines() if line.strip()]
        ran = time.monotonic() - self.began if seconds is None else seconds
        ending = "" if seconds is None else describe_exit(self.code)
        return JobStatus(self.number, self.command, ran, ending, lines[-1] if lines else "")

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
        max_output_bytes: Bytes of the latest output kept of each job.
    """

    def __init__(self, *, max_running: int = 8, max_output_bytes: int = 262_144) -> None:
        self._max_running = max_running
        self._max_output_bytes = max_output_bytes
        self._all: dict[int, Job] = {}
        self._last = 0
        self._foreground: list[Foreground] = []
        """The commands others wait for, the longest one first."""

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
        output: bytes = b"",
    ) -> Job:
        """Start a job. ``ended`` is called after its end, and returns a note for the model.

        ``output`` is what it printed already, if it was a command in the foreground.
        """
        if len(self._running()) >= self._max_running:
            raise ToolFailed(
                f"Not started: at most {self._max_running} jobs can run. Stop one with stop_job "
                f"first. {self.describe()}"
            )
        self._last += 1
        job = Job(self._last, command, self._max_output_bytes, output)
        await to_thread.run_sync(job.run, start, ended)
        self._all[job.number] = job
        self._forget_old()

        async def stop() -> None:
            await to_thread.run_sync(job.stop)

        on_close(stop)
        return job

    @contextmanager
    def foreground(self) -> Generator[Foreground]:
        """List a foreground command until the end of the block."""
        one = Foreground()
        self._foreground.append(one)
        try:
            yield one
        finally:
            self._foreground.remove(one)

    def move_to_background(self) -> bool:
        """Let the longest-running command continue as a job. Return whether there is one.

        Its call then returns. Call this in the thread of the executor's event loop.
        """
        if not self._foreground or len(self._running()) >= self._max_running:
            return False
        self._foreground[0].move()
        return True

    def get(self, number: int) -> Job:
        """Return a job by its number. Raises ToolFailed if there is none."""
        job = self._all.get(number)
        if job is None:
            raise ToolFailed(f"There is no job {number}. {self.describe()}")
        return job

    def statuses(self) -> tuple[JobStatus, ...]:
        """Return the jobs that run, and the last that have ended, for a user interface.

        Any thread can call this.
        """
        return tuple([job.status for job in [*self._all.values()]])

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


def format_output(job: Job, since: int = -1) -> str:
    """Return a job's unread output, its state, and the next offset."""
    first = (job.cursor if since < 0 else since) == 0
    output = job.read(since)
    dropped = f"[{output.dropped:,} earlier bytes were dropped.]\n" if output.dropped else ""
    text = clean_output(output.page).rstrip("\n") or ("(no output)" if first else "(no new output)")
    more = " There is more." if output.more else ""
    state = f"[job {job.number}, {job.state}. Next: since={output.cursor}.{more}]"
    return f"{dropped}{text}{job.note}\n{state}"


def read_job(jobs: Jobs) -> Tool[..., Any]:
    """Make a tool that reads a job's output."""

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
    async def read_job(job: int, wait_ms: int = 0, until: str = "", since: int = -1) -> str:
        """Read the output of a job.

        Args:
            job: Number of the job.
            wait_ms: Milliseconds to wait for the end of the job, at most 600000.
            until: Text that ends the wait, such as "Listening on".
            since: Byte offset to start at; -1 for what you have not read yet.
        """
        background_job = jobs.get(job)
        if wait_ms > 0:
            wait = partial(background_job.wait, min(wait_ms, _MAX_WAIT_MS) / 1000, until=until)
            await to_thread.run_sync(wait, abandon_on_cancel=True)
        text = format_output(background_job, since)
        background_job.awaited = background_job.cursor
        return text

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
