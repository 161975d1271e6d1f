"""Named points that a process comes to, for tests that end it there."""

from __future__ import annotations

from collections.abc import Callable


def _go_on(_point: str) -> None:
    """Do nothing."""


on_point: Callable[[str], object] = _go_on
"""What happens at a point. Only tests change it."""


def reach(point: str) -> None:
    """Say that this process has come to a point."""
    on_point(point)
