"""Workers are killed inside programs; the program's own record is compared with a ledger."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from anyio import to_thread

from handrail.messages import ToolResults
from handrail.runs.durable import DurableRuns
from runs.durable.programs import judge_program, make_program_agents
from runs.durable.shop import Ledger
from runs.durable.test_chaos import kill_often
from runs.durable.workers import Forks

KILLS = 15
SOAK_KILLS = 300
NAMED: list[list[str | float]] = [
    ["turn.begun:1", "call.recorded:1", "call.begun:1", "call.intended:1", "call.ran:1"],
    ["call.stored:1", "call.recorded:2", "call.intended:2", "call.ran:2", "call.stored:2"],
    ["run.parked:1", "run.asked:1", "answer.given:1", "answers.taken:1", "call.intended:1"],
    ["call.intended:3", "call.ran:3", "turn.recorded:1", "call.recorded:1", "call.ran:1"],
    ["model.recorded:1", "run.sealed:1", "call.stored:1", "turn.recorded:1", "run.ended:1"],
]


@pytest.mark.timeout(3600)
async def test_no_payment_of_a_program_is_doubled_or_lost(
    forks: Forks, tmp_path: Path, database: str
) -> None:
    chance = random.Random(11)  # noqa: S311  only a test
    wanted = SOAK_KILLS if os.environ.get("HANDRAIL_PROFILE") == "soak" else KILLS
    await to_thread.run_sync(forks.warm, database)
    plan, killed, wrong, unknown = [*NAMED], 0, dict[str, list[str]](), 0
    where, runs = (tmp_path / "ledger", database), 0
    while killed < wanted:
        runs += 1
        run = f"run{runs}"
        how = plan.pop(0) if plan else [chance.uniform(0.05, 0.4) for _ in range(5)]
        killed += len(await to_thread.run_sync(kill_programs, forks, where, run, how))
        found, lost = await judge_program(tmp_path / "ledger", database, run)
        unknown += lost
        wrong |= {run: found} if found else {}

    print(f"\n{killed} kills, {runs} programs: {len(wrong)} wrong, {unknown} unknown")  # noqa: T201
    assert wrong == {}
    assert unknown


def kill_programs(
    forks: Forks, where: tuple[Path, str], run: str, how: list[str | float]
) -> list[str | float]:
    return kill_often(forks, where, run, how, agent="program", pause=0.005)


async def test_without_recorded_reads_the_judge_finds_another_payment(
    forks: Forks, tmp_path: Path, sqlite: str
) -> None:
    options = {"agent": "program", "control": "no reads", "pause": 0.005}
    ledger = tmp_path / "ledger"
    assert forks.run(ledger, sqlite, "r", crash="call.ran:1", **options)
    assert not forks.run(ledger, sqlite, "r", **options)

    wrong, _ = await judge_program(ledger, sqlite, "r")
    assert wrong != []


async def test_a_payment_of_what_was_read_is_made_once_with_the_first_value(
    forks: Forks, tmp_path: Path, sqlite: str
) -> None:
    ledger = tmp_path / "ledger"
    assert forks.run(ledger, sqlite, "r", crash="call.stored:1", agent="program")
    assert not forks.run(ledger, sqlite, "r", agent="program")

    assert await judge_program(ledger, sqlite, "r") == ([], 0)


@pytest.mark.parametrize("crash", ["call.stored:1", ""])
async def test_a_program_that_has_begun_is_not_refused_by_a_newer_version(
    forks: Forks, tmp_path: Path, sqlite: str, crash: str
) -> None:
    """Its model would read that nothing was called, and pay again. Without a crash, it is refused."""
    ledger = Ledger(tmp_path / "ledger")
    if crash:
        assert forks.run(ledger.path, sqlite, "r", crash=crash, agent="program")
    newer = DurableRuns(sqlite, make_program_agents(ledger, newer=True), poll=0.05)
    async with newer.work(interval=0.1, drain_seconds=5):
        if not crash:
            await newer.start("program", "Do it.", run_id="r")
        run = await newer.wait("r", seconds=40)

    assert run.state is not None
    [results] = [one for one in run.state.messages if isinstance(one, ToolResults)]
    assert ("Nothing was called" in results.results[0].text) is not bool(crash)
    assert bool(ledger.count()) is bool(crash)
