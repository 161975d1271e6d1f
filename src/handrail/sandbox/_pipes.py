"""The pipes and nameless files between us and one program, none of them lost on the way."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

_HIGH: Final = 10
"""Above what a shell script is likely to name itself."""


@dataclass(frozen=True, slots=True)
class Pipe:
    """The end that is ours, and the end that a program gets."""

    ours: int
    theirs: int


class Pipes:
    """What one program gets. Leaving closes its ends; leaving with an error closes ours too."""

    def __init__(self) -> None:
        self.inherited: list[int] = []
        """The descriptors that the program is to have, under the same numbers."""
        self._theirs: list[int] = []
        self._ours: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for fd in self._theirs + (self._ours if kind else []):
            os.close(fd)

    def output(self) -> Pipe:
        """A pipe that we read, for the program to have as one of its standard streams."""
        return self._pipe(*os.pipe())

    def reading(self) -> Pipe:
        """A pipe that we read."""
        made = self.output()
        self.inherited.append(made.theirs)
        return made

    def gate(self) -> Pipe:
        """A pipe that the program reads."""
        read, write = os.pipe()
        made = self._pipe(write, read)
        self.inherited.append(made.theirs)
        return made

    def file(self, content: bytes) -> int:
        """A file with no name that the program can read from its start."""
        fd = os.memfd_create("handrail")
        self._theirs.append(fd)
        self.inherited.append(fd)
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def _pipe(self, ours: int, theirs: int) -> Pipe:
        high = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        os.close(theirs)
        self._ours.append(ours)
        self._theirs.append(high)
        return Pipe(ours, high)
