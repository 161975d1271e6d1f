"""Where programs are started: on one thread that lives as long as the process does.

The kernel's "kill this when its parent goes" looks at the thread that started a program, not at
the process. A worker thread that ends would take the commands that it started with it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")


class _Spawner:
    """One thread, made when first needed, and made anew in a forked process."""

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


def popen(
    argv: Sequence[str],
    *,
    output: int,
    error: int | None = None,
    env: Mapping[str, str],
    fds: Sequence[int] = (),
    cwd: str | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program with no input and no terminal, in a session of its own."""
    return subprocess.Popen(  # noqa: S603  no shell: the words are the words
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output if error is None else error,
        env=env,
        pass_fds=fds,
        cwd=cwd,
        start_new_session=True,
    )
