"""Consequences in other spellings."""

from __future__ import annotations

from vectors.stage import Check

CHECKS: dict[str, Check] = {}
