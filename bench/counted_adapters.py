"""Counted work of one framework: a run with calls of its own tool, and of the same tool through handrail.

Runs under valgrind (see adapters.py), in the environment of the framework, with the path of the compiled shim.
With `clock` in its place, it prints the CPU time instead: valgrind cannot count frameworks that call tools in threads.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any

from conformance import Conversation, Read, Setup, World
from handrail import Call, Executor, LongResults

CLOCK = sys.argv[-1] == "clock"
SHIM: Any = None if CLOCK else ctypes.CDLL(sys.argv[-1])
TIMES = 5
TIMED = 40
"""Runs by the clock. The fastest counts."""
WARM = 20
"""Runs before the first that counts. CPython rewrites code that has run a few times."""
MANY = 11
"""Calls of a reply. What each costs is told by the difference to a reply with one."""


def script(calls: int) -> Callable[[Sequence[Read]], Sequence[Call]]:
    """A model that asks for so many calls at once, and then answers."""
    asked = [Call("count_items", {"number": n}, f"c{n}") for n in range(calls)]

    def replies(read: Sequence[Read]) -> Sequence[Call]:
        assert len(read) in (0, calls)
        assert all(one.text == f"counted {one.call_id[1:]}" for one in read if one.call_id)
        return () if read else asked

    return replies


async def time_fastest(work: Callable[[], Awaitable[None]]) -> float:
    """Return the microseconds of CPU time that all threads need."""
    taken: list[float] = []
    for _ in range(TIMED):
        began = time.process_time()
        await work()
        taken.append(time.process_time() - began)
    return min(taken) * 1e6


async def count(name: str, run: Any, calls: int) -> None:
    async def work() -> None:
        await run(Conversation(script(calls), lambda: None))

    for _ in range(WARM):
        await work()
    if CLOCK:
        sys.stdout.write(f"\n{name} {calls}|{await time_fastest(work)}\n")
        return
    gc.collect()
    gc.disable()
    SHIM.cg_start()
    SHIM.cg_zero()
    for _ in range(TIMES):
        await work()
    SHIM.cg_dump(f"{name} {calls}|{TIMES}".encode())
    SHIM.cg_stop()
    gc.enable()


class PlainSetup(Setup):
    """With an executor as it is without options, but for a tool that reads long results."""

    def executor(self, *, asks_person: bool = False) -> Executor:  # noqa: ARG002  as the kit's
        return Executor(self.world.toolset(), long_results=LongResults(reader="always"))


def make_setup(seconds: Any) -> Setup:
    return PlainSetup(
        world=World(), words={}, is_late=False, needs=frozenset(), tool_timeout=seconds
    )


async def main() -> None:
    host = import_module(f"on_{os.environ['HANDRAIL_HOST']}")
    bare, railed = host.bare(make_setup(None)), host.railed(make_setup(60.0))
    for name, run in (("bare", bare), ("railed", railed)):
        for calls in (1, MANY):
            await count(name, run, calls)


if __name__ == "__main__":
    asyncio.run(main())
