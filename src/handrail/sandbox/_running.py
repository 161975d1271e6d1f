"""A command under way: what it says, how it ended, and its end with all that it started."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

MOST_NOTES = 1 << 18
"""Bytes that are kept of what a command notes; the rest is read, and dropped."""
_PIECE = 1 << 16


class Stream:
    """The reading end of a pipe that others may hold open for as long as they like."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.kept = bytearray()
        self.ended = False

    def take(self, most: int) -> bytes | None:
        """What is there now: `b""` at the end, None if there may be more later."""
        if self.kept or self.ended:
            found = bytes(self.kept[:most])
            del self.kept[:most]
            return found
        return self._read(most)

    def gather(self, most: int) -> bool:
        """Keep what is there now, so that whoever writes need not wait; whether that was all."""
        while not self.ended and (more := self._read(_PIECE)):
            self.kept += more[: max(0, most - len(self.kept))]
        return self.ended

    def close(self, most: int) -> None:
        """Keep what is in the pipe, which nobody fills any more, and let go of it."""
        self.gather(most)
        os.close(self.fd)
        self.ended = True

    def _read(self, most: int) -> bytes | None:
        try:
            found = os.read(self.fd, most)
        except BlockingIOError:
            return None
        self.ended = not found
        return found


class Running:
    """A program in the sandbox. Whoever started it calls `end`, however it went."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        output: Stream,
        notes: Stream | None = None,
        clear: Callable[[], Awaitable[None]],
        code: Callable[[int], int] = int,
    ) -> None:
        self.pid = process.pid
        self._process = process
        self._output = output
        self._notes = notes
        self._clear = clear
        self._code = code
        self._exit = os.pidfd_open(process.pid)
        self._quiet = _any_of(self._exit, notes)
        self._loud = _any_of(self._exit, notes, output)
        self._ending = anyio.Lock()
        self._sleepers = 0
        self._killed = False
        self._closed = False

    async def read(self, most: int = _PIECE) -> bytes:
        """Some of what it says; `b""` when nothing more will come.

        Nothing more comes at the end of the stream. Nor does it when the program has ended and
        the stream is empty, though something that it started may still hold the stream open.
        """
        while True:
            over = self._over()  # asked first: what was said before the end is there by then
            found = self._output.take(most)
            if found is not None or over:
                await anyio.lowlevel.checkpoint()
                return found or b""
            await self._sleep(self._loud)

    async def wait(self) -> int:
        """The exit code; negative for a signal that ended it, as `end` does.

        In bubblewrap, a shell that a signal ended has the code 128 and the signal's number.

        Raises:
            Unavailable: The sandbox could not be set up. What it said is in the output.
        """
        while not self._over():
            await self._sleep(self._quiet)
        return -signal.SIGKILL if self._killed else self._code(self._process.returncode)

    def notes(self) -> bytes:
        """What it wrote to its other stream: file descriptor 3, or its standard error."""
        if self._notes is None:
            return b""
        self._over()
        return bytes(self._notes.kept)

    async def end(self) -> None:
        """Kill what is left of it and wait until nobody is. Not to be cancelled, safe to repeat.

        What it said last can still be read.
        """
        with anyio.CancelScope(shield=True):
            async with self._ending:
                if not self._closed:
                    self._killed = not self._over()
                    await self._clear()
                    self._process.wait()
                    while self._sleepers:  # each has been woken, and looks once more
                        await anyio.lowlevel.checkpoint()
                    self._close()

    async def _sleep(self, either: select.epoll) -> None:
        """Until one of them has something. Several may wait, each with a descriptor of its own."""
        own = os.dup(either.fileno())
        self._sleepers += 1
        try:
            await anyio.wait_readable(own)
        finally:
            self._sleepers -= 1
            os.close(own)

    def _over(self) -> bool:
        """Whether it has ended; on the way, the other stream is kept from filling up."""
        notes = self._notes
        if notes is not None and not notes.ended and notes.gather(MOST_NOTES):
            self._quiet.unregister(notes.fd)
            self._loud.unregister(notes.fd)
        return self._process.poll() is not None

    def _close(self) -> None:
        self._closed = True
        self._quiet.close()
        self._loud.close()
        os.close(self._exit)
        self._output.close(1 << 20)
        if self._notes is not None:
            self._notes.close(MOST_NOTES)


def _any_of(exit_: int, *streams: Stream | None) -> select.epoll:
    """One file descriptor that is readable when any of them is."""
    either = select.epoll()
    either.register(exit_, select.EPOLLIN)
    for stream in streams:
        if stream is not None:
            either.register(stream.fd, select.EPOLLIN)
    return either
