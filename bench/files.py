"""What a file tool costs: beside opening and reading the same file in Python."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio

from definition import Row
from handrail import Call, Context, Executor, Toolset
from handrail.tools import Workspace, read

LINES = 10_000
TURNS = 300


async def turns(folder: Path) -> list[tuple[float, float, float]]:
    """Seconds of a bare read, of the tool's function, and of a call through an executor."""
    tool = read(Workspace(folder))
    context = Context(call_id="1", idempotency_key="1")
    call, found = Call("read", {"file_path": "long.txt"}, "1"), []
    async with Executor(Toolset(tool)) as executor:
        for _ in range(TURNS):
            began = time.perf_counter()
            with open(folder / "long.txt", encoding="utf-8") as file:  # noqa: ASYNC230, PTH123  what people write
                file.read()
            bare = time.perf_counter()
            tool.fn("long.txt", context=context)
            itself = time.perf_counter()
            await executor.run(call)
            found.append((bare - began, itself - bare, time.perf_counter() - itself))
    return found


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        text = "".join(f"This is line {n} of a file that is read.\n" for n in range(LINES))
        (Path(folder) / "long.txt").write_text(text, encoding="utf-8")
        bare, itself, called = map(
            statistics.median, zip(*anyio.run(turns, Path(folder)), strict=True)
        )
    ours, through = itself / bare, called / bare
    yield Row("read 10,000 lines, the tool itself", ours, 3, "x open()", "open().read()", ours <= 3)
    yield Row(
        "read 10,000 lines, by executor", through, 3, "x open()", "open().read()", through <= 3
    )
