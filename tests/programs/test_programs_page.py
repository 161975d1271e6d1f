"""The table on the page about programs is what the benchmark computes."""

from __future__ import annotations

import re
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
    printed = done.stdout.splitlines()
    below = page.partition(f"{printed[0]}\n")[2].partition("\n\n")[0].splitlines()
    cells = done.stdout.splitlines()[-1].split(" | ")[2:]
    ways = [
        [int(one) for one in re.findall(r"\d+", cell.replace(", ", " ").replace(",", ""))]
        for cell in cells
    ]

    assert [line for line in below if line not in printed] == []
    assert (len(below), below[-1]) == (1 + 3 + 1, printed[-1])
    assert len(printed) == 2 + 10 + 1
    assert [requests for requests, *_ in ways] == [98, 45, 20]
    (_, *alone), (_, *parallel), (_, *program) = ways
    assert is_more(alone, program, (19.6, 6.7))
    assert is_more(parallel, program, (8.1, 4.7))
    assert not is_more(parallel, alone, (1.0, 1.0))


def is_more(tokens: list[int], than: list[int], times: tuple[float, float]) -> bool:
    """Whether a way costs so many times more tokens, without caching and with it."""
    pairs = zip(tokens, than, times, strict=True)
    return all(one >= most * other for one, other, most in pairs)
