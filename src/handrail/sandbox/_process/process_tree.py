"""Finds a command's processes without a process namespace.

Each command gets a unique number as its hard limit for real-time processor time, which ordinary
programs do not use. Every process it starts inherits the number. A process cannot raise a hard
limit, and the filter keeps it from changing this one. So it cannot hide: not by a new session, a
second fork or an empty environment.
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

from handrail.sandbox._kernel.seccomp import TAG
from handrail.sandbox._values import SandboxUnavailable

_SHORT_SECONDS: Final = 0.5
"""Seconds in which process ids cannot wrap around."""
_MAX_NEAR_PIDS: Final = 100
_MAX_TRIES: Final = 40
_PIDS_AHEAD: Final = 4
_READ_BYTES: Final = 1 << 14


def require_markable() -> None:
    """Raise SandboxUnavailable inside another Landlock sandbox, which uses the same mark."""
    if resource.getrlimit(TAG)[1] != resource.RLIM_INFINITY:
        raise SandboxUnavailable("This process already runs in a Landlock sandbox of handrail.")


class ProcessTree:
    """One command's processes."""

    def __init__(self, first: int) -> None:
        """Mark the first process before it runs any part of the command."""
        self._first = first
        self._since = time.monotonic()
        number = (1 << 60) + secrets.randbits(59)
        self._mark = (number, number)
        resource.prlimit(first, TAG, self._mark)

    async def clear(self) -> None:
        """Kill the command's processes until none is left."""
        pause = 0.0005
        while True:
            youngest = _youngest_pid()
            pids = self._find_processes(youngest)
            for pid in pids:
                self._kill(pid)
            if not pids and _youngest_pid() == youngest:
                return
            self._chase()
            await anyio.sleep(pause)
            pause = min(2 * pause, 0.02)

    def _chase(self) -> None:
        """Kill the youngest process, repeatedly.

        A process forking and ending immediately is gone before a process list is complete, and its
        child has a number missing from the list.
        """
        for _ in range(_MAX_TRIES):
            youngest = _youngest_pid()
            for pid in range(youngest, youngest + _PIDS_AHEAD):
                self._kill(pid)

    def _find_processes(self, youngest: int) -> list[int]:
        """Return the live processes. A short command's have ids after its own."""
        young = time.monotonic() - self._since < _SHORT_SECONDS and youngest >= self._first
        if young and youngest - self._first < _MAX_NEAR_PIDS:
            return [pid for pid in range(self._first, youngest + 1) if self._owns(pid)]
        numbers = [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdecimal()]
        return [pid for pid in numbers if self._owns(pid)]

    def _owns(self, pid: int) -> bool:
        """Return whether a process has the mark and is not a zombie."""
        try:
            return (
                self._is_marked(pid)
                and _read_proc(f"/proc/{pid}/stat").rpartition(b") ")[2][:1] not in b"ZX"
            )
        except OSError:
            return False  # gone

    def _is_marked(self, pid: int) -> bool:
        return resource.prlimit(pid, TAG) == self._mark

    def _kill(self, pid: int) -> None:
        with contextlib.suppress(OSError):  # gone, a thread, or another user's
            process = os.pidfd_open(pid)
            try:
                if self._is_marked(pid):  # checked again: the id may belong to another process
                    signal.pidfd_send_signal(process, signal.SIGKILL)
            finally:
                os.close(process)


def _youngest_pid() -> int:
    """Return the youngest process's id."""
    return int(_read_proc("/proc/loadavg").rpartition(b" ")[2])


def _read_proc(path: str) -> bytes:
    """Read a whole /proc file with one call."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, _READ_BYTES)
    finally:
        os.close(file)
