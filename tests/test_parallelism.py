"""Side by side in real time: as fast as without the library, and the loop is always free."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio
import anyio.to_thread

from handrail import READ, WRITE, Access, Call, Executor, Kind, Toolset, tool

PAUSE = 0.05
SLACK = 0.002
"""Seconds that a machine with other work may take away."""
ROUNDS = 7


@tool(effect=READ)
async def pause(n: int) -> int:
    """Wait a little."""
    await anyio.sleep(PAUSE)
    return n


@tool(effect=READ)
def block(n: int) -> int:
    """Wait a little, in a thread."""
    time.sleep(PAUSE)
    return n


@tool(effect=READ)
def block_for_long() -> str:
    """Wait for two seconds, in a thread."""
    time.sleep(2)
    return "done"


def calls(name: str, count: int = 10) -> list[Call]:
    return [Call(name, f'{{"n": {n}}}', str(n)) for n in range(count)]


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


@contextmanager
def no_collection() -> Iterator[None]:
    """What earlier tests left behind is not collected now."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def all_of(bare: Callable[[int], Awaitable[object]]) -> None:
    """What somebody writes who has no library."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        async with anyio.create_task_group() as tasks:
            for n in range(10):
                tasks.start_soon(bare, n)
    else:
        await asyncio.gather(*(bare(n) for n in range(10)))


async def check_ratio(name: str, bare: Callable[[int], Awaitable[object]], most: float) -> None:
    """A batch takes at most so many times what its tools take without the library."""
    async with Executor(Toolset(pause, block)) as executor:
        batch = calls(name)
        expected = [str(n) for n in range(10)]
        assert [one.text for one in await executor.run_all(batch)] == expected
        with no_collection():
            rounds = [
                (await timed(lambda: all_of(bare)), await timed(lambda: executor.run_all(batch)))
                for _ in range(ROUNDS)
            ]
    without, ours = min(one for one, _ in rounds), min(one for _, one in rounds)
    told = f"{ours / without:.3f} times a bare gather ({ours * 1000:.1f} ms)"
    assert ours <= most * without + SLACK, told


async def test_ten_async_tools_take_as_long_as_a_bare_gather() -> None:
    async def bare(_n: int) -> None:
        await anyio.sleep(PAUSE)

    await check_ratio("pause", bare, 1.05)


async def test_ten_sync_tools_take_little_longer_than_ten_bare_threads() -> None:
    async def bare(_n: int) -> None:
        await anyio.to_thread.run_sync(time.sleep, PAUSE)

    await check_ratio("block", bare, 1.1)


async def longest_gap(work: Callable[[], Awaitable[object]], beat: float) -> float:
    """For how long, beyond a beat, a task that wants to go every beat was not let."""
    longest, done = 0.0, False

    async def heart() -> None:
        nonlocal longest
        last = time.perf_counter()
        while not done:
            await anyio.sleep(beat)
            now = time.perf_counter()
            longest = max(longest, now - last - beat)
            last = now

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heart)
        await anyio.sleep(beat)
        await work()
        done = True
    return longest


async def test_the_loop_is_never_blocked_while_tools_run() -> None:
    async with Executor(Toolset(pause, block)) as executor:
        batch = [*calls("pause"), *calls("block")]
        await executor.run_all(batch)
        with no_collection():
            gaps = [
                await longest_gap(lambda: executor.run_all(batch), beat=0.001)
                for _ in range(ROUNDS)
            ]

    assert min(gaps) <= 0.005, f"blocked for {min(gaps) * 1000:.1f} ms"


async def test_a_long_sync_tool_misses_no_heartbeat() -> None:
    async with Executor(Toolset(block_for_long)) as executor:
        with no_collection():
            late = await longest_gap(
                lambda: executor.run_all([Call("block_for_long", {}, "1")]), beat=0.05
            )

    assert late < 0.05, f"a heartbeat came {late * 1000:.1f} ms late"


async def test_as_many_sync_tools_run_side_by_side_as_are_allowed() -> None:
    async with Executor(Toolset(block)) as executor:
        batch = calls("block", 100)
        await executor.run_all(batch)
        taken = min([await timed(lambda: executor.run_all(batch)) for _ in range(3)])

    assert taken < 100 * PAUSE / 20, f"{taken:.2f} s"


async def test_a_thousand_calls_that_wait_are_cancelled_in_no_time() -> None:
    @tool(effect=WRITE, touches=lambda **_: Access(WRITE, "db:x"))
    async def change(n: int) -> int:
        """Wait for ever."""
        await anyio.sleep_forever()
        return n

    taken = 0.0

    async def stop() -> None:
        nonlocal taken
        await anyio.sleep(0.05)
        began = time.process_time()
        executor.cancel()
        taken = time.process_time() - began

    async with Executor(Toolset(change)) as executor, anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        results = await executor.run_all(calls("change", 1000))

    kinds = [one.failure.kind for one in results if one.failure]
    assert kinds == [Kind.UNKNOWN, *[Kind.CANCELLED] * 999]
    assert taken < 0.5, f"{taken:.2f} s"
