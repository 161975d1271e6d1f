"""Sandbox values: resource limits, the report, and its error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from handrail import HandrailError

GIB = 1 << 30
TMP = "/tmp"  # noqa: S108  each use says how it is made safe

Restriction: TypeAlias = Literal["hidden", "read-only"]
"""What a rule does to a file: commands cannot read it, or cannot change it."""


class MoreHosts(NamedTuple):
    """Hosts one command reaches, in addition to the sandbox's."""

    by_rule: tuple[str, ...] = ()
    """Every command reaches them at that time."""
    own: tuple[str, ...] = ()
    """No other command does."""


class Streams(NamedTuple):
    """A command's streams, in addition to its output."""

    notes: bool = False
    """A descriptor 3 read by this process."""
    source: bool = False
    """A standard input written by this process."""


class SandboxUnavailable(HandrailError):
    """No sandbox is available with these options. The message says why, and what to install."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceLimits:
    """Each process's hard resource limits. A command can only lower them."""

    memory: int = 8 * GIB
    """Data bytes in one process."""
    file_bytes: int = 2 * GIB
    """Bytes in the largest writable file."""
    files: int = 4096
    """Open files in one process."""
    processes: int = 4096
    """Processes for this user. Ignored if the user is root."""


@dataclass(frozen=True, slots=True)
class Report:
    """A description for people: what a sandbox enforces and what it does not."""

    tier: str
    enforced: tuple[str, ...]
    not_enforced: tuple[str, ...]

    def __str__(self) -> str:
        enforced = "".join(f"\n  enforced: {line}" for line in self.enforced)
        not_enforced = "".join(f"\n  not enforced: {line}" for line in self.not_enforced)
        return f"sandbox: {self.tier}{enforced}{not_enforced}"
