"""What a search costs: beside bare ripgrep, asked the same, its output read to the end.

Sides take turns in one run over one tree of 100,000 small files, and medians are compared. Ours
has the executor, the sandbox that ripgrep runs in, and the page that a model reads.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from definition import Row
from handrail import Call, Executor, Toolset
from handrail.tools import Workspace, glob, grep
from handrail.tools._search.ripgrep import Ripgrep

FOLDERS = 1_000
FILES = 100
TURNS = 11
ENDINGS = ("py", "txt", "md", "js", "c")
TEXT = "\n".join(f"line {n} of some text that nobody looks for" for n in range(12))


class Question(NamedTuple):
    what: str
    name: str
    args: dict[str, Any]
    bare: list[str]
    limit: float


QUESTIONS = (
    Question("grep, 1,000 lines match", "grep", {"pattern": "needle"}, ["-n", "-e", "needle"], 1.3),
    Question(
        "grep, no line matches",
        "grep",
        {"pattern": "no such", "include_ignored": True, "hidden": True},
        ["-n", "--no-ignore", "--hidden", "-e", "no such"],
        1.3,
    ),
    Question("grep, 1,000,000 lines match", "grep", {"pattern": "some"}, ["-n", "-e", "some"], 1.3),
    Question(
        "glob, 1,000 files match",
        "glob",
        {"pattern": "**/file07.*"},
        ["--files", "-g", "**/file07.*"],
        1.3,
    ),
    Question(
        "glob, 20,000 files match",
        "glob",
        {"pattern": "**/*.py"},
        ["--files", "-g", "**/*.py"],
        2.5,
    ),
)


def grown(root: Path) -> None:
    """The tree."""
    for number in range(FOLDERS):
        folder = root / f"part{number // 50:02}" / f"folder{number:04}"
        folder.mkdir(parents=True)
        for file in range(FILES):
            found = "def needle(): ...\n" * (file == 7)
            path = folder / f"file{file:02}.{ENDINGS[file % len(ENDINGS)]}"
            path.write_text(f"{TEXT}\n{found}", encoding="utf-8")


def bare(program: str, root: Path, words: list[str]) -> float:
    """Seconds that ripgrep takes, with a pipe that is read."""
    started = time.perf_counter()
    argv = [program, "--no-config", *words, "./"]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, cwd=root, **pipes) as process:
        while process.stdout.read1(1 << 18):
            pass
    return time.perf_counter() - started


async def ratio(program: str, root: Path, question: Question) -> float:
    """How many times as long as ripgrep it takes."""
    workspace = Workspace(root)
    tools = Toolset(glob(workspace, ripgrep=program), grep(workspace, ripgrep=program))
    ours, theirs = list[float](), list[float]()
    async with Executor(tools) as executor:
        for turn in range(TURNS):
            started = time.perf_counter()
            result = await executor.run(Call(question.name, question.args, str(turn)))
            ours.append(time.perf_counter() - started)
            assert result.failure is None, result.text
            theirs.append(bare(program, root, question.bare))
    return statistics.median(ours) / statistics.median(theirs)


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        found = Ripgrep.find(outside=str(root.resolve()))
        if found is None:
            yield Row("search", float("inf"), 1.3, "times", "ripgrep, which is not there", ok=False)
            return
        grown(root)
        for question in QUESTIONS:
            ours = anyio.run(ratio, found.program, root, question)
            held = ours <= question.limit
            yield Row(question.what, ours, question.limit, "times", "ripgrep", ok=held)


def main() -> int:
    """Measure, print, and say by the exit code whether every row holds."""
    failed = False
    for row in rows():
        failed |= not row.ok
        held = row.held if row.ok else f"{row.held}  NOT HELD"
        print(
            f"{row.what:44} {row.ours:10.2f} {row.limit:10.2f}  {row.unit:10}  {held}", flush=True
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
