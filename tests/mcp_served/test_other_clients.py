"""Our server, driven by the clients of other frameworks, each in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_served.served import Notes, executor, over_http

INSTALL_SECONDS = 900
"""The first run installs packages."""

pytestmark = [pytest.mark.anyio, pytest.mark.soak, pytest.mark.timeout(INSTALL_SECONDS)]
HOME = Path(os.environ.get("HANDRAIL_HOSTS", Path.home() / ".cache" / "handrail" / "hosts"))
NEEDED = {
    "fastmcp": ["fastmcp>=4.1,<5"],
    "pydantic_ai": ["pydantic-ai-slim[mcp]>=2.66,<3"],
    "langchain": ["langchain>=1.4,<2", "langchain-mcp-adapters>=0.3", "mcp<2"],
}
NAMES = ["add_note", "break_down", "drop_notes", "read_note", "show_parts", "wait_here"]
EXPECTED: dict[str, dict[str, Any]] = {
    "fastmcp": {
        "names": NAMES,
        "read": "b: ",
        "added": {"count": 1},
        "denied": True,
        "waited": "waited for alice",
        "progress": [[0.5, 1.0, "waiting"]],
    },
    "pydantic_ai": {"names": NAMES, "read": "b: "},
    "langchain": {"names": NAMES, "read": "b: ", "denied": True},
}


def make_environment(name: str) -> str:
    """The interpreter of a client's environment, which is made if needed."""
    folder = HOME / f"mcp_{name}"
    python, ready, wanted = folder / "bin" / "python", folder / "ready", "\n".join(NEEDED[name])
    if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
        uv = [sys.executable, "-m", "uv"]
        made = [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)]
        subprocess.run(made, check=True)  # noqa: S603  our own
        install = [*uv, "pip", "install", "--quiet", "--python", str(python), *NEEDED[name]]
        subprocess.run(install, check=True)  # noqa: S603
        ready.write_text(wanted, encoding="utf-8")
    return str(python)


@pytest.mark.parametrize("name", NEEDED)
async def test_a_client_of_another_framework_uses_our_tools(name: str) -> None:
    python = await anyio.to_thread.run_sync(make_environment, name)
    notes = Notes()
    notes.go.set()
    script = str(Path(__file__).with_name("clients.py"))
    async with over_http(executor(notes)) as url:
        with anyio.fail_after(120):
            ended = await anyio.run_process([python, script, name, url], check=False)

    assert ended.returncode == 0, ended.stderr.decode()
    assert json.loads(ended.stdout.decode().splitlines()[-1]) == EXPECTED[name]
