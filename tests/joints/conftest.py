"""Statements of the engine of durable runs are compiled once for all rows; signals stay as they were."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from runs.durable.conftest import shared_statements

__all__ = ["shared_statements"]


@pytest.fixture(autouse=True)
def keep_signals() -> Iterator[None]:
    """Restore handlers: of two servers in one process, the one that ends first leaves the other's."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
