"""Our server, driven by the command line of the MCP Inspector, from npm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

import forked
from cli_harness import Handrail
from mcp_served.served import Notes, executor, over_http

pytestmark = [pytest.mark.anyio, pytest.mark.soak]
HOME = Path(os.environ.get("HANDRAIL_HOSTS", Path.home() / ".cache" / "handrail" / "hosts"))
FOLDER = HOME / "npm"
PACKAGE = "@modelcontextprotocol/inspector"
TOOLS = '''
from handrail import READ, tool

@tool(effect=READ, touches=lambda **_: ())
def add(a: int, b: int) -> dict[str, int]:
    """Add two integers."""
    return {"sum": a + b}
'''


@pytest.fixture(scope="module")
def inspector() -> Path:
    """The program, which is installed if needed."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    package = FOLDER / "node_modules" / PACKAGE
    if not package.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        install = [npm, "install", "--no-audit", "--no-fund", PACKAGE]
        subprocess.run(install, cwd=FOLDER, check=True)  # noqa: S603
    found: dict[str, Any] = json.loads((package / "package.json").read_text(encoding="utf-8"))
    return package / str(found["bin"]["mcp-inspector"])


async def inspect(program: Path, *words: str, env: dict[str, str] | None = None) -> Any:
    """What the Inspector prints, as JSON."""
    argv = ["node", str(program), "--cli", *words]
    with anyio.fail_after(120):
        ended = await anyio.run_process(argv, check=False, env=env)
    assert ended.returncode == 0, ended.stderr.decode() + ended.stdout.decode()
    return json.loads(ended.stdout)


async def test_it_lists_and_calls_tools_over_stdio(inspector: Path, handrail: Handrail) -> None:
    tools = handrail.write("tools.py", TOOLS)
    server = (str(forked.path() / "handrail"), "serve", "-t", str(tools))
    env = handrail.environment()
    listed = await inspect(inspector, *server, "--method", "tools/list", env=env)
    words = ("--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=1", "b=2")
    called = await inspect(inspector, *server, *words, env=env)
    wrong = await inspect(inspector, *server, *words[:-1], env=env)

    assert [tool["name"] for tool in listed["tools"]] == ["add", "read_result"]
    assert called["structuredContent"] == {"sum": 3}
    assert wrong["isError"] is True


async def test_it_lists_and_calls_tools_over_http(inspector: Path) -> None:
    async with over_http(executor(Notes()), tokens=None) as url:  # some versions send no header
        where = (url, "--transport", "http")
        listed = await inspect(inspector, *where, "--method", "tools/list")
        words = ("--method", "tools/call", "--tool-name", "read_note", "--tool-arg", "key=b")
        called = await inspect(inspector, *where, *words)

    assert "read_note" in [tool["name"] for tool in listed["tools"]]
    assert called["content"] == [{"type": "text", "text": "b: "}]
