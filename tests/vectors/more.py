"""More attacks. Each is tried, and each is lost by its control, which has no guard."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from vectors import (
    more_bounds,
    more_consequences,
    more_durable,
    more_files,
    more_freezes,
    more_lines,
    more_network,
    more_own_files,
    more_programs,
    more_races,
    more_sandbox,
    more_values,
)
from vectors.stage import Check, host

DATA = Path(__file__).parent.parent / "data"
CHECKS: dict[str, Check] = {
    **more_lines.CHECKS,
    **more_files.CHECKS,
    **more_values.CHECKS,
    **more_sandbox.CHECKS,
    **more_network.CHECKS,
    **more_freezes.CHECKS,
    **more_own_files.CHECKS,
    **more_durable.CHECKS,
    **more_programs.CHECKS,
    **more_bounds.CHECKS,
    **more_consequences.CHECKS,
    **more_races.CHECKS,
}


def vectors() -> dict[str, dict[str, Any]]:
    """All of them, by id."""
    files = sorted(DATA.glob("more-vectors-*.jsonl"))
    lines = [json.loads(text) for file in files for text in file.read_text("utf-8").splitlines()]
    return {one["id"]: one for one in lines if "id" in one}


def by_category() -> dict[str, list[dict[str, Any]]]:
    """All of them, by category."""
    found = defaultdict[str, list[dict[str, Any]]](list)
    for vector in vectors().values():
        found[vector["category"]].append(vector)
    return found


def control_caught(tried: list[dict[str, Any]]) -> int:
    """How many of them are lost without a guard."""
    return sum(not holds(vector, judged=False) for vector in tried)


def holds(vector: dict[str, Any], *, judged: bool = True) -> bool:
    """Whether a vector is held, in a new repository in a new home folder."""
    with tempfile.TemporaryDirectory(prefix=".handrail-test-", dir=Path.home()) as folder:
        root = Path(folder).resolve() / "ws"
        root.mkdir()
        host(root, "git init -q")
        return CHECKS[vector["id"]](vector["input"], root, judged=judged)
