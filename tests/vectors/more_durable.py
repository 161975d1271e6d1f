"""Hostile databases of durable runs."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from vectors.stage import Check

PROGRAM = """
import os, sys, time, anyio
from handrail import Text
from handrail.agent import Agent
from handrail.messages import Reply
from handrail.runs._engine import dbos_engine
from handrail.runs.durable import DurableRuns
from runs.durable.planted import Attacker

async def model(request):
    return Reply((Text("Hello."),))

async def start():
    async with runs:
        await runs.start("a", "Hello?", run_id="victim")
    Attacker("runs.db", mark).plant_status("victim:0", "ENQUEUED")

async def work():
    async with runs.work(interval=0.02):
        while not mark.exists() and not await runs.list("failed"):
            await anyio.sleep(0.02)

mark = __import__("pathlib").Path("mark").absolute()
runs = DurableRuns("runs.db", {"a": Agent(model)}, poll=0.02)
if sys.argv[1] == "unguarded":
    dbos_engine.refuse_pickles = lambda: None
anyio.run(start)
anyio.run(work)
"""


def _planted(_given: Any, root: Path, *, judged: bool) -> bool:
    """A pickle in a row of a queued run does not run; the control lets DBOS read it."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    subprocess.run(  # noqa: S603
        [sys.executable, "-c", PROGRAM, "guarded" if judged else "unguarded"],
        cwd=root,
        check=True,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )
    return not (root / "mark").exists()


def _private(_given: Any, root: Path, *, judged: bool) -> bool:
    """The file is the owner's alone; the control lets SQLite create it."""
    from handrail.runs._store.database import Database

    before = os.umask(0o022)
    try:
        if judged:
            database = Database(str(root / "runs.db"))
            database.read_now("SELECT 1", {})
            database.close()
        else:
            sqlite3.connect(root / "runs.db").close()
    finally:
        os.umask(before)
    return (root / "runs.db").stat().st_mode & 0o077 == 0


CHECKS: dict[str, Check] = {"t4-durable-001": _planted, "t4-durable-002": _private}
