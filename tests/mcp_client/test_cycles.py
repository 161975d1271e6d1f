"""Many connections at once, each opened, used, cancelled and closed: nothing is left of them."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import resource
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import httpx2
import pytest

from conftest import PROFILE
from halfway import find_leaks
from handrail import FailureKind
from handrail.mcp import Effects, HttpServer, StdioServer
from mcp_client.stage import connected, raw
from mcp_client.test_sdk_servers import serving

pytestmark = pytest.mark.timeout(1_200)
CYCLES = 200 if PROFILE == "soak" else 20
ROUNDS = 5 if PROFILE == "soak" else 1
"""All cycles of all rounds: 1,000 in a soak."""
AT_ONCE = CYCLES
EFFECTS = Effects(reads=("add", "echo", "wait"))
MARK = "cycle-of-a-test"
START_SECONDS = 300.0
"""How long a connection has to open: all of them open at once, on however few cores."""


def count_servers() -> int:
    """Servers of these tests that run."""
    servers = 0
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            servers += MARK.encode() in file.read_bytes()
        except OSError:
            continue
    return servers


def count_open() -> tuple[int, int, int]:
    """File descriptors of this process, servers of these tests, and tasks of the event loop."""
    files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    return files, count_servers(), len(asyncio.all_tasks())


async def settle(before: tuple[int, int, int]) -> tuple[int, int, int]:
    """Wait until no more is open than before; the loop reaps processes a little later."""
    with anyio.move_on_after(20):
        while any(now > then for now, then in zip(count_open(), before, strict=True)):
            gc.collect()
            await anyio.sleep(0.05)
    return count_open()


async def live(server: object, failures: list[object], limit: anyio.CapacityLimiter) -> None:
    """Open a connection, call, cancel a call, and close."""
    async with limit:
        try:
            async with (
                connected(server, effects=EFFECTS, start_seconds=START_SECONDS) as stage,
                anyio.create_task_group() as tasks,
            ):
                kinds: list[object] = []
                over_http = isinstance(server, HttpServer)
                args = {"a": 1, "b": 2} if over_http else {"text": "3"}
                result = await stage.call("add" if over_http else "echo", **args)
                kinds.append(result.text)

                async def hang() -> None:
                    held = await stage.call("wait", **({"label": MARK} if over_http else {}))
                    kinds.append(held.failure and held.failure.kind)

                tasks.start_soon(hang)
                await anyio.sleep(0.05)
                stage.executor.cancel()
            if kinds != ["3", FailureKind.CANCELLED]:
                failures.append(kinds)
        except Exception as error:  # noqa: BLE001  each is a failure of the test
            failures.append(error)


async def run_cycles(server: object, count: int) -> list[object]:
    failures: list[object] = []
    limit = anyio.CapacityLimiter(AT_ONCE)
    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(live, server, failures, limit)
    return failures


def measure_memory() -> tuple[int, int]:
    """Return the objects and the KiB that this process holds, without garbage and free memory.

    The peak would say something else: how many connections happened to be open at the same time.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return len(gc.get_objects()), pages * resource.getpagesize() // 1024


async def check_memory(server: object) -> None:
    """Run all rounds. After the last, the process holds no more than after the first."""
    assert await run_cycles(server, 1) == []
    before, sizes = await settle(count_open()), list[tuple[int, int]]()
    assert before[1] == 0
    for _ in range(ROUNDS):
        assert await run_cycles(server, CYCLES) == []
        assert await settle(before) <= before
        sizes.append(measure_memory())
        print(f"{sizes[-1][0]} objects, {sizes[-1][1]} KiB")  # noqa: T201  for `pytest -s`

    assert not is_grown(sizes[0], sizes[-1]), sizes


def is_grown(first: tuple[int, int], last: tuple[int, int]) -> bool:
    """Return whether 800 cycles kept more than two objects or 25 KiB each."""
    return last[0] - first[0] > 1_600 or last[1] - first[1] > 20_000


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_connections_to_programs_leave_nothing_behind(anyio_backend: str) -> None:
    await check_memory(raw(MARK))


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_connections_to_a_port_leave_nothing_behind(anyio_backend: str) -> None:
    with serving() as (server, _):
        await check_memory(server)


def count_trust() -> int:
    """Copies of the certificates that this machine trusts, each of almost a megabyte."""
    return sum(isinstance(kept, ssl.SSLContext) for kept in gc.get_objects())


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_connections_share_one_copy_of_the_certificates(anyio_backend: str) -> None:
    with serving() as (server, _):
        async with connected(server), AsyncExitStack() as more:
            one = count_trust()
            for _ in range(3):
                await more.enter_async_context(connected(server))
            shared = count_trust() - one
            bare = [httpx2.AsyncClient() for _ in range(3)]
            copied = count_trust() - one
            for client in bare:
                await client.aclose()

    assert (shared, copied) == (0, 3)


@pytest.mark.parametrize(
    "kept_by_a_cycle", [lambda: [[], [], []], lambda: [bytes(1024) for _ in range(50)]]
)
def test_the_measure_sees_what_cycles_keep(kept_by_a_cycle: Callable[[], object]) -> None:
    before = measure_memory()
    kept = [kept_by_a_cycle() for _ in range(800)]
    during = measure_memory()
    kept.clear()

    assert (is_grown(before, during), is_grown(before, measure_memory())) == (True, False)


def test_a_connection_that_is_closed_while_it_opens_leaves_nothing_behind() -> None:
    idle = StdioServer(
        name="idle", command="/bin/sh", args=("-c", "read line", MARK), sandbox=False
    )

    async def connect() -> None:
        async with connected(idle):
            pytest.fail("it never answers")

    assert find_leaks(connect) == []
    assert count_servers() == 0
