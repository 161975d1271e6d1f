"""Run async functions of the kit in a framework that calls tools from threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio.to_thread

SECONDS = 20.0
"""How long a thread waits for a function: longer than the kit, so that it sees a hang."""


def call_from_thread(loop: Any, fn: Callable[..., Any], args: dict[str, Any]) -> Any:
    """Run an async function of the kit in its event loop, from a thread."""
    made = fn(**args)
    if not asyncio.iscoroutine(made):
        return made
    return asyncio.run_coroutine_threadsafe(made, loop).result(SECONDS)


async def run_in_thread(fn: Callable[..., Any], *args: Any) -> Any:
    """Run a synchronous agent. A caller that cancels does not wait for it."""
    return await anyio.to_thread.run_sync(partial(fn, *args), abandon_on_cancel=True)
