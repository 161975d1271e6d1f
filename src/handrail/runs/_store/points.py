"""Named points a process reaches, for tests ending it there."""

from __future__ import annotations

from collections.abc import Callable


def _go_on(_point: str) -> None:
    """Do nothing."""


on_point: Callable[[str], object] = _go_on
"""What happens at a point. Only tests change it."""


def reach(point: str) -> None:
    """Report this process's arrival at a point."""
    on_point(point)
