"""What a sandbox costs: beside the identical bubblewrap command line, and beside bare bash.

Sides take turns, and the medians of a round are compared. Of several rounds the best one counts:
whatever else the machine does only ever adds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio

from definition import Row
from handrail.sandbox import Sandbox

TURNS = 60
ROUNDS = 4
MOST_RATIO = 1.15
MOST_ADDED = 1.0
MOST = 15.0
BASH = ["/bin/bash", "--noprofile", "--norc", "-c", ":"]


async def ours(sandbox: Sandbox) -> None:
    running = sandbox.start(":")
    while await running.read():
        pass
    await running.wait()
    await running.kill()


@contextmanager
def bubblewrap(sandbox: Any) -> Iterator[Callable[[], None]]:
    """The same arguments with a network of its own, and nothing around them."""
    tier = sandbox._tier  # noqa: SLF001  what it would do is what it is compared with
    protected = tier._setup.find_protected()  # noqa: SLF001
    home = tier._view_home(protected)  # noqa: SLF001
    packed = tier._arguments((protected, home, (), True), sandbox.root, {}, None)  # noqa: SLF001
    words = [os.fsdecode(word) for word in packed.split(b"\0")[:-1]]
    program = os.memfd_create("filter")
    os.write(program, tier._filter)  # noqa: SLF001
    os.lseek(program, 0, os.SEEK_SET)
    alone = [tier._program, "--unshare-net"]  # noqa: SLF001
    argv = [*alone, *words, "--seccomp", str(program), "--", *BASH]
    try:
        yield lambda: bare(argv, [program])
    finally:
        os.close(program)


def bare(argv: list[str], fds: list[int]) -> None:
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=fds,
    ) as process:
        assert process.stdout is not None
        process.stdout.read()
        assert process.wait() == 0


class Clock:
    """Milliseconds since it was last asked."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def passed(self) -> float:
        """So many, and from now on anew."""
        now = time.perf_counter()
        last, self._last = self._last, now
        return 1_000 * (now - last)


async def medians(first: Sandbox, second: Sandbox) -> list[float]:
    """Milliseconds of bubblewrap and of ours in it, of bash and of ours in Landlock."""
    found: list[tuple[float, ...]] = []
    for _ in range(TURNS):
        with bubblewrap(first) as same:
            clock = Clock()
            same()
            plain = clock.passed()
        clock.passed()
        await ours(first)
        wrapped = clock.passed()
        bare(BASH, [])
        bash = clock.passed()
        await ours(second)
        found.append((plain, wrapped, bash, clock.passed()))
    return [statistics.median(side) for side in zip(*found, strict=True)]


async def rounds(root: str) -> list[list[float]]:
    first, second = Sandbox(root, tier="bubblewrap"), Sandbox(root, tier="landlock")
    return [await medians(first, second) for _ in range(ROUNDS)]


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as root:
        made = anyio.run(rounds, root)
    plain, wrapped, *_ = min(made, key=lambda one: one[1] / one[0])
    *_, bash, locked = min(made, key=lambda one: one[3] - one[2])
    ratio, added = wrapped / plain, locked - bash
    held = f"the same, bare: {plain:.2f} ms"
    yield Row("a command in bubblewrap", ratio, MOST_RATIO, "x bwrap", held, ratio <= MOST_RATIO)
    yield Row("a command in bubblewrap, in all", wrapped, MOST, "ms", "", wrapped <= MOST)
    held = f"bare bash: {bash:.2f} ms"
    yield Row("a command in Landlock, added", added, MOST_ADDED, "ms", held, added <= MOST_ADDED)


if __name__ == "__main__":
    for row in rows():
        print(row)
