"""A process of its own that goes on with sealed questions; what it runs, it writes into a log.

Reads one JSON object from stdin: tokens, answers by place (and to all that is asked anew), and what
has changed since. Prints the results' kinds, and new sealed questions.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio

from handrail import (
    Allow,
    Approvals,
    Ask,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    Result,
    Toolset,
    tool,
    writes_file,
)
from handrail.approvals import FileLedger, Tampered, defer, sign_pending, verify_pending
from handrail.permissions import Answer, Edit, Pending
from resuming import resume

KEY = b"k" * 32


def toolset(log: Path, changed: bool = False) -> Toolset:  # noqa: FBT001, FBT002  read from JSON
    def wrote(path: str) -> str:
        handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(f"{path}\n")
        return f"saved {path}"

    if changed:

        @tool(name="save", touches=writes_file)
        async def other(path: str) -> str:
            """Save, and tell everybody."""
            return wrote(path)

        return Toolset(other)

    @tool(touches=writes_file)
    async def save(path: str) -> str:
        """Save a file."""
        return wrote(path)

    return Toolset(save)


class Gate:
    """Asks for all paths that begin with a ``g``."""

    def __init__(self, version: str) -> None:
        self.version = version

    def __call__(self, call: CheckedCall) -> Decision:
        gated = call.accesses[0].resource.startswith("file:g")
        return Ask(f"{call.id}: {call.accesses[0]}?") if gated else Allow()


def executor(state: dict[str, Any]) -> Executor:
    folder = Path(state["folder"])
    return Executor(
        toolset(folder / "log", state.get("changed", False)),
        policy=Gate(state.get("version", "1")),
        approvals=Approvals(approver=defer, ledger=FileLedger(folder / "ledger"), timeout=100.0),
        clock=lambda: state.get("now", 0.0),
    )


def answer(word: str, pending: Pending) -> Answer:
    match word:
        case "yes":
            return Allow()
        case "edit":
            return Edit({"path": f"g-edited-{pending.call.id}"})
        case "respond":
            return Result(pending.call.id, "taken as done")
        case _:
            return Deny("no")


def _word(state: dict[str, Any], pending: Pending) -> str:
    again = state.get("again") if pending.round else None
    return str(again or state["answers"][pending.call.id])


async def go_on(state: dict[str, Any]) -> dict[str, Any]:
    """Answer some questions, and say what became of them."""
    pending: list[Pending] = []
    for token in state["tokens"]:
        try:
            pending.append(verify_pending(token, KEY))
        except Tampered:
            state.setdefault("tampered", []).append(token)
    answers = {
        one.id: answer(_word(state, one), one) for one in pending if one.call.id in state["answers"]
    }
    async with executor(state) as runs:
        results = await resume(runs, pending, answers) if pending else []
    return {
        "kinds": [one.failure.kind.value if one.failure else "good" for one in results],
        "tokens": [sign_pending(one.pending, KEY) for one in results if one.pending is not None],
        "tampered": len(state.get("tampered", [])),
    }


if __name__ == "__main__":
    print(json.dumps(anyio.run(go_on, json.load(sys.stdin))))  # noqa: T201
