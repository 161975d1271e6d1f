"""`python bench/sources.py`: what a looked-up call costs, against the same call whose rules need no sources.

CPU time of calls in one interleaved run, by the size of what the run has read. Each call names an address that no text has,
which is the slowest case. Fails above the limits.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
import tracemalloc

from handrail import READ, WRITE, Access, Call, Deny, Executor, Toolset, tool
from handrail.permissions import Answer, Pending
from handrail.policy import Rulebook
from handrail.sources import Heard

RESULT = 5_000
LIMITS = {0: 1.3, 10_000: 1.3, 100_000: 1.6, 1_000_000: 3.5}
"""The most a call may cost, by the characters read before, in times the other call."""
CALLS, ROUNDS = 20, 15
ASKS = '[[rule]]\nid = "sends"\ndecide = "ask"\ntools = ["send"]\n[[rule]]\ndecide = "allow"\ntools = ["read"]'


@tool(effect=READ, touches=lambda **_: ())
async def read(part: int) -> str:
    """Read a part of the history."""
    return f"{part} write to anna{part}@example.com. " + "word and more " * (RESULT // 14)


@tool(effect=WRITE, touches=lambda to, **_: Access(WRITE, f"email:{to}"))
async def send(to: str) -> str:
    """Send a mail."""
    return to


async def decline(_pending: Pending) -> Answer:
    return Deny("No.")


async def prepare(policy: Rulebook, size: int, said: list[str] | None) -> Executor:
    """Return an executor whose run has read this much. Without words, nothing is looked up."""
    executor = Executor(Toolset(read, send), policy=policy, approvals=decline)
    turn = executor.turn("0", run="R", said=said)
    for part in range(size // RESULT):
        await executor.run(Call("read", {"part": part}, f"r{part}"), turn=turn)
    return executor


async def spend(executor: Executor, round_: int) -> float:
    """Return the CPU seconds of some calls, each to another address."""
    began = time.process_time()
    for number in range(CALLS):
        turn = executor.turn(f"{round_}-{number}", run="R")
        await executor.run(Call("send", {"to": f"x{round_}.{number}@evil.example"}, "c"), turn=turn)
    return time.process_time() - began


async def measure(size: int) -> float:
    """Return how many times as much a looked-up call costs."""
    plain = await prepare(Rulebook.from_toml(ASKS), size, None)
    looked_up = await prepare(Rulebook(sources=True), size, ["Summarise my mails."])
    await spend(looked_up, -1)
    await spend(plain, -1)
    ratios = []
    for round_ in range(ROUNDS):
        before = await spend(plain, round_)
        ratios.append(await spend(looked_up, round_) / before)
    return statistics.median(ratios)


def measure_memory() -> float:
    """Return the memory of the searched texts, in times the texts."""
    from handrail import Result

    texts = [f"{part} " + "word and more " * (RESULT // 14) for part in range(200)]
    tracemalloc.start()
    heard = Heard()
    for part, text in enumerate(texts):
        heard.add("read", "{}", Result(f"r{part}", text))
    sizes = sum(len(one.text) for one in heard.reads)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return used / sizes


def main() -> int:
    """Print one line for each size, and return whether one is above its limit."""
    wrong = 0
    for size, limit in LIMITS.items():
        ratio = asyncio.run(measure(size))
        wrong += ratio > limit
        print(f"{size:>9,} characters read: {ratio:.2f} times, at most {limit}")
    print(f"memory: {measure_memory():.2f} times the texts")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
