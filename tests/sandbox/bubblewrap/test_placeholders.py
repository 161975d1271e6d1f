"""Names that are reserved while a command runs: nobody reads them, and a kill leaves none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from handrail import Call, Executor, Toolset
from handrail.mcp import find_servers
from handrail.sandbox import Sandbox, find_placeholders
from handrail.tools import Jobs, Workspace, bash, glob, read, stop_job
from sandbox.commands import run

pytestmark = pytest.mark.anyio


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


RESERVED = {
    ".agents",
    ".git",
    ".claude",
    ".codex",
    ".cursor",
    ".devcontainer",
    ".gemini",
    ".handrail",
} | {
    ".husky",
    ".idea",
    ".mcp.json",
    ".vscode",
}
KILLED = """
import os, signal, sys
import anyio
from handrail.sandbox import Sandbox


async def main():
    process = Sandbox(sys.argv[1]).start("echo go; sleep 1000")
    assert await process.read() == b"go\\n"
    os.kill(os.getpid(), signal.SIGKILL)


anyio.run(main)
"""


async def test_no_tool_shows_names_that_a_job_reserves(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".mine").mkdir()
    (tmp_path / "notes.txt").write_text("one\n", encoding="utf-8")
    workspace, jobs = Workspace(tmp_path), Jobs()
    tools = Toolset(
        bash(Sandbox(tmp_path), jobs=jobs), stop_job(jobs), read(workspace), glob(workspace)
    )
    async with Executor(tools) as executor:

        async def call(name: str, **args: object) -> str:
            return (await executor.run(Call(name, args, "c1"))).text

        before = await call("read", file_path="."), await call("glob", pattern=".*")
        started = await call("bash", command="echo begun; sleep 1000", background=True)
        during = await call("read", file_path="."), await call("glob", pattern=".*")
        reserved = find_placeholders(tmp_path)
        missing = await call("read", file_path=".vscod")
        (tmp_path / ".vscode" / "settings.json").write_text("{}", encoding="utf-8")
        changed = await call("read", file_path=".")
        assert "Job 1" in started, started
        await call("stop_job", job=1)

    assert before == during
    assert before[0].startswith(".cursor/\n.mine/\nnotes.txt\n[")
    assert reserved == RESERVED - {".cursor"}
    assert ".vscode" not in missing
    assert changed.startswith(".cursor/\n.mine/\n.vscode/\nnotes.txt\n[")
    assert names(tmp_path) == {".cursor", ".mine", ".vscode", "notes.txt"}
    assert find_placeholders(tmp_path) == set()


async def test_a_reserved_name_is_no_file_with_servers(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    process = Sandbox(tmp_path).start("echo go; sleep 1000")
    assert await process.read() == b"go\n"
    during = file.is_dir(), find_servers([(file, None)])
    await process.kill()
    file.mkdir()
    after = find_servers([(file, None)])

    assert (during[0], during[1].problems) == (True, ())
    assert after.problems == (f"ignoring {file}: it is not a regular file",)


def test_the_next_sandbox_removes_what_a_kill_left(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    killed = subprocess.run([sys.executable, "-c", KILLED, str(root)], check=False)  # noqa: S603
    left = names(root)
    hidden = find_placeholders(root)
    Sandbox(root)

    assert (killed.returncode, left, hidden) == (-9, RESERVED, RESERVED)
    assert names(root) == set()


async def test_another_sandbox_leaves_the_names_of_a_running_command(tmp_path: Path) -> None:
    process = Sandbox(tmp_path).start("echo go; read -t 60 < <(sleep 60); touch .vscode/x")
    assert await process.read() == b"go\n"
    other = Sandbox(tmp_path)
    kept = names(tmp_path)
    refused = await run(other, "mkdir .vscode/x")
    await process.kill()

    assert (kept, refused.code) == (RESERVED, 1)
    assert names(tmp_path) == set()
