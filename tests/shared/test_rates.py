"""Rate limits over all processes: exact in any period, by tool and by principal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail import READ, Call, Executor, Toolset, tool
from handrail.hooks import rate_limit
from handrail.runs import open_runs
from handrail.shared import SharedRates

TESTS = Path(__file__).parents[1]
SPENDER = """
import sys
import anyio
from handrail import READ, Call, Executor, Toolset, tool
from handrail.hooks import rate_limit
from handrail.shared import SharedRates

@tool(effect=READ, touches=lambda: ())
def look() -> str:
    return "seen"

async def main():
    hook = rate_limit(20, seconds=3600, rates=SharedRates(sys.argv[1]))
    async with Executor(Toolset(look), hooks=[hook]) as executor:
        calls = [Call("look", {}, f"c{n}") for n in range(30)]
        results = await executor.run_all(calls)
    print(sum(one.failure is None for one in results))

anyio.run(main)
"""


@tool(effect=READ, touches=lambda: ())
def look() -> str:
    """Look."""
    return "seen"


@tool(effect=READ, touches=lambda: ())
def ask() -> str:
    """Ask."""
    return "said"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def run(executor: Executor, name: str, who: str = "ada") -> str:
    call = Call(name, {}, "c")
    (result,) = await executor.run_all([call], turn=executor.turn(principal=who))
    return result.text


def limit(name: str, most: int, wait: str, period: str = "60") -> str:
    return (
        f"Not run: '{name}' is limited to {most} calls in {period} s. Retry in {wait} s, and "
        "continue with other work until then."
    )


async def test_two_processes_share_exact_limits(database: str) -> None:
    clock = Clock()
    executors = [
        Executor(
            Toolset(look, ask),
            hooks=[
                rate_limit(
                    3, seconds=60, per_tool={"ask": 2}, rates=SharedRates(database, clock=clock)
                )
            ],
        )
        for _ in range(2)
    ]
    said: list[str] = []
    for n, (seconds, name) in enumerate(
        [(0, "look"), (10, "look"), (10, "look"), (5, "look"), (0, "ask"), (0, "ask"), (0, "ask")]
    ):
        clock.now += seconds
        said.append(await run(executors[n % 2], name))
    clock.now = 1_060.0  # the first one is a minute old, the second is not
    said += [await run(executors[0], "look"), await run(executors[1], "look", "bob")]

    assert said == [
        *["seen"] * 3,
        limit("look", 3, "35"),
        *["said"] * 2,
        limit("ask", 2, "60"),
        "seen",
        limit("look", 3, "10"),
    ]


async def test_each_principal_or_tenant_can_have_its_own(sqlite: str) -> None:
    store, clock = open_runs(sqlite), Clock()
    with store:
        own = rate_limit(2, seconds=60, rates=SharedRates(store, per="principal", clock=clock))
        some = SharedRates(
            store, per=lambda who: who.principal if who.principal == "eve" else None, name="some"
        )
        both = [own, rate_limit(1, seconds=60, rates=some)]
        executor = Executor(Toolset(look), hooks=both)
        said = [await run(executor, "look", who) for who in ("ada", "ada", "bob", "ada", "eve")]
        said.append(await run(executor, "look", "eve"))

    assert said == ["seen", "seen", "seen", limit("look", 2, "60"), "seen", said[-1]]
    assert said[-1].startswith("Not run: 'look' is limited to 1 call in 60 s.")


def test_processes_at_once_do_not_exceed_a_limit(database: str) -> None:
    command = [sys.executable, "-c", SPENDER, database]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]  # noqa: S603
    counts = [int(process.communicate()[0]) for process in started]

    assert sum(counts) == 20


async def test_old_rows_are_removed(sqlite: str) -> None:
    clock, names = Clock(), ("ada", "bob")
    for who in names:
        rates = SharedRates(sqlite, per="principal", clock=clock)
        await run(Executor(Toolset(look), hooks=[rate_limit(2, rates=rates)]), "look", who)
        clock.now += 100_000
    with open_runs(sqlite) as store:
        rows = await anyio.to_thread.run_sync(
            store.select, "SELECT name, holder FROM handrail_rate", {}
        )

    assert rows == [("calls/look/1.0", "bob")]


async def test_limits_for_several_periods_do_not_shorten_each_other(database: str) -> None:
    clock = Clock()
    rates = SharedRates(database, clock=clock)
    hooks = [rate_limit(most, seconds=s, rates=rates) for most, s in ((2, 1), (3, 3600))]
    executor = Executor(Toolset(look), hooks=hooks)
    said: list[str] = []
    for _ in range(4):
        said.append(await run(executor, "look"))
        clock.now += 5

    assert said == [*["seen"] * 3, limit("look", 3, "3585", "3600")]


async def test_a_short_limit_removes_no_counts_of_longer_ones(sqlite: str) -> None:
    clock, week = Clock(), 7 * 86_400
    long, short = (SharedRates(sqlite, name=name, clock=clock) for name in ("long", "short"))
    weekly = Executor(Toolset(look), hooks=[rate_limit(1, seconds=week, rates=long)])
    often = Executor(Toolset(look), hooks=[rate_limit(9, seconds=1, rates=short)])
    said = [await run(weekly, "look"), await run(often, "look")]
    clock.now += 100_000
    said += [await run(often, "look"), await run(weekly, "look")]

    assert said == [*["seen"] * 3, limit("look", 1, "504800", "604800").replace("calls", "call")]


@pytest.mark.parametrize("options", [{"per_tool": {"look": 1001}}, {"calls": 1001}])
def test_a_limit_has_a_largest_value(options: Any) -> None:
    with pytest.raises(ValueError, match="at most 1,000 calls, not 1,001"):
        rate_limit(**{"calls": 1, **options}, rates=SharedRates("runs.db"))
    with pytest.raises(ValueError, match="pass 'principal', 'tenant' or a function"):
        SharedRates("runs.db", per="user")  # type: ignore[arg-type]
