"""Every command line is decided soon, and meanwhile a task on the same event loop hardly waits.

The time is measured in processor time, beside that of a fixed piece of work: neither a busy nor a slow machine counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from handrail import Allow, Call, CallLimits, CheckedCall, Decision, Executor, Toolset, tool
from handrail.permissions import Policy
from handrail.policy import Rulebook, builtin_rules
from policy.generated_lines import MAKERS, make_line
from virtual_time import Quick

MAX_PAUSE = 10.0
"""In units of work: about 50 ms where a loop of 200,000 steps takes 5 ms."""
MAX_WORK = 600.0
"""For one decision."""
LINES = 10_000 if os.environ.get("HANDRAIL_PROFILE") == "soak" else 45
MODES = ("plan", "ask", "edits", "open")


@tool
async def bash(command: str) -> str:
    """Run a command."""
    return f"{len(command)} characters"


def rules_of(mode: str) -> Rulebook:
    return Rulebook(builtin_rules("read_only", "development"), mode=mode, sandboxed=True)


def unit_of_work() -> float:
    """The processor time that a fixed piece of work takes now."""
    start = time.thread_time()
    for _ in range(200_000):
        pass
    return time.thread_time() - start


async def longest_pause(executor: Executor, line: str) -> float:
    """How long a task that ticks waits, at most, while a line is decided, in units of work."""
    longest, unit = 0.0, unit_of_work()

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
    return 2 * longest / (unit + unit_of_work())


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

    assert 3 * len(MAKERS) <= LINES
    assert anyio.run(find_pauses, [rules_of(mode) for mode in MODES], lines) == {}


SHAPES = {
    "pipes": "a|" * 4_750,
    "pipes at the ends of lines": "d |\n" * 2_400,
    "aliases": "git -c alias.a='!git -c alias.b=' " * 60,
    "substitutions": "$(" * 3_000 + "ls" + ")" * 3_000,
    "variables": ";".join(f"$a{at} x" for at in range(1_100)),
    "outputs": ";".join(f"$(a{at}) x" for at in range(950)),
    "modules": "python3 -m " * 900 + "ls",
    "empty words": "awk " + "'' " * 400,
    "programs of awk": "awk " + " ".join(f"'p{at} q'" for at in range(1_800)),
    "removals": "\n".join(f"rm a{at}" for at in range(1_200)),
}


class Timed:
    """A policy that notes how much work its last decision took."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.work = 0.0

    def __call__(self, call: CheckedCall) -> Decision:
        unit, start = unit_of_work(), time.thread_time()
        decision = self.policy(call)
        seconds = time.thread_time() - start
        self.work = 2 * seconds / (unit + unit_of_work())
        return decision


async def measure_decision(line: str, decide: Policy) -> float:
    policy = Timed(decide)
    async with Executor(Toolset(bash), policy=policy, limits=CallLimits(hook_timeout=300)) as one:
        await one.run(Call("bash", {"command": line}, "1"))
    return policy.work


@pytest.mark.parametrize("name", SHAPES)
def test_a_line_with_much_of_one_kind_is_decided_soon(name: str) -> None:
    lines = [(0, SHAPES[name] + " ")]

    assert anyio.run(measure_decision, SHAPES[name], rules_of("open")) < MAX_WORK
    assert anyio.run(find_pauses, [rules_of("edits")], lines) == {}


def test_deciding_in_the_event_loop_would_be_noticed() -> None:
    rules = rules_of("ask")
    lines = [(0, SHAPES["modules"])]

    assert anyio.run(find_pauses, [Quick(rules)], lines).keys() == {0}
    assert anyio.run(find_pauses, [rules], lines) == {}


def test_a_decision_that_takes_long_would_be_noticed() -> None:
    def slow(_call: CheckedCall) -> Decision:
        for _ in range(40):
            unit_of_work()
        return Allow()

    assert anyio.run(measure_decision, "ls", slow) >= 20
