"""Text that froze a process."""

from __future__ import annotations

from vectors.stage import Check

CHECKS: dict[str, Check] = {}
