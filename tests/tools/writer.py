"""A process that forks writers: one for each line that it reads, until it is killed from outside.

Given a folder. Prints the id of each; a writer gives ``f`` one of two contents, again and again.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import anyio

from handrail import Call, Executor, Toolset
from handrail.tools import Workspace, edit

CONTENTS = (b"a" * 300_000, b"b" * 500_000)


async def write(folder: str, one: str, other: str) -> None:
    """Turn each content into the other one."""
    async with Executor(Toolset(edit(Workspace(folder)))) as executor:
        while True:
            args = {"file_path": "f", "old_string": one, "new_string": other}
            done = await executor.run(Call("edit", args, "c1"))
            assert done.failure is None, done.text
            one, other = other, one


def warm_up() -> None:
    """Load whatever an edit needs, so that each writer begins at once."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "f").write_text("a", encoding="utf-8")
        args = {"file_path": "f", "old_string": "a", "new_string": "b"}
        Executor(Toolset(edit(Workspace(folder)))).run_sync(Call("edit", args, "c1"))


def main(folder: str) -> None:
    warm_up()
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            contents = sorted(CONTENTS, key=Path(folder, "f").read_bytes().__ne__)
            anyio.run(write, folder, *(content.decode() for content in contents))
        print(child, flush=True)  # noqa: T201
        os.waitpid(child, 0)
        print("ended", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
