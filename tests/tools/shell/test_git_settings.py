"""Settings of the repository: an approval opens the file for one command that names no program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from handrail import Allow, Deny
from handrail.sandbox import Sandbox
from handrail.tools._shell.simple_commands import changes_git_settings
from tools.shell.test_installs import Stage

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    made.mkdir()
    about = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (
        ["init", "-q", "-b", "main"],
        ["commit", "-q", "--allow-empty", "-m", "x"],
        ["branch", "old"],
    ):
        subprocess.run(["git", "-C", made, *about, *words], check=True)  # noqa: S603, S607
    return made


def setting(root: Path, name: str) -> str:
    command = ["git", "-C", str(root), "config", "--local", "--get", name]
    return subprocess.run(command, capture_output=True, encoding="utf-8").stdout.strip()  # noqa: PLW1510, S603


async def test_settings_remotes_and_branches_change_after_one_question_each(root: Path) -> None:
    stage = Stage(root)
    url = "https://example.com/x.git"
    for command in (
        "git config user.email x@y.z",
        f"git remote add origin {url}",
        "git branch -D old",
    ):
        assert "busy" not in (text := await stage.run(command))
        assert "[exit code 0" in text

    assert (setting(root, "user.email"), setting(root, "remote.origin.url")) == ("x@y.z", url)
    assert ["change .git/config?" in question for question in stage.questions] == [True] * 3


async def test_only_an_approval_opens_them(root: Path) -> None:
    denied, plan = Stage(root), Stage(root, mode="plan")
    denied.answer = Deny.by_user()
    held = Stage(root, read_only=[".git"])
    for stage in (denied, plan, held):
        await stage.run("git config user.email x@y.z")
    approved = Stage(root)
    approved.answer = Allow()
    text = await approved.run("git config user.name x; echo '[core]' >> .git/config")

    assert setting(root, "user.email") == ""
    assert "Read-only file system" in text
    assert not any(
        "change .git/config" in question for question in approved.questions + held.questions
    )


async def test_no_other_command_runs_while_they_are_open(root: Path) -> None:
    stage = Stage(root)
    wait = "until [ -e go ]; do sleep 0.05; done"
    change = "{ echo '[core]' >> .git/config; } 2> out; touch end"
    await stage.run(f"{wait}; {change}", background=True)
    text = await stage.run("git config user.email x@y.z")
    await stage.run("touch go; until [ -e end ]; do sleep 0.05; done")
    await stage.executor.aclose()
    later = await Stage(root).run("git config user.email x@y.z")

    assert "Not run: other commands run in the workspace" in text
    assert "Read-only file system" in (root / "out").read_text(encoding="utf-8")
    assert (setting(root, "user.email"), "[exit code 0" in later) == ("x@y.z", True)


def test_a_link_is_not_opened(root: Path) -> None:
    assert Sandbox(root).can_open(".git/config")
    (root / ".git/config").rename(root / "elsewhere")
    (root / ".git/config").symlink_to("../elsewhere")

    assert not Sandbox(root.parent, writable=["ws/.git"]).can_open("ws/.git/config")
    (root / ".git/config").unlink()
    assert not Sandbox(root).can_open(".git/config")


@pytest.mark.parametrize(
    "command",
    [
        "git config user.name 'A B'",
        "git config --local pull.rebase true && git config --get user.name; git status",
        "git config --unset branch.main.remote",
        "git remote set-url --push origin git@example.com:x.git",
        "git remote rename origin upstream && git remote -v",
        "git branch -d old && git branch",
        "git branch -u origin/main",
        "git branch --set-upstream-to=origin/main main",
    ],
)
def test_it_only_changes_settings(command: str) -> None:
    assert changes_git_settings(command) == ("--get" not in command)


@pytest.mark.parametrize(
    "command",
    [
        "git config core.fsmonitor ./x",
        "git config core.hooksPath hooks",
        "git config include.path ../x",
        "git config --file x user.name y",
        "git config --global user.name y",
        "git config user.name",
        "git config -e",
        "git -c core.fsmonitor=./x config user.name y",
        "git -C sub config user.name y",
        "GIT_DIR=x git config user.name y",
        "git config user.name $(sh x)",
        "git config user.name y; sh x",
        "git config user.name y | sh",
        "git config alias.x '!sh'",
        "git config branch.main.pushRemote 'ext::sh'",
        "git remote update",
        "git remote add -f origin https://example.com",
        "git branch new",
        "git branch --edit-description",
        "git remote -v",
        "./git config user.name y",
        "git",
        "",
    ],
)
def test_it_may_do_something_else(command: str) -> None:
    assert not changes_git_settings(command)
