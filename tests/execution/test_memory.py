"""Ten gigabytes of output in little memory, and an end even where a tool has none.

Each runs in a process of its own, with a bound on the processor time that it may take: how long
that is by the clock is the business of whatever else the machine has to do.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.timeout(240)

MOST = 50 * 1024
"""Kilobytes of memory that ten gigabytes of output may cost."""
FOR_LONG = 200
"""Seconds after which a process is taken for dead."""

SETUP = """
    import resource, sys, time
    from collections.abc import AsyncIterator, Iterator
    import anyio
    from handrail import READ, Call, Executor, LongResults, Toolset, tool

    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    MEGABYTE = "0123456789abcde\\n" * 65536

    def peak() -> int:
        with open("/proc/self/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    @tool(effect=READ, timeout=SECONDS)
    async def async_stream(pieces: int) -> AsyncIterator[str]:
        \"""Say much.\"""
        for _ in range(pieces):
            yield MEGABYTE
        while not pieces:
            yield MEGABYTE

    @tool(effect=READ, timeout=SECONDS)
    async def polite_stream(pieces: int) -> AsyncIterator[str]:
        \"""Say much, and let others go first.\"""
        for _ in range(pieces):
            await anyio.sleep(0)
            yield MEGABYTE
        while not pieces:
            await anyio.sleep(0)
            yield MEGABYTE

    @tool(effect=READ, timeout=SECONDS)
    def sync_stream(pieces: int) -> Iterator[str]:
        \"""Say much, in a thread.\"""
        for _ in range(pieces):
            yield MEGABYTE
        while not pieces:
            yield MEGABYTE

    @tool(effect=READ, timeout=SECONDS)
    def small_pieces(pieces: int) -> Iterator[str]:
        \"""Say much, word by word.\"""
        for n in range(pieces * 1000):
            yield f"{n} "

    TOOLS = Toolset(async_stream, polite_stream, sync_stream, small_pieces)

    async def run(name: str, pieces: int, kept: int = 8 * 1024 * 1024) -> str:
        async with Executor(TOOLS, long_results=LongResults(max_stored_chars=kept)) as executor:
            result = await executor.run(Call(name, f'{{"pieces": {pieces}}}', "1"))
        return f"{result.failure.kind if result.failure else None} {len(result.text) < 25_000}"
"""


def told_by(program: str, backend: str, seconds: float) -> list[str]:
    source = textwrap.dedent(SETUP).replace("SECONDS", str(seconds)) + textwrap.dedent(program)
    done = subprocess.run(  # noqa: S603  our own Python
        [sys.executable, "-c", source, backend],
        capture_output=True,
        encoding="utf-8",
        timeout=FOR_LONG,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", ["async_stream", "sync_stream"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_ten_gigabytes_of_output_cost_little_memory(backend: str, name: str) -> None:
    program = f"""
        anyio.run(run, "{name}", 1, backend=sys.argv[1])
        before = peak()
        print(anyio.run(run, "{name}", 10 * 1024, backend=sys.argv[1]))
        print(peak() - before)
    """

    said, more = told_by(program, backend, seconds=FOR_LONG)

    assert said == "None True"
    assert int(more) < MOST, f"{int(more) / 1024:.0f} MB"


def test_many_small_pieces_cost_about_what_is_kept_of_them() -> None:
    program = """
        anyio.run(run, "small_pieces", 1, 1024 * 1024, backend=sys.argv[1])
        before = peak()
        print(anyio.run(run, "small_pieces", 400, 1024 * 1024, backend=sys.argv[1]))
        print(peak() - before)
    """

    said, more = told_by(program, "asyncio", seconds=FOR_LONG)

    assert said == "None True"
    assert int(more) < 8 * 1024, f"{int(more) / 1024:.1f} MB"


@pytest.mark.parametrize("name", ["async_stream", "polite_stream", "sync_stream"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_output_without_end_is_stopped_when_its_time_is_over(backend: str, name: str) -> None:
    program = f"""
        anyio.run(run, "{name}", 1, backend=sys.argv[1])
        for _ in range(5):
            began = time.monotonic()
            said = anyio.run(run, "{name}", 0, backend=sys.argv[1])
            soon = time.monotonic() - began < 2
            if soon:
                break
        print(said)
        print(soon)
        print(peak())
    """

    said, soon, memory = told_by(program, backend, seconds=0.3)

    assert (said, soon) == ("timeout True", "True")
    assert int(memory) < 200 * 1024
