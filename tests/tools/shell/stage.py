"""What the tests of bash share: calls through an executor, and who is left in the process table."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import anyio

from handrail import Call, Executor, Result, Toolset
from handrail.sandbox import Sandbox
from handrail.tools import bash


def executor(root: Path, **options: Any) -> Executor:
    """An executor with bash alone."""
    return Executor(Toolset(bash(Sandbox(root), **options)))


async def run(one: Executor, command: str, **args: Any) -> Result:
    return await one.run(Call("bash", {"command": command, **args}, "c1"))


def timeless(text: str) -> str:
    """A result without what differs each time."""
    return re.sub(r"\d+(\.\d)? s\b", "N s", text)


async def told(root: Path, command: str, **options: Any) -> str:
    """What a model reads of one command."""
    async with executor(root, **options) as one:
        return timeless((await run(one, command)).text)


def alive(tag: str) -> list[int]:
    """The processes of this machine that have a text in their command line, but for this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if tag.encode() in line:
                found.append(int(entry.name))
    return found


async def begun(tag: str, many: int = 1) -> None:
    """Waits until so many processes have a text in their command line."""
    while len(alive(tag)) < many:  # noqa: ASYNC110  nobody tells
        await anyio.sleep(0.01)
