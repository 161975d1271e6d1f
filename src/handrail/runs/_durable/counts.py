"""How often a worker has seen what an operator should know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """Counts since a worker began."""

    takeovers: int = 0
    """Workers whose death it has seen."""
    taken_over: int = 0
    """Their segments and calls, which continue."""
    unknown: int = 0
    """Calls that may have taken effect."""
    failed: int = 0
    """Runs that have failed here."""
