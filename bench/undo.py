"""What undo costs a command: beside `git status` in the same repository, of which nothing changed."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from definition import Row
from handrail.tools import Workspace
from handrail.tools._trees.kept import KeptTrees

FILES = 10_000
TURNS = 21
LIMIT = 5


def seconds(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def repository(root: Path) -> Callable[[], object]:
    """Make a repository, and return what runs `git status` in it."""
    for number in range(FILES):
        file = root / f"package{number // 500}" / f"part{number // 10 % 50}" / f"file{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"value = {number}\n" * 50, encoding="utf-8")
    (root / ".gitignore").write_text("*.pyc\nbuild/\ndist/\n*.log\n", encoding="utf-8")
    git = ["git", "-C", str(root), "-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    return partial(subprocess.run, [*git, "status", "--porcelain"], check=True, capture_output=True)


def turns(trees: KeptTrees, status: Callable[[], object]) -> Iterator[tuple[float, float, float]]:
    for number in range(TURNS):
        began = time.perf_counter()
        opened = trees.begin("c1", "true")
        begun = time.perf_counter() - began
        ended = seconds(partial(trees.end, opened))
        if number > 1:  # the first ones read files
            yield begun, ended, seconds(status)


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        status, trees = repository(Path(folder)), KeptTrees(Workspace(folder))
        each = zip(*turns(trees, status), strict=True)
        begun, ended, bare = map(statistics.median, each)
    for what, ours in (("before a command", begun / bare), ("after a command", ended / bare)):
        yield Row(f"undo, 10,000 files {what}", ours, LIMIT, "x git", "git status", ours <= LIMIT)
