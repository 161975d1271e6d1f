"""What the tests of undone commands share: commands in a sandbox, and all that can be seen of a tree."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio

from handrail import Call, Executor, Toolset
from handrail.sandbox import Sandbox
from handrail.tools import Workspace, bash

_OVERRIDES = 0b110
"""The capabilities of root to read and write any file."""
_VERSION = 0x20080522


def project(root: Path) -> Path:
    """A repository with a tracked, an untracked and an ignored file."""
    root.mkdir(exist_ok=True)
    for name, text in {
        ".gitignore": "build/\n*.log\n",
        "tracked.txt": "one\n",
        "untracked.txt": "two\n",
        "build/out.bin": "three\n",
        "a.log": "four\n",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (root / "run.sh").chmod(0o755)
    git = ["git", "-C", str(root), "-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (
        ["init", "-q"],
        ["add", "tracked.txt", ".gitignore", "run.sh"],
        ["commit", "-qm", "x"],
    ):
        subprocess.run([*git, *words], check=True)  # noqa: S603  git
    return root


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """Every path with its type, mode and content; times are not restored."""
    return dict(_tree(os.fsencode(root), b""))


def _tree(root: bytes, folder: bytes) -> Iterator[tuple[str, tuple[object, ...]]]:
    for entry in os.scandir(os.path.join(root, folder)):  # noqa: PTH118  names of any bytes
        path = os.path.join(folder, entry.name)  # noqa: PTH118
        about = entry.stat(follow_symlinks=False)
        kind, mode = stat.S_IFMT(about.st_mode), stat.S_IMODE(about.st_mode)
        content = b""
        if stat.S_ISDIR(about.st_mode):
            yield from _tree(root, path)
        elif stat.S_ISLNK(about.st_mode):
            content = os.readlink(entry.path)  # noqa: PTH115
        elif stat.S_ISREG(about.st_mode):
            content = Path(os.fsdecode(entry.path)).read_bytes()
        yield os.fsdecode(path), (kind, mode, content)


def commands(workspace: Workspace, *lines: str, **options: Any) -> list[str]:
    """Run commands, one after the other, as the calls c1, c2 and so on; return what a model reads."""

    async def run() -> list[str]:
        tools = Toolset(bash(Sandbox(workspace.root), workspace=workspace, **options))
        async with Executor(tools) as executor:
            return [
                (await executor.run(Call("bash", {"command": line}, f"c{number}"))).text
                for number, line in enumerate(lines, 1)
            ]

    return anyio.run(run)


def without_override(do: Callable[[], object]) -> None:
    """Call a function in a thread that can only read what its user can, even as root."""
    errors = list[BaseException]()

    def run() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        head, data = (ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * 6)()
        libc.capget(head, data)
        data[0] &= ~_OVERRIDES
        libc.capset(head, data)
        try:
            do()
        except BaseException as error:  # noqa: BLE001  raised in the thread of the test
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    for error in errors:
        raise error
