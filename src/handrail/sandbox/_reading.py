"""A program that may read beneath one folder, and do nothing else: a search, say."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress

from handrail.sandbox import _kernel as kernel
from handrail.sandbox import _landlock as landlock
from handrail.sandbox import _seccomp as seccomp
from handrail.sandbox._pipes import Pipes
from handrail.sandbox._running import Running, Stream
from handrail.sandbox._script import within
from handrail.sandbox._spawn import popen
from handrail.sandbox._words import GIB

_LIBRARIES = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/ld.so.conf")
_MOST_MEMORY = 2 * GIB
"""A file of one line, say, may have to be in memory as a whole."""


class Reader:
    """A program under way that only reads. Whoever started it calls `end`, however it went."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self.pid = running.pid
        self.read = running.read
        self.wait = running.wait
        self.end = running.end

    def errors(self) -> bytes:
        """What it wrote to its standard error, up to a limit."""
        return self._running.notes()


def reading(argv: Sequence[str], *, root: str, cwd_fd: int, keep: Sequence[int] = ()) -> Reader:
    """Start a program that can read what is beneath `root`, and its own libraries.

    It has no input, writes nothing and reaches no network, as far as the kernel can hold it:
    Landlock for files where there is one, and a filter for system calls. Its memory is limited.

    Args:
        argv: The words of it, the first an absolute path.
        root: The folder it may read.
        cwd_fd: The open folder that it starts in.
        keep: Open files that it is to have, under the same numbers.
    """
    program = os.path.realpath(argv[0])
    with Pipes() as pipes:
        output, error = pipes.output(), pipes.output()

        def work() -> subprocess.Popen[bytes]:
            return popen(
                argv,
                output=output.theirs,
                error=error.theirs,
                env={"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"},
                fds=keep,
                cwd=f"/proc/self/fd/{cwd_fd}",
            )

        with _rules(root, program) as rules:
            process = landlock.restricted(work, rules, seccomp.program(()))
    most = within(resource.RLIMIT_DATA, _MOST_MEMORY)
    with suppress(ProcessLookupError):  # it has ended already
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (most, most))

    async def clear() -> None:
        process.kill()

    said, errors = Stream(output.ours), Stream(error.ours)
    return Reader(Running(process, output=said, notes=errors, clear=clear))


@contextmanager
def _rules(root: str, program: str) -> Generator[list[int]]:
    """Read, and nothing else; no rules at all where the kernel knows none."""
    version = kernel.landlock_version()
    seen = [(path, landlock.READ) for path in (root, program, *_LIBRARIES)]
    seen.append(("/dev/null", landlock.WRITE))
    rules = [landlock.ruleset(version, seen)] if version >= landlock.OLDEST else []
    try:
        yield rules
    finally:
        for one in rules:
            os.close(one)
