"""Two more sets of attacks. Each is tried, and each is lost by its control, which has no guard."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from vectors import more_files, more_lines, more_network, more_sandbox, more_values
from vectors.stage import Check, host

DATA = Path(__file__).parent.parent / "data"
CHECKS: dict[str, Check] = {
    **more_lines.CHECKS,
    **more_files.CHECKS,
    **more_values.CHECKS,
    **more_sandbox.CHECKS,
    **more_network.CHECKS,
}


def vectors() -> dict[str, dict[str, Any]]:
    """Both sets, by id."""
    files = sorted(DATA.glob("more-vectors-*.jsonl"))
    lines = [json.loads(text) for file in files for text in file.read_text("utf-8").splitlines()]
    return {one["id"]: one for one in lines if "id" in one}


def holds(name: str, *, judged: bool = True) -> bool:
    """Whether a vector is held, in a new repository in a new home folder."""
    with tempfile.TemporaryDirectory(prefix=".handrail-test-", dir=Path.home()) as folder:
        root = Path(folder).resolve() / "ws"
        root.mkdir()
        host(root, "git init -q")
        return CHECKS[name](vectors()[name]["input"], root, judged=judged)
