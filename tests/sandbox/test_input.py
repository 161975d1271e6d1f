"""A command with a standard input that this process writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail.sandbox import Sandbox
from sandbox.commands import ended, run

both = pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
MANY = b"x" * 1_000_000  # more than a pipe holds


@both
async def test_a_command_reads_what_is_sent_to_its_end(tmp_path: Path, tier: Any) -> None:
    running = Sandbox(tmp_path, tier=tier).start("wc -c; echo said >&3", source=True, notes=True)
    await running.send(MANY)
    running.close_input()
    running.close_input()
    made = await ended(running)

    assert (made.code, made.text.strip(), made.notes) == (0, "1000000", "said\n")
    assert (running.take_notes(), running.take_notes()) == (b"said\n", b"")
    with pytest.raises(BrokenPipeError):
        await running.send(b"more")


async def test_a_command_that_has_ended_takes_nothing(tmp_path: Path) -> None:
    running = Sandbox(tmp_path).start("true", source=True)
    await running.wait()
    with pytest.raises(BrokenPipeError):
        await running.send(MANY)
    await running.kill()

    assert running.take_notes() == b""


async def test_a_command_without_input_reads_none(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        made = await run(Sandbox(tmp_path), "cat; echo done")

    assert made.text == "done\n"
