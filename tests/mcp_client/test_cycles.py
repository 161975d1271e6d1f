"""Many connections at once, each opened, used, cancelled and closed: nothing is left of them."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
from pathlib import Path

import anyio
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
                connected(server, effects=EFFECTS) as stage,
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


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_connections_to_programs_leave_nothing_behind(anyio_backend: str) -> None:
    assert await run_cycles(raw(MARK), 1) == []
    before, sizes = await settle(count_open()), list[int]()
    for _ in range(ROUNDS):
        assert await run_cycles(raw(MARK), CYCLES) == []
        assert await settle(before) <= before
        sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

    assert before[1] == 0
    assert sizes[-1] - sizes[0] < 20_000  # KiB, from the first 200 to all 1,000


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_connections_to_a_port_leave_nothing_behind(anyio_backend: str) -> None:
    with serving() as (server, _):
        assert await run_cycles(server, 1) == []
        before, sizes = await settle(count_open()), list[int]()
        for _ in range(ROUNDS):
            assert await run_cycles(server, CYCLES) == []
            assert await settle(before) <= before
            sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

    assert sizes[-1] - sizes[0] < 20_000


def test_a_connection_that_is_closed_while_it_opens_leaves_nothing_behind() -> None:
    idle = StdioServer(
        name="idle", command="/bin/sh", args=("-c", "read line", MARK), sandbox=False
    )

    async def connect() -> None:
        async with connected(idle):
            pytest.fail("it never answers")

    assert find_leaks(connect) == []
    assert count_servers() == 0
