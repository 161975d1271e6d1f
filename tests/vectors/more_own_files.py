"""A program's own files in a workspace, and files that changed under a question."""

from __future__ import annotations

from vectors.stage import Check

CHECKS: dict[str, Check] = {}
