"""Run calls through the public API, and keep what a model would read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from handrail import Call, Executor, Result, Tool, Toolset
from messages.row import Row


def describe(when: str, result: Result) -> Row:
    """Return the row of a result."""
    return Row(when, result.failure.kind.value if result.failure else "note", result.text)


async def run(given: Tool[..., Any] | Toolset, call: Call, **options: Any) -> Result:
    """Run one call of a tool, or of one of several, with the options of an executor."""
    tools = given if isinstance(given, Toolset) else Toolset(given)
    async with Executor(tools, **options) as executor:
        return await executor.run(call)


@contextmanager
def silent_logs() -> Iterator[None]:
    """Keep what handrail logs of failures out of the terminal: they are provoked."""
    log = logging.getLogger("handrail")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
