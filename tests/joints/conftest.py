"""Statements of the engine of durable runs are compiled once for all rows."""

from __future__ import annotations

from runs.durable.conftest import shared_statements

__all__ = ["shared_statements"]
