"""The pipes and memory files between this process and one program, all closed in the end."""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

_HIGH: Final = 10
"""Above what a shell script is likely to name itself."""


@dataclass(frozen=True, slots=True)
class Pipe:
    """This process's end, and the program's end."""

    ours: int
    theirs: int


class Pipes:
    """One program's descriptors. Leaving closes its ends, and an error closes ours, too."""

    def __init__(self) -> None:
        self.inherited: list[int] = []
        """The descriptors the program inherits, under the same numbers."""
        self._theirs: list[int] = []
        self._ours: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for fd in self._theirs + (self._ours if kind else []):
            os.close(fd)

    def output(self) -> Pipe:
        """Make a pipe for this process to read, for the program's standard stream."""
        return self._make_pipe(*os.pipe())

    def extra_output(self) -> Pipe:
        """Make a pipe for this process to read, for the program's inherited descriptor."""
        pipe = self.output()
        self.inherited.append(pipe.theirs)
        return pipe

    def standard_input(self) -> Pipe:
        """Make a pipe for this process to write, for the program's standard input."""
        read, write = os.pipe()
        return self._make_pipe(write, read)

    def gate(self) -> Pipe:
        """Make a pipe for the program to read, as an inherited descriptor."""
        pipe = self.standard_input()
        self.inherited.append(pipe.theirs)
        return pipe

    def input(self) -> Pipe:
        """Make a stream for `send_all`, which the program reads to its end."""
        ours, theirs = (end.detach() for end in socket.socketpair())
        pipe = self._make_pipe(ours, theirs)
        self.inherited.append(pipe.theirs)
        return pipe

    def file(self, content: bytes) -> int:
        """Make a memory file readable by the program from its start."""
        fd = os.memfd_create("handrail")
        self._theirs.append(fd)
        self.inherited.append(fd)
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def _make_pipe(self, ours: int, theirs: int) -> Pipe:
        high = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        os.close(theirs)
        self._ours.append(ours)
        self._theirs.append(high)
        return Pipe(ours, high)


def send_all(stream: int, content: bytes) -> None:
    """Send everything to a program and end the stream, unless the program has ended before.

    The end arrives even if a process forked in the meantime has the stream, too.
    """
    with socket.socket(fileno=stream) as opened, suppress(BrokenPipeError, ConnectionResetError):
        opened.sendall(content)
        opened.shutdown(socket.SHUT_WR)
