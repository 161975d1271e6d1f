"""Programs that wait for approval hold no worker and no interpreter."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from handrail import Allow
from handrail.runs.durable import DurableRuns
from programs.tools import find_workers
from runs.durable.programs import judge_program, make_program_agents
from runs.durable.shop import Ledger

PARKED = 1_000 if os.environ.get("HANDRAIL_PROFILE") == "soak" else 20
ANSWERED = 10


@pytest.mark.timeout(3600)
async def test_parked_programs_hold_no_worker_and_no_interpreter(
    tmp_path: Path, sqlite: str
) -> None:
    """With all interpreters killed and another worker, each of them pays what it would have paid."""
    ledger = Ledger(tmp_path / "ledger")
    names = [f"run{number}" for number in range(PARKED)]
    first = DurableRuns(sqlite, make_program_agents(ledger), poll=0.05)
    async with first.work(interval=0.1, drain_seconds=5):
        for name in names:
            await first.start("program", "Do it.", run_id=name)
        parked = {(await first.wait(name)).status for name in names}
        free = find_workers()
    for worker in free:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)

    second = DurableRuns(sqlite, make_program_agents(ledger), poll=0.05)
    async with second.work(interval=0.1, drain_seconds=5):
        chosen = names[:: PARKED // ANSWERED]
        for name in chosen:
            [pending] = await second.inbox(run_id=name)
            await second.answer(pending.id, Allow())
        ended = [(await second.wait(name, seconds=600)).status for name in chosen]
        left = {(await second.get(name)).status for name in {*names} - {*chosen}}

    judged = [await judge_program(ledger.path, sqlite, name) for name in chosen]
    assert len(free) <= 2 * 8  # free ones, of the pool and around them
    assert (parked, left, ended) == ({"waiting"}, {"waiting"}, ["done"] * ANSWERED)
    assert judged == [([], 0)] * ANSWERED
