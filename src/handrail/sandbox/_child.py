"""The first process in a bubblewrap. When it has gone, so have all the others."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio

from handrail.sandbox._words import Unavailable

_CHILD: Final = re.compile(rb'"child-pid": (\d+)\D')
_CODE: Final = re.compile(rb'"exit-code": (\d+)\D')
_PIECE: Final = 4096
_CHANGED: Final = (
    "the workspace changed while the sandbox was set up, so the command was not run. If another "
    "command still runs there, end it; then try again"
)


class Child:
    """What bubblewrap tells of it, through a pipe that commands do not have."""

    def __init__(self, status: int, release: Callable[[], None]) -> None:
        """Wait until bubblewrap has made it, a moment after it was started.

        Killing bubblewrap before that could leave a child which nobody knows of.
        """
        self._status = status
        self._release = release
        self._told = b""
        while not (found := _CHILD.search(self._told)) and self._more():
            pass
        self._process: int | None = None
        self._pid = int(found[1]) if found else 0
        self._admitted = False
        if found:
            with contextlib.suppress(ProcessLookupError):  # it has gone already
                self._process = os.pidfd_open(int(found[1]))

    def admit(self, ready: int, gate: int, fine: Callable[[bytes], bool]) -> None:
        """Let the command begin, if the mounts that it would see are fine.

        Its shell tells that it is there, and waits. If nobody ever lets it go on, it ends.
        """
        try:
            with contextlib.suppress(OSError):  # it has gone meanwhile
                if os.read(ready, 1):
                    self._admitted = fine(Path(f"/proc/{self._pid}/mountinfo").read_bytes())
                if self._admitted:
                    os.write(gate, b"\n")
        finally:
            os.close(ready)
            os.close(gate)

    def _more(self) -> bytes:
        more = os.read(self._status, _PIECE)
        self._told += more
        return more

    async def clear(self) -> None:
        """Kill it, and wait until it has gone: the kernel lets it go last."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            await anyio.wait_readable(self._process)
            os.close(self._process)
        self._release()
        while self._more():  # bubblewrap has nothing left to wait for, and ends
            pass
        os.close(self._status)
        self._status = -1

    def code(self, code: int) -> int:
        """The exit code, if there was a command to have one."""
        while self._status >= 0 and self._more():
            pass
        ran = _CODE.search(self._told)
        if ran and self._admitted:
            return code
        if ran:
            raise Unavailable(_CHANGED)
        raise Unavailable("the sandbox could not be set up; what it said is in the output")
