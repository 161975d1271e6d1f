"""The text that bash gets: limits first, on the line of the command, so that lines keep count."""

from __future__ import annotations

import functools
import resource
from typing import Final

from handrail import ToolFailed
from handrail.sandbox._words import Limits

_LONGEST: Final = 120_000
"""A little below what the kernel takes as one argument."""
_KIB: Final = 1024


def argv(shell: str, command: str, limits: Limits, *, opening: str = "") -> list[str]:
    """The words that run a command with no start-up file and nothing of the caller's shell."""
    if "\0" in command:
        raise ToolFailed("The command has a NUL character in it. Send it without.")
    if len(command.encode(errors="surrogatepass")) > _LONGEST:
        raise ToolFailed(
            "The command is too long for one line of arguments. "
            "Write it to a file of the workspace and run that."
        )
    text = f"{opening}{_lower(limits)}; {command}"
    return [shell, "--noprofile", "--norc", "-c", text, "bash"]


def noting(fd: int) -> str:
    """Make this the file descriptor 3 of the shell."""
    return f"exec 3>&{fd} {fd}>&-; "


def ready(fd: int) -> str:
    """Tell that the shell is there."""
    return f"echo >&{fd}; exec {fd}>&-; "


def waiting(fd: int) -> str:
    """Go on when there is a line to read, and not at all if there never will be."""
    return f"read -r -u {fd} || exit 125; exec {fd}<&-; "


@functools.lru_cache
def _lower(limits: Limits) -> str:
    """Soft and hard limits at once, never above what the host itself may use."""
    wanted = (
        ("c", resource.RLIMIT_CORE, 0, 1),
        ("d", resource.RLIMIT_DATA, limits.memory, _KIB),
        ("f", resource.RLIMIT_FSIZE, limits.file_bytes, _KIB),
        ("n", resource.RLIMIT_NOFILE, limits.files, 1),
        ("u", resource.RLIMIT_NPROC, limits.processes, 1),
    )
    return "ulimit " + " ".join(
        f"-{letter} {within(kind, most) // unit}" for letter, kind, most, unit in wanted
    )


def within(kind: int, most: int) -> int:
    """A limit that this process can set: no higher than its own."""
    _, hard = resource.getrlimit(kind)
    return most if hard == resource.RLIM_INFINITY else min(most, hard)
