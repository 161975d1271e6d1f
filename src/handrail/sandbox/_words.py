"""The words of the sandbox: what may be used up, what is held, and why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from handrail import HandrailError

GIB = 1 << 30


class Unavailable(HandrailError):
    """No sandbox can be had as asked. Says what was tried, and what to install."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one process of a command may use up. Hard: a command can lower them only."""

    memory: int = 8 * GIB
    """Bytes of data that one process may hold."""
    file_bytes: int = 2 * GIB
    """Bytes of the largest file that may be written."""
    files: int = 4096
    """Files that one process may have open."""
    processes: int = 4096
    """Processes of this user; without effect where the user is root."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a sandbox holds, and what it leaves open. Show it to people."""

    tier: str
    on: tuple[str, ...]
    open: tuple[str, ...]

    def __str__(self) -> str:
        held = "".join(f"\n  on: {one}" for one in self.on)
        left = "".join(f"\n  open: {one}" for one in self.open)
        return f"sandbox: {self.tier}{held}{left}"
