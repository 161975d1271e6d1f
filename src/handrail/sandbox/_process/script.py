"""The script for bash: limits first, on the command's first line, to keep line numbers correct."""

from __future__ import annotations

import functools
import os
import resource
from typing import Final

from handrail import ToolFailed
from handrail.sandbox._values import ResourceLimits

_MAX_COMMAND_BYTES: Final = 120_000
"""A longer one is a file, not a command: the shell reads it byte by byte."""
_KIB: Final = 1024


def argv(shell: str, script: int) -> list[str]:
    """Return the arguments for a shell without startup files, running the script in a descriptor.

    As an argument, the script would be in every process list, and `pkill -f` would find it.
    """
    read = f"read -rd '' -u {script};exec {script}<&-;eval \"$REPLY\""
    return [shell, "--noprofile", "--norc", "-c", read, "bash"]


def encode(command: str, limits: ResourceLimits, *, opening: str = "") -> bytes:
    """Return the script running a command. Raises ToolFailed for an invalid command."""
    if "\0" in command:
        raise ToolFailed("Not run: the command contains a NUL character. Remove it.")
    if len(command.encode(errors="surrogatepass")) > _MAX_COMMAND_BYTES:
        raise ToolFailed(
            f"Not run: the command is longer than {_MAX_COMMAND_BYTES:,} bytes. Write it to a file "
            "and run that."
        )
    text = f"unset REPLY; {opening}{_ulimit_command(limits)}; {command}\0"
    return os.fsencode(text)


def open_notes(fd: int) -> str:
    """Return code making this the shell's file descriptor 3."""
    return f"exec 3>&{fd} {fd}>&-; "


def report_ready(fd: int) -> str:
    """Return code reporting the shell as ready."""
    return f"echo >&{fd}; exec {fd}>&-; "


def wait_for_line(fd: int) -> str:
    """Return code waiting for a line, and exiting if the pipe closes without one."""
    return f"read -r -u {fd} || exit 125; exec {fd}<&-; "


@functools.lru_cache
def _ulimit_command(limits: ResourceLimits) -> str:
    """Return a command setting soft and hard limits, never above this process's."""
    wanted = (
        ("c", resource.RLIMIT_CORE, 0, 1),
        ("d", resource.RLIMIT_DATA, limits.memory, _KIB),
        ("f", resource.RLIMIT_FSIZE, limits.file_bytes, _KIB),
        ("n", resource.RLIMIT_NOFILE, limits.files, 1),
        ("u", resource.RLIMIT_NPROC, limits.processes, 1),
    )
    return "ulimit " + " ".join(
        f"-{letter} {clamp_limit(kind, limit) // unit}" for letter, kind, limit, unit in wanted
    )


def clamp_limit(kind: int, limit: int) -> int:
    """Return a limit this process can set: no higher than its own."""
    _, hard = resource.getrlimit(kind)
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)
