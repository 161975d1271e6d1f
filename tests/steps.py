"""How much work something is, in steps: a busy machine takes longer for a step, but not more."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Steps:
    """Calls of functions, and what else is counted by hand."""

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, _frame: object, event: str, _arg: Any) -> None:
        """Count an event of the profiler: a call, of Python or of C."""
        self.total += event in {"call", "c_call"}


@contextmanager
def counting() -> Iterator[Steps]:
    """Count the calls that this thread makes."""
    steps, before = Steps(), sys.getprofile()
    sys.setprofile(steps)
    try:
        yield steps
    finally:
        sys.setprofile(before)
