"""Approvals across processes: two writes and a read behind them, asked here and resumed elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from handrail import (
    READ,
    WRITE,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Executor,
    Toolset,
    reads_file,
    tool,
    writes_file,
)

Asked: TypeAlias = list[tuple[str, str]]
"""The calls that a person was asked about, each with the question."""
Outcome: TypeAlias = tuple[list[str], list[tuple[str, str]]]
"""The calls that a person was asked about again, and what the model read."""


def make_executor(folder: Path) -> Executor:
    log = folder / "log"

    @tool(effect=WRITE, touches=lambda path, **_: writes_file(path))
    async def append(path: str, text: str) -> str:
        """Append text to a file."""
        with log.open("a", encoding="utf-8") as file:
            file.write(text)
        return f"appended {text}"

    @tool(effect=READ, touches=reads_file)
    async def show(path: str) -> str:
        """Show a file."""
        return log.read_text(encoding="utf-8") if log.exists() else ""

    def careful(call: CheckedCall) -> Decision:
        return Allow() if call.spec.effect == READ else Ask(f"Append {call.args['text']}?")

    return Executor(Toolset(append, show), policy=careful)


CALLS = (
    Call("append", {"path": "a", "text": "1"}, "c1"),
    Call("append", {"path": "a", "text": "2"}, "c2"),
    Call("show", {"path": "a"}, "c3"),
)


async def take_part(host: str, step: str, folder: Path, words: Sequence[str]) -> Any:
    module, executor = import_module(f"on_{host}"), make_executor(folder)
    async with executor:
        if step == "ask":
            return await module.ask(executor, CALLS, folder)
        answers = {name: word == "yes" for name, _, word in (one.partition("=") for one in words)}
        return await module.resume(executor, folder, answers)


if __name__ == "__main__":
    _, host, step, folder, *words = sys.argv
    sys.stdout.write(json.dumps(anyio.run(take_part, host, step, Path(folder), words)))
