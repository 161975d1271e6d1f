"""However long a command line takes to decide, a task on the same event loop hardly waits.

The pause is measured in processor time, so that a busy machine does not count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from handrail import Call, CallLimits, Executor, Toolset, tool
from handrail.policy import Rulebook, builtin_rules
from policy.generated_lines import MAKERS, make_line
from virtual_time import Quick

MAX_PAUSE = 0.05
LINES = 10_000 if os.environ.get("HANDRAIL_PROFILE") == "soak" else 66
MODES = ("plan", "ask", "edits", "open")
SLOW = " | ".join(["python3 a 'q r'"] * 200)


@tool
async def bash(command: str) -> str:
    """Run a command."""
    return f"{len(command)} characters"


def rules_of(mode: str) -> Rulebook:
    return Rulebook(builtin_rules("read_only", "development"), mode=mode, sandboxed=True)


async def longest_pause(executor: Executor, line: str) -> float:
    """How long a task that ticks waits, at most, while a line is decided."""
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        last = time.process_time()
        while True:
            await anyio.lowlevel.checkpoint()
            now = time.process_time()
            longest, last = max(longest, now - last), now

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        result = await executor.run(Call("bash", {"command": line}, "1"))
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert "permission check" not in result.text  # none was given up
    return longest


async def find_pauses(policies: list[Any], lines: Iterable[tuple[int, str]]) -> dict[int, float]:
    """The lines that stop the event loop for too long, also at a second and a third try."""
    limits = CallLimits(hook_timeout=300)
    executors = [Executor(Toolset(bash), policy=policy, limits=limits) for policy in policies]
    found: dict[int, float] = {}
    for seed, line in lines:
        executor = executors[seed % len(executors)]
        pause = await longest_pause(executor, line)
        for again in range(1, 3):  # with spaces at the end: it must be read anew
            if pause > MAX_PAUSE:
                pause = min(pause, await longest_pause(executor, line + " " * again))
        if pause > MAX_PAUSE:
            found[seed] = pause
    return found


@pytest.mark.timeout(4_000)
def test_no_line_stops_the_event_loop_for_long() -> None:
    lines = ((seed, make_line(seed)) for seed in range(LINES))

    assert 6 * len(MAKERS) <= LINES
    assert anyio.run(find_pauses, [rules_of(mode) for mode in MODES], lines) == {}


def test_deciding_in_the_event_loop_would_be_noticed() -> None:
    rules = rules_of("ask")

    assert anyio.run(find_pauses, [Quick(rules)], [(0, SLOW)]).keys() == {0}
    assert anyio.run(find_pauses, [rules], [(0, f"{SLOW} | ls")]) == {}
