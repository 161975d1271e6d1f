"""The first process in a bubblewrap sandbox. When it has ended, so have all the others."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio

from handrail.sandbox._values import SandboxUnavailable

_CHILD: Final = re.compile(rb'"child-pid": (\d+)\D')
_CODE: Final = re.compile(rb'"exit-code": (\d+)\D')
_CHUNK_BYTES: Final = 4096
_CHANGED: Final = (
    "The workspace changed while the sandbox was set up, so the command was not run. Stop other "
    "commands that run there, then retry."
)


class InitProcess:
    """Bubblewrap's reports on the first process, from a pipe hidden from commands."""

    def __init__(self, status: int, release: Callable[[], None]) -> None:
        """Wait until bubblewrap has started the process, which takes a moment.

        Killing bubblewrap before that could leave an unknown child.
        """
        self._status = status
        self._release = release
        self._status_text = b""
        while not (child := _CHILD.search(self._status_text)) and self._read_more():
            pass
        self._process: int | None = None
        self._pid = int(child[1]) if child else 0
        self._admitted = False
        if child:
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                self._process = os.pidfd_open(int(child[1]))

    def admit(self, ready: int, gate: int, fine: Callable[[bytes], bool]) -> None:
        """Release the command if its mounts are correct.

        Its shell reports that it is ready, and waits. If it is never admitted, it ends.
        """
        try:
            with contextlib.suppress(OSError):  # it has ended in the meantime
                if os.read(ready, 1):
                    self._admitted = fine(Path(f"/proc/{self._pid}/mountinfo").read_bytes())
                if self._admitted:
                    os.write(gate, b"\n")
        finally:
            os.close(ready)
            os.close(gate)

    def _read_more(self) -> bytes:
        more = os.read(self._status, _CHUNK_BYTES)
        self._status_text += more
        return more

    async def clear(self) -> None:
        """Kill it, and wait until it has ended: the kernel ends it last."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            await anyio.wait_readable(self._process)
            os.close(self._process)
        self._release()
        while self._read_more():  # until bubblewrap ends, too
            pass
        os.close(self._status)
        self._status = -1

    def exit_code(self, code: int) -> int:
        """Return the exit code. Raises SandboxUnavailable if the command never ran."""
        while self._status >= 0 and self._read_more():
            pass
        ran = _CODE.search(self._status_text)
        if ran and self._admitted:
            return code
        if ran:
            raise SandboxUnavailable(_CHANGED)
        raise SandboxUnavailable("The sandbox could not be set up. Its error is in the output.")
