"""Answers that grow when unpacked, credentials, and gateway places."""

from __future__ import annotations

from vectors.stage import Check

CHECKS: dict[str, Check] = {}
