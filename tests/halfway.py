"""Functions that are cancelled halfway, at each step: they may leave nothing to the collector."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

STEPS = 15
"""More steps of the event loop than the start of a program takes."""


def find_leaks(begin: Callable[[], Awaitable[object]]) -> list[str]:
    """Cancel a function after each number of steps; return what was left when its loop ended.

    Each time in a loop of its own, on asyncio: a loop that goes on may close things later.
    """
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for steps in range(STEPS):
            anyio.run(_cancel_after, steps, begin)
        gc.collect()
    return [str(warning.message) for warning in heard if warning.category is ResourceWarning]


async def _cancel_after(steps: int, begin: Callable[[], Awaitable[object]]) -> None:
    limit = anyio.CancelScope()

    async def run() -> None:
        with limit:
            await begin()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        limit.cancel()
