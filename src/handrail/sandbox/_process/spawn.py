"""Starts programs on one thread living as long as the process.

The kernel's parent-death signal depends on the thread starting a program, not on the process. An
ending worker thread would kill the commands it started.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")


class _Spawner:
    """One thread, started when first needed, and again in a forked process."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._pool = None

    def run(self, work: Callable[[], T]) -> T:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "handrail-spawner")
        return self._pool.submit(work).result()


SPAWNER: Final = _Spawner()


def popen(  # noqa: PLR0913 as in Popen
    argv: Sequence[str],
    *,
    output: int,
    source: int = subprocess.DEVNULL,
    error: int | None = None,
    env: Mapping[str, str],
    fds: Sequence[int] = (),
    cwd: str | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program without a terminal, in a new session. By default, it has no input."""
    return subprocess.Popen(  # noqa: S603  no shell: arguments are passed unchanged
        argv,
        stdin=source,
        stdout=output,
        stderr=output if error is None else error,
        env=env,
        pass_fds=fds,
        cwd=cwd,
        start_new_session=True,
    )
