"""The mount points of protected names, as the real git sees them in a command."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail.sandbox import Sandbox
from sandbox.commands import run


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder of its own, and not in a folder for temporary files, which are out of sight."""
    with tempfile.TemporaryDirectory(prefix=".handrail-test-", dir=Path.home()) as made:
        monkeypatch.setenv("HOME", made)
        yield Path(made)


def repository(root: Path) -> Path:
    """A repository with a file to remove, one that the user ignores, and an untracked folder."""
    (root / ".vscode").mkdir(parents=True)
    for name in ("junk", "x.log", ".vscode/settings.json"):
        (root / name).touch()
    program = shutil.which("git") or "git"
    subprocess.run([program, "init", "-q"], cwd=root, check=True)  # noqa: S603
    return root


def ignore_logs(home: Path) -> None:
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/ignore").write_text("*.log", encoding="utf-8")


async def test_git_clean_sees_no_mount_points_and_ignores_what_the_user_ignores(
    home: Path,
) -> None:
    ignore_logs(home)
    sandbox = Sandbox(repository(home / "ws"), tier="bubblewrap")

    shown = await run(sandbox, "git clean -nd; git status --short")
    bare = await run(sandbox, "git -c core.excludesFile=/dev/null clean -nd; ls -A")
    removed = await run(sandbox, "git clean -fd -e .vscode")

    assert shown.text == ("Would remove .vscode/\nWould remove junk\n?? .vscode/\n?? junk\n")
    assert "Would remove .claude/\n" in bare.text  # the mount points are there
    assert (removed.code, removed.text) == (0, "Removing junk\n")
    assert sorted(path.name for path in (home / "ws").iterdir()) == [".git", ".vscode", "x.log"]


async def test_names_that_the_user_ignores_later_are_ignored(home: Path) -> None:
    sandbox = Sandbox(repository(home / "ws"), tier="bubblewrap")
    before = await run(sandbox, "git status --short")
    ignore_logs(home)
    after = await run(sandbox, "git status --short")

    assert before.text == "?? .vscode/\n?? junk\n?? x.log\n"
    assert after.text == "?? .vscode/\n?? junk\n"


async def test_a_folder_of_settings_that_is_shown_as_a_whole_stays_as_it_is(home: Path) -> None:
    ignore_logs(home)
    root = repository(home / "ws")
    sandbox = Sandbox(root, tier="bubblewrap", readable=[f"{home}/.config"])

    shown = await run(sandbox, "cat ~/.config/git/ignore; git clean -nd .claude")

    assert shown.text == "*.logWould remove .claude/\n"


async def test_a_workspace_without_a_repository_of_its_own_hides_no_names(home: Path) -> None:
    (repository(home / "top") / "part").mkdir()
    sandbox = Sandbox(home / "top/part", tier="bubblewrap")

    shown = await run(sandbox, "git -C .. status --short; wc -c < ~/.config/git/ignore")

    assert shown.text == "?? .vscode/\n?? junk\n?? x.log\n1\n"
