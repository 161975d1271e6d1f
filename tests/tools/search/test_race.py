"""Folders become links while they are searched: nothing outside of the workspace is shown."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anyio
import pytest

from handrail import Call, Executor
from tools.search.stage import RIPGREP, made, tools
from tools.stage import attacked, rounds

CANARY = "CANARY-77c1"
SEARCHES = rounds(150, 20_000)
pytestmark = pytest.mark.timeout(60 if SEARCHES < 1_000 else 3_600)


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    """A workspace in which a folder and a link to the outside change places."""
    made(tmp_path, {f"ws/d/{n}.txt": "inside\n" for n in range(20)})
    made(tmp_path, {f"out/{n}.txt": f"{CANARY}\n" for n in range(20)})
    (tmp_path / "ws/l").symlink_to(tmp_path / "out")
    return tmp_path


def leaks(ground: Path) -> bool:
    """Whether a plain ripgrep, given the path, reads outside."""
    found = subprocess.run(  # noqa: S603  no shell
        [RIPGREP, "--no-config", CANARY, str(ground / "ws"), str(ground / "ws/d")],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return CANARY in found.stdout


def test_a_walk_never_leaves_while_folders_are_swapped(ground: Path) -> None:
    async def turns() -> set[str]:
        seen: set[str] = set()
        async with Executor(tools(ground / "ws")) as executor:
            for number in range(SEARCHES):
                path = "d" if number % 3 == 0 else "."
                args = {"pattern": f"{CANARY}|inside", "path": path, "limit": 1_000}
                seen.add((await executor.run(Call("grep", args, str(number)))).text)
        return seen

    with attacked(ground / "ws", "d", "l"):
        answers = anyio.run(turns)
        lost = any(leaks(ground) for _ in range(2_000))

    assert not [one for one in answers if CANARY in one]
    assert any("inside" in one for one in answers)
    assert lost, "the attacker was too slow to show anything"
