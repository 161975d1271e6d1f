"""Workers are killed at every named point and at random; a ledger outside is the judge."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from crash_points import DURABLE_POINTS
from runs.durable.workers import Forks, Verdict, judge

KILLS = 24
"""On each database, in the default profile."""
SOAK_KILLS = 600
"""With those of the fleet, 1,000 on each database."""
NAMED: list[list[str | float]] = [
    ["turn.begun:1", "call.begun:1", "call.intended:1", "call.ran:1", "call.stored:1"],
    ["model.recorded:1", "turn.recorded:1", "run.sealed:1", "run.parked:1", "run.asked:1"],
    ["answer.given:1", "answers.taken:1", "run.ended:1"],
    ["turn.begun:2", "call.begun:2", "call.intended:2", "model.recorded:2"],
    ["call.ran:2", "call.stored:2", "turn.recorded:2"],
    ["run.sealed:2"],
]
"""Where the workers of a run are killed, by run: each point and passage in time to be reached."""
PER_RUN = 10


def kill_often(
    forks: Forks, where: tuple[Path, str], run: str, how: list[str | float], **options: Any
) -> list[str | float]:
    """Kill the workers of a run, one after the other, then let one finish it.

    Returns where they were killed.
    """
    killed: list[str | float] = []
    for one in how:
        crash, after = (one, 0.0) if isinstance(one, str) else ("", one)
        if forks.run(*where, run, crash=crash, kill_after=after, **options):
            killed.append(one)
    assert not forks.run(*where, run, **options)
    return killed


def summarize(killed: int, verdicts: dict[str, Verdict]) -> str:
    seen = verdicts.values()
    return (
        f"\n{killed} kills, {len(seen)} runs: {sum(len(one.doubled) for one in seen)} doubled, "
        f"{sum(len(one.wrong) for one in seen)} lost or wrong, "
        f"{sum(one.unknown for one in seen)} unknown"
    )


@pytest.mark.timeout(3600)
async def test_no_payment_is_doubled_and_no_run_is_lost(
    forks: Forks, tmp_path: Path, database: str
) -> None:
    chance = random.Random(7)  # noqa: S311  only a test
    wanted = SOAK_KILLS if os.environ.get("HANDRAIL_PROFILE") == "soak" else KILLS
    await to_thread.run_sync(forks.warm, database)
    plan = [*NAMED]
    killed: list[str | float] = []
    verdicts: dict[str, Verdict] = {}
    where = (tmp_path / "ledger", database)
    while len(killed) < wanted and len(verdicts) < wanted:
        run = f"run{len(verdicts) + 1}"
        left = min(PER_RUN, wanted - len(killed))
        how = plan.pop(0) if plan else [chance.uniform(0.02, 0.3) for _ in range(left)]
        killed += await to_thread.run_sync(kill_often, forks, where, run, how)
        verdicts[run] = await judge(tmp_path / "ledger", database, run)
        if not len(verdicts) % 20:
            print(summarize(len(killed), verdicts), flush=True)  # noqa: T201  a long run

    print(summarize(len(killed), verdicts))  # noqa: T201  the summary of a long run
    named = {one.partition(":")[0] for one in killed if isinstance(one, str)}
    assert {run: seen for run, seen in verdicts.items() if seen.doubled or seen.wrong} == {}
    assert named == set(DURABLE_POINTS) - {
        "call.recorded",
        "run.cancelled",
    }  # of calls that tools make, and of people
    assert len(killed) >= wanted
    assert any(seen.unknown for seen in verdicts.values())


async def test_without_our_rows_the_judge_finds_payments_that_were_doubled(
    forks: Forks, tmp_path: Path, sqlite: str
) -> None:
    ledger = tmp_path / "ledger"
    forks.run(ledger, sqlite, "r", control="no row", kill_when="pay r/1/pay-2", pause=0.3)
    forks.run(ledger, sqlite, "r", control="no row")

    assert (await judge(ledger, sqlite, "r")).doubled[:1] == ("pay r/1/pay-2",)
