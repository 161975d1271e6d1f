"""A small agent for the tests in a real terminal: one call, one question, and what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from handrail import (
    DESTROY,
    WRITE,
    Access,
    Ask,
    Call,
    CheckedCall,
    Executor,
    Toolset,
    tool,
    writes_file,
)
from handrail.approvals import Proposal, terminal
from handrail.permissions import FileChange, Origin, Pending

RULE = Origin("ask on change", "handrail.toml", 2)
STORED: list[Proposal] = []


def preview(path: str, content: str) -> FileChange:
    file = Path(path)
    return FileChange(path, file.read_text("utf-8") if file.exists() else None, content)


@tool(effect=WRITE, touches=lambda path, **_: writes_file(path), preview=preview)
def write(path: str, content: str) -> str:
    """Write a file."""
    Path(path).write_text(content, encoding="utf-8")
    return f"wrote {len(content)} characters to {path}"


@tool(effect=DESTROY, touches=lambda **_: Access(DESTROY, "*"))
def shell(command: str) -> str:
    """Run a command; here it is only said."""
    return f"ran {command}"


class Rules:
    def propose(self, pending: Pending, /) -> Sequence[Proposal]:
        return [Proposal("project", f"{pending.call.name} file:notes.txt", "handrail.toml")]

    def store(self, proposal: Proposal, /) -> None:
        STORED.append(proposal)


def policy(call: CheckedCall) -> Ask:
    return Ask(f"Run {call.name}?", RULE)


async def main(name: str, args: dict[str, Any] | str, *, remembers: bool) -> None:
    """Run one call in the working directory, and print its result."""
    approver = terminal(workspace=".", remember=Rules() if remembers else None)
    async with Executor(Toolset(write, shell), policy=policy, approvals=approver) as executor:
        result = await executor.run(Call(name, args, "c1"))
    print(f"model reads: {result.text}")  # noqa: T201
    for proposal in STORED:
        print(f"stored: {proposal.rule} in {proposal.file}")  # noqa: T201
    print("-- end --")  # noqa: T201


if __name__ == "__main__":
    session = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if session.get("waits"):  # until the person has typed ahead
        print("waiting for the file go")  # noqa: T201
        while not Path("go").exists():
            pass
    anyio.run(lambda: main(session["name"], session["args"], remembers=session["remembers"]))
