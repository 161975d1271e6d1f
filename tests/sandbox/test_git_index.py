"""What git shows of files that only have a new time stamp, and the hook that runs if it writes its index."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from handrail.sandbox import Sandbox
from sandbox.commands import run

SHOW = "git diff --stat; git status --short"
DIFFERS = " a.txt | 1 +\n 1 file changed, 1 insertion(+)\n M a.txt\n"
TOUCHED = (
    " a.txt    |   1 +\n same.bin | Bin 2 -> 2 bytes\n 2 files changed, 1 insertion(+)\n M a.txt\n"
)
HOOK = "#!/bin/sh\ntouch ran\n"


def git(root: Path, *words: str) -> None:
    program, who = shutil.which("git") or "git", ("-c", "user.name=a", "-c", "user.email=a@b.test")
    subprocess.run([program, *who, *words], cwd=root, check=True, capture_output=True)  # noqa: S603


def repository(root: Path) -> Path:
    """A repository with a file that differs, and a binary file that only has another time stamp."""
    root.mkdir(exist_ok=True)
    (root / "a.txt").touch()
    (root / "same.bin").write_bytes(b"\0\1")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    (root / "a.txt").write_text("one\n", encoding="utf-8")
    os.utime(root / "same.bin", (1, 1))
    return root


def add_hook(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "post-index-change").write_text(HOOK, encoding="utf-8")
    (folder / "post-index-change").chmod(0o755)


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
async def test_git_names_only_what_differs(tmp_path: Path, tier: Any) -> None:
    sandbox = Sandbox(repository(tmp_path), tier=tier)

    assert (await run(sandbox, SHOW)).text == DIFFERS


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("where", [".git/hooks", "hk"])
async def test_git_runs_no_hook_to_show_something(tmp_path: Path, tier: Any, where: str) -> None:
    """The control runs outside: git refreshes its index, and the hook runs."""
    sandbox = Sandbox(repository(tmp_path), tier=tier)
    git(tmp_path, "config", "core.hooksPath", where)
    add_hook(tmp_path / where)

    assert ((await run(sandbox, SHOW)).text, (tmp_path / "ran").exists()) == (
        TOUCHED + "?? hk/\n" * (where == "hk"),
        False,
    )
    git(tmp_path, "diff", "--stat")
    assert (tmp_path / "ran").exists()


def elsewhere(root: Path) -> None:
    shutil.copytree(root / ".git", root / "other")
    add_hook(root / "other/hooks")
    (root / ".git/commondir").write_text("../other\n", encoding="utf-8")


def by_settings(root: Path, settings: str, *, before: str = "") -> None:
    config = root / ".git/config"
    text = before + config.read_text(encoding="utf-8") + settings
    config.write_text(text, encoding="utf-8")
    add_hook(root / "hk")


def included(root: Path) -> None:
    for number in range(25):
        (root / f"i{number}").write_text("", encoding="utf-8")
    (root / "i24").write_text("[core]\nhooksPath = hk\n", encoding="utf-8")
    by_settings(root, "[include]\n" + "".join(f"path = ../i{n}\n" for n in range(25)))


SPOILT: dict[str, Callable[[Path], None]] = {
    "another folder": elsewhere,
    "a way through /proc": partial(by_settings, settings="[core]\nhooksPath = /proc/self/cwd/hk\n"),
    "a file that is included late": included,
    "a setting that comes late": partial(
        by_settings, settings="#" * (1 << 20) + "\n[core]\nhooksPath = hk\n"
    ),
    "a mark before the settings": partial(
        by_settings, settings="", before="\ufeff[core]\n\thooksPath = hk\n"
    ),
    "another tree": partial(by_settings, settings="[core]\nworktree = ..\nhooksPath = hk\n"),
}


@pytest.mark.parametrize("way", SPOILT)
async def test_git_finds_no_hook_in_another_place(tmp_path: Path, way: str) -> None:
    """The control runs outside: the hook runs."""
    sandbox = Sandbox(repository(tmp_path))
    SPOILT[way](tmp_path)
    shown = await run(sandbox, SHOW)
    ran = (tmp_path / "ran").exists()
    git(tmp_path, "diff", "--stat")

    assert ("same.bin" in shown.text, ran, (tmp_path / "ran").exists()) == (True, False, True)


async def test_the_repository_of_the_folder_decides(tmp_path: Path) -> None:
    inner = repository(repository(tmp_path) / "inner")
    (inner / "deep").mkdir()
    add_hook(inner / ".git/hooks")
    sandbox = Sandbox(tmp_path)

    shown = [(await run(sandbox, "git diff --stat", cwd=cwd)).text for cwd in ("", "inner/deep")]
    shutil.rmtree(inner / ".git")
    (inner / ".git").write_text(f"gitdir: {tmp_path}/.git\n", encoding="utf-8")
    linked = (await run(sandbox, "git diff --stat", cwd="inner/deep")).text

    assert [text.count("same.bin") for text in (*shown, linked)] == [0, 1, 1]
    assert not (inner / "ran").exists()


async def test_git_settings_of_your_application_stay(tmp_path: Path) -> None:
    mine = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "diff.autoRefreshIndex",
        "GIT_CONFIG_VALUE_0": "false",
    }
    sandbox = Sandbox(repository(tmp_path), variables=mine)

    assert (await run(sandbox, SHOW)).text == TOUCHED
