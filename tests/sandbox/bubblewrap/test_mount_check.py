"""Links that a command puts in the way while another is started: nothing runs then."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from handrail.sandbox import Sandbox, SandboxUnavailable
from sandbox.commands import run

BWRAP = shutil.which("bwrap") or "bwrap"


def quick(folder: Path, root: Path, swap: str) -> str:
    """A PATH on which something is swapped when bubblewrap has its options, before it begins."""
    folder.mkdir()
    wait = '[[ "$*" =~ --args\\ ([0-9]+) ]]; until read -t 0 -u ${BASH_REMATCH[1]}; do :; done'
    swapped = f"({wait}; cd {root}; rm go; {swap}) >&2"
    text = f'#!/bin/bash\n[ -e {root}/go ] && {swapped}\nexec {BWRAP} "$@"\n'
    (folder / "bwrap").write_text(text, encoding="utf-8")
    (folder / "bwrap").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def repository(path: Path) -> Path:
    (path / "hooks").mkdir(parents=True)
    (path / "config").write_text("before", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "swap",
    [
        "mv .git was; ln -s ../victim .git",
        "mv .git was; ln -s inner .git",
        "mv .git/hooks was; ln -s ../../victim .git/hooks",
        "rm .envrc; ln -s ../victim/config .envrc",
        "mv sub was; ln -s ../victim sub",
    ],
)
async def test_what_was_swapped_is_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: str
) -> None:
    root = tmp_path / "root"
    for one in (root / ".git", root / "inner", root / "sub", tmp_path / "victim"):
        repository(one)
    (root / ".envrc").touch()
    monkeypatch.setenv("PATH", quick(tmp_path / "bin", root, swap))
    sandbox = Sandbox(root, tier="bubblewrap", masked=["sub/config"])
    line = (
        "cat .envrc .git/config; for one in .git .git/hooks sub ../victim; do echo x > $one/x; done"
    )

    place = "mkdir -p ../victim/hooks; touch ../victim/config"  # in the private folder over there
    before = await run(sandbox, f"cat .git/config; cat sub/config; {place}")
    (root / "go").touch()
    running = sandbox.start(line)
    refused = r"changed while the sandbox was set up|is a symbolic link|could not be set up"
    with pytest.raises(SandboxUnavailable, match=refused):
        await running.wait()
    said = await running.read()
    await running.kill()

    assert before == (0, "before", "")
    assert [one for one in said.splitlines() if not one.startswith(b"bwrap: ")] == []
    assert sorted(one.name for one in (tmp_path / "victim").iterdir()) == ["config", "hooks"]


@pytest.mark.parametrize("name", ["with space", "tab\tnewline\n", "back\\slash", "été", "a\\040b"])
async def test_a_workspace_may_have_any_name(tmp_path: Path, name: str) -> None:
    repository(tmp_path / name / ".git")

    made = await run(Sandbox(tmp_path / name, tier="bubblewrap"), "cat .git/config; touch x")

    assert made == (0, "before", "")
    assert (tmp_path / name / "x").exists()


async def test_a_folder_for_temporary_files_may_be_a_workspace() -> None:
    made = await run(Sandbox("/var/tmp", tier="bubblewrap"), "cd /var/tmp && echo fine")  # noqa: S108

    assert made == (0, "fine\n", "")


def test_a_file_system_that_is_mounted_in_a_toolchain_is_shown_with_it(tmp_path: Path) -> None:
    """Where another namespace for mounts can be made, without changing those of this machine."""
    code = (
        "import sys, anyio; from handrail.sandbox import Sandbox; from sandbox.commands import run;"
        "print(anyio.run(run, Sandbox(sys.argv[1], tier='bubblewrap'), 'cat ~/.pyenv/mnt/x').text)"
    )
    with tempfile.TemporaryDirectory(prefix=".handrail-test-", dir=Path.home()) as home:
        for name in ("ws", ".pyenv/mnt"):
            Path(home, name).mkdir(parents=True)
        line = f"mount -t tmpfs none {home}/.pyenv/mnt && echo seen > {home}/.pyenv/mnt/x && exec "
        words = [
            "unshare",
            "-Urm",
            "bash",
            "-c",
            f'{line} "$@"',
            "bash",
            sys.executable,
            "-c",
            code,
        ]
        made = subprocess.run(  # noqa: S603
            [*words, f"{home}/ws"],
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "HOME": home, "PYTHONPATH": str(Path(__file__).parents[2])},
        )

    assert (made.stdout, made.stderr) == (b"seen\n\n", b"")
