"""Durable turns beside bare steps of DBOS: statements are counts, CPU is measured by turns.

CPU of a turn is what it costs more than the same turn of the same agent without an engine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from definition import Row

HERE = Path(__file__).parent
LIMITS = {("read 1", 1): 1.15, ("read 10", 10): 0.15, ("pay 1", 1): 1.5, ("pay 10", 10): 0.5}
"""A turn of so many calls beside one bare step, per call."""
MIN_RUNS = 4.0
MAX_PARALLEL = 2.0


def rows() -> list[Row]:
    """On SQLite, and on PostgreSQL if it is installed."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from services import Postgres, find_binaries

    with tempfile.TemporaryDirectory() as folder:
        made = judge("SQLite", measure(str(Path(folder) / "runs.db")))
    if find_binaries() is not None:
        server = Postgres.start()
        try:
            made += judge("PostgreSQL", measure(server.url))
        finally:
            server.stop()
    return made


def measure(url: str) -> dict[str, dict[str, float]]:
    done = subprocess.run(
        [sys.executable, str(HERE / "counted_durable.py"), url],
        check=True,
        stdout=subprocess.PIPE,
        cwd=HERE,
        env=dict(os.environ),
        text=True,
        encoding="utf-8",
    )
    made: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return made


def judge(name: str, seen: dict[str, dict[str, float]]) -> list[Row]:
    """Bare has two steps for each turn: a reply and a result."""
    made = []
    for unit in ("statements", "cpu"):
        step = seen["bare"][unit] / 2
        for (kind, calls), limit in LIMITS.items():
            plain = seen[f"{kind}, plain"][unit] if unit == "cpu" else 0.0
            ratio = max(0.0, seen[kind][unit] - plain - step) / step / calls
            made.append(below(f"{name}, a turn: {kind} call", ratio, limit, unit))
    for unit in ("statements", "cpu", "wall"):
        ratio = seen["naive run"][unit] / seen["run"][unit]
        what = f"{name}, 3 turns of 10: a step each / ours"
        made.append(Row(what, ratio, MIN_RUNS, unit, "at least", ratio >= MIN_RUNS))
    ratio = seen["pay 10"]["wall"] / seen["in order 10"]["wall"]
    made.append(below(f"{name}, 10 in parallel / in order", ratio, MAX_PARALLEL, "wall"))
    return made


def below(what: str, ratio: float, limit: float, unit: str) -> Row:
    return Row(
        what, ratio, limit, unit, "bare step" if "turn" in what else "at most", ratio <= limit
    )
