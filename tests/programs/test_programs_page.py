"""The table on the page about programs is what the benchmark computes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_costs_of_the_ten_tasks() -> None:
    done = subprocess.run(
        [sys.executable, "bench/programs.py", "--table"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    page = (ROOT / "docs/guides/programs.md").read_text(encoding="utf-8")
    ways = [cell.split(",")[0] for cell in done.stdout.splitlines()[-1].split(" | ")[2:]]

    assert done.stdout in page
    assert len(done.stdout.splitlines()) == 2 + 10 + 1
    assert ways == ["98", "45", "20"]
