"""A process of its own that edits a file: each of its numbers at a place of its own, all at once."""

from __future__ import annotations

import sys

import anyio

from handrail import Call, Executor, Result
from handrail.tools import Workspace
from tools.stage import toolset


async def main(folder: str, first: int, last: int) -> None:
    async with Executor(toolset(Workspace(folder))) as executor:
        done: list[Result] = await executor.run_all(
            [
                Call(
                    "edit",
                    {"file_path": "f", "old_string": f"<{n}>", "new_string": f"[{n}]"},
                    str(n),
                )
                for n in range(first, last)
            ]
        )
    print(sum(one.failure is None for one in done))  # noqa: T201


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
