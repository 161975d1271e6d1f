"""The reference servers of the protocol's authors, from npm, by our client."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import anyio
import pytest

from handrail import FailureKind, Image
from handrail.mcp import StdioServer, find_known
from mcp_client.stage import connected

INSTALL_SECONDS = 900
"""The first run installs packages."""

pytestmark = [pytest.mark.anyio, pytest.mark.soak, pytest.mark.timeout(INSTALL_SECONDS)]
HOME = Path(os.environ.get("HANDRAIL_HOSTS", Path.home() / ".cache" / "handrail" / "hosts"))
PACKAGES = [
    f"@modelcontextprotocol/server-{name}" for name in ("everything", "filesystem", "memory")
]
FOLDER = HOME / "npm"


@pytest.fixture(scope="module")
def installed() -> Path:
    """The folder of the servers, which are installed if needed."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    found = FOLDER / "node_modules"
    if not all((found / package).exists() for package in PACKAGES):
        FOLDER.mkdir(parents=True, exist_ok=True)
        install = [npm, "install", "--no-audit", "--no-fund", *PACKAGES]
        subprocess.run(install, cwd=FOLDER, check=True)  # noqa: S603
    return found


def start(installed: Path, name: str, *args: str, **env: str) -> StdioServer:
    package = installed / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    return StdioServer(
        name=name, command="node", args=(str(package), *args), env=env, sandbox=False
    )


async def test_everything(installed: Path) -> None:
    async with connected(start(installed, "everything"), start_seconds=60) as stage:
        names = {one.name for one in stage.source.definitions}
        with anyio.fail_after(60):
            echoed = await stage.call("echo", message="hello")
            added = await stage.call("get-sum", a=2, b=3)
            drawn = await stage.call("get-tiny-image")
            typed = await stage.call("get-structured-content", location="New York")
            wrong = await stage.call("get-sum", a="two")

    assert {"echo", "get-sum", "get-tiny-image"} <= names
    assert (echoed.text, added.text) == ("Echo: hello", "The sum of 2 and 3 is 5.")
    assert any(isinstance(part, Image) for part in drawn.content)
    assert typed.data is not None
    assert wrong.failure is not None
    assert wrong.failure.kind is FailureKind.BAD_ARGS


async def test_the_file_system(installed: Path, tmp_path: Path) -> None:
    known = StdioServer(name="fs", command="npx", args=("-y", PACKAGES[1], str(tmp_path)))
    effects = find_known(known)
    (tmp_path / "a.txt").write_text("one", encoding="utf-8")
    assert effects is not None
    server = start(installed, "filesystem", str(tmp_path))
    async with connected(server, effects=effects.effects, start_seconds=60) as stage:
        specs = {
            spec.metadata["mcp_tool"]: spec.effect.name for spec in stage.registry.snapshot().specs
        }
        with anyio.fail_after(60):
            read = await stage.call("read_text_file", path=str(tmp_path / "a.txt"))
            written = await stage.call("write_file", path=str(tmp_path / "b.txt"), content="two")
            outside = await stage.call("read_text_file", path="/etc/passwd")

    assert (specs["read_text_file"], specs["list_directory"]) == ("READ", "READ")
    assert specs["write_file"] != "READ"
    assert (read.text, written.failure) == ("one", None)
    assert (tmp_path / "b.txt").read_text(encoding="utf-8") == "two"
    assert outside.failure is not None
    assert outside.failure.kind is FailureKind.FAILED


async def test_the_memory(installed: Path, tmp_path: Path) -> None:
    server = start(installed, "memory", MEMORY_FILE_PATH=str(tmp_path / "memory.json"))
    entity = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    async with connected(server, start_seconds=60) as stage:
        with anyio.fail_after(60):
            made = await stage.call("create_entities", entities=[entity])
            found = await stage.call("search_nodes", query="Ada")

    assert made.failure is None
    assert "writes programs" in found.text
