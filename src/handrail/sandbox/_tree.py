"""Who belongs to a command, where there is no namespace that says so.

Each command gets a number of its own as the hard limit for real-time processor time, which means
nothing to ordinary programs. All that it starts inherits the number. It cannot raise a hard
limit, and the filter does not let it change this one. So it cannot hide: not by a new session,
not by a second fork, not by an empty environment.
"""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import signal
import time
from typing import Final

import anyio

from handrail.sandbox._seccomp import TAG
from handrail.sandbox._words import Unavailable

_SHORT: Final = 0.5
"""Seconds in which the numbers of processes cannot go round."""
_FEW: Final = 100
_TRIES: Final = 40
_AHEAD: Final = 4
_PIECE: Final = 1 << 14


def markable() -> None:
    """Refuse where the limit has been lowered already: in another sandbox of this kind."""
    if resource.getrlimit(TAG)[1] != resource.RLIM_INFINITY:
        raise Unavailable("processes cannot be marked here: this runs in a sandbox already")


class Tree:
    """The processes of one command."""

    def __init__(self, first: int) -> None:
        """Mark the first process, before it has run anything of the command."""
        self._first = first
        self._since = time.monotonic()
        number = (1 << 60) + secrets.randbits(59)
        self._mark = (number, number)
        resource.prlimit(first, TAG, self._mark)

    async def clear(self) -> None:
        """Kill whoever belongs to it until nobody does."""
        pause = 0.0005
        while True:
            last = _last()
            found = self._found(last)
            for pid in found:
                self._kill(pid)
            if not found and _last() == last:
                return
            self._chase()
            await anyio.sleep(pause)
            pause = min(2 * pause, 0.02)

    def _chase(self) -> None:
        """Kill the youngest of all, again and again.

        One that forks and ends at once is gone before a list of processes is complete, and its
        child has a number that is not in the list.
        """
        for _ in range(_TRIES):
            last = _last()
            for pid in range(last, last + _AHEAD):
                self._kill(pid)

    def _found(self, last: int) -> list[int]:
        """Those alive now. A short command has only processes with numbers after its own."""
        young = time.monotonic() - self._since < _SHORT and last >= self._first
        if young and last - self._first < _FEW:
            return [pid for pid in range(self._first, last + 1) if self._owns(pid)]
        numbers = [int(one.name) for one in os.scandir("/proc") if one.name.isdecimal()]
        return [pid for pid in numbers if self._owns(pid)]

    def _owns(self, pid: int) -> bool:
        """By its mark, unless it has ended and only waits to be taken note of."""
        try:
            return (
                self._marked(pid)
                and _read(f"/proc/{pid}/stat").rpartition(b") ")[2][:1] not in b"ZX"
            )
        except OSError:
            return False  # gone

    def _marked(self, pid: int) -> bool:
        return resource.prlimit(pid, TAG) == self._mark

    def _kill(self, pid: int) -> None:
        with contextlib.suppress(OSError):  # gone, a thread, or another user's
            process = os.pidfd_open(pid)
            try:
                if self._marked(pid):  # still: a number may have gone to somebody else
                    signal.pidfd_send_signal(process, signal.SIGKILL)
            finally:
                os.close(process)


def _last() -> int:
    """The number of the youngest process."""
    return int(_read("/proc/loadavg").rpartition(b" ")[2])


def _read(path: str) -> bytes:
    """What the kernel tells in one piece."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, _PIECE)
    finally:
        os.close(file)
