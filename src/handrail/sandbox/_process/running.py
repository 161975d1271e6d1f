"""A running command: its output, its exit code, and killing every process it started."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

MAX_NOTE_BYTES = 1 << 18
"""Bytes stored from a command's notes. The rest is read and dropped."""
_CHUNK_BYTES = 1 << 16


class PipeReader:
    """The reading end of a pipe other processes may hold open indefinitely."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.buffer = bytearray()
        self.ended = False

    def take(self, max_bytes: int) -> bytes | None:
        """Return the available bytes: `b""` at the end, None if there may be more later."""
        if self.buffer or self.ended:
            piece = bytes(self.buffer[:max_bytes])
            del self.buffer[:max_bytes]
            return piece
        return self._read(max_bytes)

    def gather(self, max_bytes: int) -> bool:
        """Drain available bytes to keep the writer from blocking. Return whether it ended."""
        while not self.ended and (more := self._read(_CHUNK_BYTES)):
            self.buffer += more[: max(0, max_bytes - len(self.buffer))]
        return self.ended

    def close(self, max_bytes: int) -> None:
        """Buffer the remaining bytes in a pipe without writers, and close it."""
        self.gather(max_bytes)
        os.close(self.fd)
        self.ended = True

    def _read(self, max_bytes: int) -> bytes | None:
        try:
            piece = os.read(self.fd, max_bytes)
        except BlockingIOError:
            return None
        self.ended = not piece
        return piece


class Process:
    """A program in the sandbox. Always call `kill` when you are done with it."""

    def __init__(  # noqa: PLR0913  what a tier made for it
        self,
        process: subprocess.Popen[bytes],
        *,
        output: PipeReader,
        notes: PipeReader | None = None,
        source: int | None = None,
        clear: Callable[[], Awaitable[None]],
        code: Callable[[int], int] = int,
        refused: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self.pid = process.pid
        self.refused_hosts = refused
        """Returns the closed hosts it tried to reach, only if some are open."""
        self._process = process
        self._output = output
        self._notes = notes
        self._source = source
        if source is not None:
            os.set_blocking(source, False)
        self._clear = clear
        self._exit_code = code
        self._exit = os.pidfd_open(process.pid)
        self._quiet = _poll_any(self._exit, notes)
        self._loud = _poll_any(self._exit, notes, output)
        self._ending = anyio.Lock()
        self._killed = False
        self._closed = False

    async def read(self, max_bytes: int = _CHUNK_BYTES) -> bytes:
        """Return some output, or `b""` at the end.

        The output ends with the stream. It also ends when the program has ended and the stream is
        empty, even if a process it started still holds the stream open.
        """
        while True:
            over = self._has_ended()  # checked first, to include the last output
            piece = self._output.take(max_bytes)
            if piece is not None or over:
                await anyio.lowlevel.checkpoint()
                return piece or b""
            await self._wait_for(self._loud)

    async def wait(self) -> int:
        """Wait for the end and return the exit code, negative for a signal, as after `kill`.

        In bubblewrap, a shell ended by a signal has the code 128 plus the signal's number.

        Raises:
            SandboxUnavailable: The sandbox could not be set up. Its error is in the output.
        """
        while not self._has_ended():
            await self._wait_for(self._quiet)
        return -signal.SIGKILL if self._killed else self._exit_code(self._process.returncode)

    def notes(self) -> bytes:
        """Return what it wrote to its second stream: file descriptor 3, or its standard error."""
        if self._notes is None:
            return b""
        self._has_ended()
        return bytes(self._notes.buffer)

    def take_notes(self) -> bytes:
        """Return what `notes` would, and forget it."""
        taken = self.notes()
        if self._notes is not None:
            self._notes.buffer.clear()
        return taken

    async def send(self, content: bytes) -> None:
        """Write to its standard input. Raises BrokenPipeError if it has closed it, or ended."""
        rest = memoryview(content)
        while rest:
            if self._source is None:
                raise BrokenPipeError
            try:
                rest = rest[os.write(self._source, rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._source)

    def close_input(self) -> None:
        """End its standard input. Safe to repeat."""
        if self._source is not None:
            os.close(self._source)
            self._source = None

    async def kill(self) -> None:
        """Kill its remaining processes and wait for them. Ignores cancellation. Safe to repeat.

        Its last output can still be read.
        """
        with anyio.CancelScope(shield=True):
            async with self._ending:
                if not self._closed:
                    self._killed = not self._has_ended()
                    await self._clear()
                    self._process.wait()
                    self._close()

    async def _wait_for(self, either: select.epoll) -> None:
        """Wait until a descriptor is readable. Several tasks may wait, each with its descriptors.

        With its own descriptor for the exit, a task also wakes if `kill` closes the others first.
        """
        own, exit_ = os.dup(either.fileno()), os.dup(self._exit)
        try:
            await anyio.wait_readable(own)
        finally:
            os.close(own)
            os.close(exit_)

    def _has_ended(self) -> bool:
        """Return whether it has ended. Also drains the second stream, to keep it from blocking."""
        notes = self._notes
        if notes is not None and not notes.ended and notes.gather(MAX_NOTE_BYTES):
            self._quiet.unregister(notes.fd)
            self._loud.unregister(notes.fd)
        return self._process.poll() is not None

    def _close(self) -> None:
        self._closed = True
        self.close_input()
        self._quiet.close()
        self._loud.close()
        os.close(self._exit)
        self._output.close(1 << 20)
        if self._notes is not None:
            self._notes.close(MAX_NOTE_BYTES)


def _poll_any(exit_: int, *streams: PipeReader | None) -> select.epoll:
    """Return a file descriptor readable when any of these is."""
    either = select.epoll()
    either.register(exit_, select.EPOLLIN)
    for stream in streams:
        if stream is not None:
            either.register(stream.fd, select.EPOLLIN)
    return either
