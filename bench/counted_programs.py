"""Counted work of programs: runs under valgrind, with the path of the compiled shim. See counted.py.

Counts are those of this process: its interpreters have their own, and so has the kernel.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from handrail import READ, Access, Call, Context, Executor, Toolset, tool
from handrail.programs import ProgramLimits, program_tool

SHIM = ctypes.CDLL(sys.argv[-1])
MORE = 40
"""Calls that the longer run of a pair makes in addition."""
CODES = {
    "loop": "for n in range({}):\n    x = await one(n=n)\nx",
    "gather": "import asyncio\nlen(await asyncio.gather(*[one(n=n) for n in range({})]))",
}
"""Each in a process of its own: callgrind loses count of threads that it saw before."""


def nothing(**_: Any) -> tuple[Access, ...]:
    return ()


@tool(effect=READ, touches=nothing)
async def one(n: int) -> int:
    """Return a number."""
    return n


@tool(effect=READ, touches=nothing, replays=True)
async def inner(calls: int, context: Context) -> int:
    """Make calls one after another, without a program."""
    for n in range(calls):
        await context.turn(str(n), [Call("one", {"n": n}, "p")], tools=("one",), whole=True)
    return calls


async def count(name: str, work: Callable[[], Awaitable[Any]], times: int) -> None:
    for _ in range(6):
        await work()
    gc.collect()  # so that no collection falls into what is counted
    SHIM.cg_start()
    SHIM.cg_zero()
    for _ in range(times):
        await work()
    SHIM.cg_dump(f"{name}|{times}".encode())
    SHIM.cg_stop()


async def main() -> None:
    program = program_tool([one], limits=ProgramLimits(calls=1_000))
    async with Executor(Toolset(one, inner, program)) as executor:

        async def run(called: str, **args: Any) -> None:
            result = await executor.run(Call(called, args, "c"))
            assert result.failure is None, result.text

        await count("plain", lambda: run("one", n=1), 50)
        for calls in (1, 1 + MORE):
            await count(f"inner {calls}", lambda calls=calls: run("inner", calls=calls), 5)
        kind = sys.argv[1]
        for calls in (1, 1 + MORE):
            text = CODES[kind].format(calls)
            await count(f"{kind} {calls}", lambda text=text: run("run_program", code=text), 5)


anyio.run(main)
