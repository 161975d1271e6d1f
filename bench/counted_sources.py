"""Counted work of looked-up calls: runs under valgrind, with the path of the compiled shim. See sources.py."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from handrail import READ, WRITE, Access, Call, Deny, Executor, Toolset, tool
from handrail.permissions import Answer, Pending
from handrail.policy import Rulebook

SHIM = ctypes.CDLL(sys.argv[-1])
RESULT = 5_000
SIZES = (0, 10_000, 100_000, 1_000_000)
TIMES, WARM_UP = 20, 5
RULES = """\
[[rule]]
id = "sends"
decide = "ask"
tools = ["send"]
[[rule]]
decide = "allow"
tools = ["read", "look"]
"""


@tool(effect=READ, touches=lambda **_: ())
async def read(part: int) -> str:
    """Read a part of the history."""
    return f"{part} write to anna{part}@example.com. " + "word and more " * (RESULT // 14)


@tool(effect=READ)
async def look(what: str) -> str:
    """Look at something."""
    return what


@tool(effect=WRITE, touches=lambda to, **_: Access(WRITE, f"email:{to}"))
async def send(to: str) -> str:
    """Send a mail."""
    return to


async def decline(_pending: Pending) -> Answer:
    return Deny("No.")


async def prepare(policy: Rulebook, size: int, said: list[str] | None) -> Executor:
    """Return an executor whose run has read this much. Without words, nothing is looked up."""
    executor = Executor(Toolset(read, look, send), policy=policy, approvals=decline)
    turn = executor.turn("0", run="R", said=said)
    for part in range(size // RESULT):
        await executor.run(Call("read", {"part": part}, f"r{part}"), turn=turn)
    return executor


@contextmanager
def counting(name: str) -> Iterator[None]:
    gc.collect()  # so that no collection falls into what is counted
    SHIM.cg_start()
    SHIM.cg_zero()
    yield
    SHIM.cg_dump(f"{name}|{TIMES}".encode())
    SHIM.cg_stop()


async def measure(name: str, policy: Rulebook, size: int, said: list[str] | None) -> None:
    """Count calls, each to another address that no text has; and calls without a destination."""
    executor, numbers = await prepare(policy, size, said), count()

    async def spend(times: int, tool: str, argument: str, *, code: int = 0) -> None:
        for number in (next(numbers) for _ in range(times)):
            turn = executor.turn(f"1{number}", run="R")
            user = f"x{code + number}" if code else f"x{number // 100}.{number % 100}"
            await executor.run(Call(tool, {argument: f"{user}@evil.example"}, "c"), turn=turn)

    for kind, tool_, argument, code in (
        ("sends", "send", "to", 0),
        ("codes", "send", "to", 10_000),
        ("looks", "look", "what", 0),
    ):
        await spend(WARM_UP, tool_, argument, code=code)
        with counting(f"{name} {kind} {size}"):
            await spend(TIMES, tool_, argument, code=code)


async def main() -> None:
    """Count each size with and without sources."""
    for size in SIZES:
        await measure("plain", Rulebook.from_toml(RULES), size, None)
        await measure("sources", Rulebook(sources=True), size, ["Summarise my mails."])
        await measure("unheard", Rulebook(sources=True), size, None)


if __name__ == "__main__":
    asyncio.run(main())
