"""Programs that run outside a sandbox, or with a secret."""

from __future__ import annotations

from vectors.stage import Check

CHECKS: dict[str, Check] = {}
