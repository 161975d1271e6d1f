"""What the tests of the file tools share: a workspace with a canary around it, calls, an attacker."""

from __future__ import annotations

import gc
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from handrail import Call, Executor, FailureKind, Result, Toolset
from handrail.tools import Workspace, edit, read, write

HERE = Path(__file__).parent
NAMES = os.O_PATH | os.O_CLOEXEC
"""How an opener opens: the descriptor names something, and cannot read it."""
Opener: TypeAlias = Callable[[int, str], int]
PROFILE = os.environ.get("HANDRAIL_PROFILE", "quick")


def rounds(quick: int, soak: int) -> int:
    """How often something is tried, by profile."""
    return {"brief": max(quick // 4, 1), "soak": soak}.get(PROFILE, quick)


def toolset(workspace: Workspace) -> Toolset:
    """The tools that read and change single files."""
    return Toolset(read(workspace), write(workspace), edit(workspace))


def results(tools: Toolset, *calls: tuple[str, dict[str, Any]], **options: Any) -> list[Result]:
    """What becomes of calls, one after the other, in one executor."""

    async def turn() -> list[Result]:
        async with Executor(tools, **options) as executor:
            return [
                await executor.run(Call(name, args, f"c{number}"))
                for number, (name, args) in enumerate(calls, 1)
            ]

    return anyio.run(turn)


def kind(result: Result) -> FailureKind | None:
    """What kind of failure it is, if it is one."""
    return result.failure.kind if result.failure else None


def descriptors() -> int:
    """How many files this process has open."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  no folder, but the kernel's answer


def tree(folder: Path, *, without: Path | None = None) -> dict[str, tuple[Any, ...]]:
    """All that can be seen of a folder and what is in it: names, modes, times, contents."""
    found = {".": _looks(folder)}
    for path in sorted(folder.rglob("*")):
        if without is None or not path.is_relative_to(without):
            found[str(path.relative_to(folder))] = _looks(path)
    return found


def _looks(path: Path) -> tuple[Any, ...]:
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        return about.st_mode, path.readlink()
    content = path.read_bytes() if stat.S_ISREG(about.st_mode) else None
    return about.st_mode, about.st_mtime_ns, content


@contextmanager
def attacked(folder: Path, one: str, other: str) -> Iterator[None]:
    """Meanwhile, another process swaps two names in a folder."""
    program = [sys.executable, "-I", "-S", str(HERE / "attacker.py"), str(folder), one, other]
    with subprocess.Popen(  # noqa: S603  our own interpreter
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as attacker:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            attacker.kill()
