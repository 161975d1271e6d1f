"""The interpreters of programs are killed at every crash point; a ledger is compared with the program's own record."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail import Allow
from handrail.programs._program import Program
from handrail.runs._store import points
from handrail.runs.durable import DurableRuns
from programs.tools import find_workers
from runs.durable.programs import judge_program, make_program_agents
from runs.durable.shop import Ledger

KILLS = 12
SOAK_KILLS = 300
MOST_AT_ONCE = 5
"""Kills in one program."""


class Killer:
    """Kills the interpreters of this process when a run reaches chosen points, by their order."""

    def __init__(self, *wanted: int) -> None:
        self.reached = 0
        self.kills = 0
        self._wanted = {*wanted}

    def __call__(self, _point: str) -> None:
        self.reached += 1
        if self.reached in self._wanted:
            workers = find_workers()
            for worker in workers:
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            self.kills += bool(workers)


async def finish(runs: DurableRuns, run: str) -> None:
    """Run a program to its end, and allow what it asks."""
    await runs.start("program", "Do it.", run_id=run)
    with anyio.fail_after(60):
        while (await runs.get(run)).status in {"queued", "running", "waiting"}:
            for pending in await runs.inbox():
                await runs.answer(pending.id, Allow())
            await anyio.sleep(0.01)


@pytest.mark.timeout(3600)
async def test_a_killed_interpreter_doubles_and_loses_no_payment(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(12)  # noqa: S311  only a test
    wanted = SOAK_KILLS if os.environ.get("HANDRAIL_PROFILE") == "soak" else KILLS
    ledger = Ledger(tmp_path / "ledger")
    found: dict[str, tuple[list[str], int]] = {}
    killed = 0
    runs = DurableRuns(database, make_program_agents(ledger), poll=0.01)
    async with runs.work(interval=0.1, drain_seconds=5):
        passing = Killer()
        monkeypatch.setattr(points, "on_point", passing)
        await finish(runs, "untouched")
        order = [*range(1, passing.reached + 1)]
        chance.shuffle(order)
        while killed < wanted:
            chosen = [order.pop() for _ in range(MOST_AT_ONCE) if order]
            killer = Killer(*(chosen or chance.sample(range(1, passing.reached), MOST_AT_ONCE)))
            monkeypatch.setattr(points, "on_point", killer)
            run = f"run{len(found) + 1}"
            await finish(runs, run)
            killed += killer.kills
            found[run] = await judge_program(ledger.path, database, run)

    print(f"\n{killed} kills, {len(found)} programs, {passing.reached} points")  # noqa: T201
    assert found == dict.fromkeys(found, ([], 0))


async def test_a_program_that_does_not_begin_again_is_found(
    tmp_path: Path, sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without the second beginning, a killed interpreter ends its program."""

    async def go_on(self: Any, outcomes: Any) -> Any:
        return await self._step(partial(self._session.settle, outcomes))

    ledger = Ledger(tmp_path / "ledger")
    runs = DurableRuns(sqlite, make_program_agents(ledger), poll=0.01)
    monkeypatch.setattr(Program, "_go_on", go_on)
    monkeypatch.setattr(points, "on_point", Killer(*range(1, 100)))
    async with runs.work(interval=0.1, drain_seconds=5):
        await finish(runs, "run1")

    with pytest.raises(AssertionError, match="The program was stopped"):
        await judge_program(ledger.path, sqlite, "run1")
