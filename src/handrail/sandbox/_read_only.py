"""Runs a program, such as a search, with read access to only one folder's files."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress

from handrail.sandbox._kernel import landlock, seccomp, syscalls
from handrail.sandbox._process.pipes import Pipes
from handrail.sandbox._process.running import PipeReader, Process
from handrail.sandbox._process.script import clamp_limit
from handrail.sandbox._process.spawn import popen
from handrail.sandbox._values import GIB

_LIBRARIES = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/ld.so.conf")
_MAX_MEMORY_BYTES = 2 * GIB
"""A single-line file, for example, may have to fit into memory."""


class Reader:
    """A running read-only program. Always call `kill` when you are done with it."""

    def __init__(self, running: Process) -> None:
        self._running = running
        self.pid = running.pid
        self.read = running.read
        self.wait = running.wait
        self.kill = running.kill

    def errors(self) -> bytes:
        """Return what it wrote to its standard error, up to a limit."""
        return self._running.notes()


def start_read_only(
    argv: Sequence[str], *, root: str, cwd_fd: int, keep: Sequence[int] = ()
) -> Reader:
    """Start a program with read access to the files in `root` and its own libraries.

    It has no input, writes nothing and has no network, if the kernel can enforce it: with Landlock
    for files, if available, and a system call filter. Its memory is limited.

    Args:
        argv: The program, as an absolute path, and its arguments.
        root: Its readable folder.
        cwd_fd: Its open starting folder.
        keep: Open files it inherits, under the same numbers.
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

        with _open_rules(root, program) as rules:
            process = landlock.run_restricted(work, rules, seccomp.assemble_filter(()))
    limit = clamp_limit(resource.RLIMIT_DATA, _MAX_MEMORY_BYTES)
    with suppress(ProcessLookupError):  # it has ended already
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (limit, limit))

    async def clear() -> None:
        process.kill()

    output_reader, error_reader = PipeReader(output.ours), PipeReader(error.ours)
    return Reader(Process(process, output=output_reader, notes=error_reader, clear=clear))


@contextmanager
def _open_rules(root: str, program: str) -> Generator[list[int]]:
    """Open rules allowing only reading, or no rules if the kernel does not support them."""
    version = syscalls.landlock_version()
    allowed = [(path, landlock.READ) for path in (root, program, *_LIBRARIES)]
    allowed.append(("/dev/null", landlock.WRITE))
    rules = [landlock.make_ruleset(version, allowed)] if version >= landlock.MIN_VERSION else []
    try:
        yield rules
    finally:
        for ruleset in rules:
            os.close(ruleset)
