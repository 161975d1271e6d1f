"""What the tests of the sandbox share: a command run to its end."""

from __future__ import annotations

from typing import Any, NamedTuple

from handrail.sandbox import Process, Sandbox


class Ended(NamedTuple):
    """How a command ended, and all that it said."""

    code: int
    text: str
    notes: str


async def ended(running: Process) -> Ended:
    """Read to the end, wait, and clear up."""
    said = b""
    try:
        while piece := await running.read():
            said += piece
        code = await running.wait()
        return Ended(code, said.decode(), running.notes().decode())
    finally:
        await running.kill()


async def run(sandbox: Sandbox, command: str, **options: Any) -> Ended:
    """Start a command, and see it through."""
    return await ended(sandbox.start(command, **options))
