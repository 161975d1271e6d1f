"""A queue for calls of some tools, and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CallQueue:
    """Calls of some tools wait here for a worker. Without a limit, any number runs at once."""

    tools: Sequence[str] = ()
    """The names of the tools whose calls go here."""
    tags: Sequence[str] = ()
    """Calls of tools with one of these tags go here too."""
    per_worker: int | None = None
    """How many run at once on one worker."""
    in_all: int | None = None
    """How many run at once on all workers."""
    per_tenant: int | None = None
    """How many run at once for one principal."""
    rate: tuple[int, float] | None = None
    """How many begin within how many seconds, on all workers."""
