"""What a command costs until it has printed, in CPU time, beside the imports it cannot do without."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from math import inf
from pathlib import Path

from definition import Row

RUNS = 15


def rows() -> list[Row]:
    """The version, the help, and a list of the coding tools."""
    return [
        row("--version", "import click", 1.5),
        row("--help", "import click", 1.5),
        row("tools list", "import handrail, click", 2),
    ]


def row(arguments: str, beside: str, times: float) -> Row:
    """One interleaved run; the least of many is nearest to the cost."""
    ours = theirs = inf
    for _ in range(RUNS):
        ours = min(ours, spent([str(script()), *arguments.split()]))
        theirs = min(theirs, spent([sys.executable, "-c", beside]))
    held = f"ratio {ours / theirs:.2f} <= {times:g}, to {beside}"
    return Row(
        f"handrail {arguments}", ours * 1e3, theirs * 1e3, "ms CPU", held, ours <= times * theirs
    )


def script() -> Path:
    """The console script of this interpreter's environment."""
    return Path(sys.executable).with_name("handrail")


def spent(command: list[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True, cwd=folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
