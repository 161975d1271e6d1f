"""The table of names that other programs obey: its three uses agree, except where a row says so."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from handrail import DESTROY, WRITE, Access, Ask, Call, CheckedCall, Spec
from handrail._support.git_settings import GitPaths, find_git_paths
from handrail._support.obeyed_names import OBEYED_NAMES, ObeyedName
from handrail.policy import Rulebook
from handrail.sandbox import Sandbox
from handrail.tools import Scan
from sandbox.commands import run

OPEN = Rulebook(mode="open", sandboxed=True)
SAVE = Spec(name="save", description="", input_schema={}, effect=DESTROY)
ROWS = {row.name: row for row in OBEYED_NAMES}


def in_row(row: ObeyedName) -> str:
    """A file that the row is about."""
    return f"{row.name}/x" if row.is_folder else row.name


def git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout  # noqa: S603


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without settings."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a repository."""
    folder = tmp_path / "ws"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


@pytest.fixture
def full(root: Path) -> Path:
    """A workspace with a file for each row."""
    for row in OBEYED_NAMES:
        path = root / in_row(row)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("before\n", encoding="utf-8")
    return root


# ---------------------------------------------------------------- the table


def test_a_name_has_one_row() -> None:
    assert len(ROWS) == len(OBEYED_NAMES)


def test_a_row_without_one_of_the_three_uses_says_why_and_no_other_does() -> None:
    lacking = [row.name for row in OBEYED_NAMES if row.held == "never" or not row.scanned]

    assert [row.name for row in OBEYED_NAMES if row.differs] == lacking


@pytest.mark.parametrize("name", ROWS)
def test_a_change_of_each_needs_approval_in_every_folder(name: str) -> None:
    for path in (in_row(ROWS[name]), f"deep/er/{in_row(ROWS[name])}"):
        access = Access(WRITE, f"file:{path}")
        decision = OPEN(CheckedCall.recorded(Call("save", {}, "1"), SAVE, (access,)))

        assert isinstance(decision, Ask)
        assert "is protected: " in decision.question


async def test_the_sandbox_holds_what_exists_unless_the_row_says_never(full: Path) -> None:
    lines = [f"echo x >> '{in_row(row)}'" for row in OBEYED_NAMES]

    await run(Sandbox(full), "; ".join(lines))

    changed = {
        row.name
        for row in OBEYED_NAMES
        if (full / in_row(row)).read_text(encoding="utf-8") != "before\n"
    }
    assert changed == {row.name for row in OBEYED_NAMES if row.held == "never"}


async def test_the_sandbox_reserves_what_is_missing_where_the_row_says_always(root: Path) -> None:
    lines = [
        f"mkdir -p '{Path(in_row(row)).parent}'; echo x > '{in_row(row)}'" for row in OBEYED_NAMES
    ]

    await run(Sandbox(root), "; ".join(lines))

    missing = {row.name for row in OBEYED_NAMES if not (root / in_row(row)).is_file()}
    reserved = {row.name for row in OBEYED_NAMES if row.held == "always"}
    assert missing == reserved - {".git/config"} | {".git/commondir"}
    assert "x\n" not in (root / ".git/config").read_text(encoding="utf-8")


def test_the_scan_reports_each_unless_the_row_says_not(root: Path) -> None:
    scan = Scan(str(root), seconds=30.0)
    scan.begin()
    for row in OBEYED_NAMES:
        path = root / in_row(row)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("after\n", encoding="utf-8")
    scan.end()

    found = {one.path for one in scan.look().planted}

    assert {in_row(row) for row in OBEYED_NAMES if in_row(row) in found} == {
        in_row(row) for row in OBEYED_NAMES if row.scanned
    }


@pytest.mark.parametrize(
    ("path", "asks"),
    [
        ("conftest.py", True),
        ("src/conftest.py", True),
        ("tests/conftest.py", False),
        ("pkg/test/unit/conftest.py", False),
        ("tests/.vscode/tasks.json", True),
        (".github/dependabot.yml", False),
        ("workflows/a.yml", False),
        ("docs/HEAD", True),
        ("HEAD/x", False),
        ("hgrc", False),
    ],
)
def test_a_row_is_about_no_other_path(path: str, *, asks: bool) -> None:
    access = Access(WRITE, f"file:{path}")
    decision = OPEN(CheckedCall.recorded(Call("save", {}, "1"), SAVE, (access,)))

    assert isinstance(decision, Ask) is asks


# ---------------------------------------------------------------- what git's settings name


@pytest.mark.parametrize(
    "value",
    [
        ".githooks",
        "tools/my hooks",
        "a;b",
        "a#b",
        'say "x"',
        "back\\slash",
        "./x/../hooks",
        "{root}/hooks",
        " padded",
        "größe",
    ],
)
def test_a_value_is_read_as_git_reads_it(root: Path, value: str) -> None:
    git(root, "config", "core.hooksPath", value.replace("{root}", str(root)))
    shown = git(root, "config", "core.hooksPath").removesuffix("\n")

    [found] = find_git_paths(str(root)).hooks

    assert f"{root}/{found}" == os.path.normpath(root / shown.strip())


@pytest.mark.parametrize(
    "text",
    [
        "[core] hooksPath = h",
        "[CORE]\n\tHOOKSPATH=h ; why",
        '[a "b"][core]hooksPath = "h" # why',
        '[core]\nhooksPath = \\\n  "h"',
        "[core]\nhooksPath = x\n[other]\nhooksPath = no\n[core]\nhooksPath = h",
        '[core]\nhooksPath = "h',
    ],
)
def test_settings_are_found_in_every_spelling(root: Path, text: str) -> None:
    (root / ".git/config").write_text(text, encoding="utf-8")

    assert find_git_paths(str(root)).hooks[-1] == "h"
    assert "no" not in find_git_paths(str(root)).hooks


@pytest.mark.parametrize(
    "value", ["..", ".", "../beside", "/etc", "~/hooks", "", "a\\0b", "../ws2/hooks"]
)
def test_what_is_not_in_the_workspace_is_left_out(root: Path, value: str) -> None:
    text = f'[core]\nhooksPath = "{value}"\n'.replace("\\0", "\0")
    (root / ".git/config").write_text(text, encoding="utf-8")

    assert find_git_paths(str(root)) == GitPaths()


def test_includes_are_followed_whatever_their_condition(root: Path, home: Path) -> None:
    git(root, "config", "include.path", "../team.cfg")
    git(root, "config", "includeIf.onbranch:other.path", f"{home}/outside.cfg")
    (root / "team.cfg").write_text("[include]\npath = more/own.cfg\n", encoding="utf-8")
    (root / "more").mkdir()
    (root / "more/own.cfg").write_text("[include]\npath = ../team.cfg\n", encoding="utf-8")
    (home / "outside.cfg").write_text("[core]\nhooksPath = by/home\n", encoding="utf-8")

    assert find_git_paths(str(root)) == GitPaths(("by/home",), ("team.cfg", "more/own.cfg"))


def test_settings_of_the_user_count(root: Path, home: Path) -> None:
    (home / ".gitconfig").write_text("[core]\nhooksPath = one\n", encoding="utf-8")
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/config").write_text("[core]\nhooksPath = two\n", encoding="utf-8")

    assert find_git_paths(str(root)) == GitPaths(("one", "two"))


def test_a_worktree_has_the_settings_of_its_repository(root: Path, tmp_path: Path) -> None:
    git(root, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "x")
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"))
    git(root, "config", "core.hooksPath", "hk")

    assert find_git_paths(str(tmp_path / "tree")) == GitPaths(("hk",))


def test_a_link_counts_as_it_is_spelled_and_where_it_leads(root: Path) -> None:
    (root / "real").mkdir()
    (root / "linked").symlink_to("real")
    git(root, "config", "core.hooksPath", "linked")

    assert find_git_paths(str(root)) == GitPaths(("linked", "real"))


def test_what_cannot_be_read_names_nothing(root: Path, tmp_path: Path) -> None:
    (root / ".git/config").unlink()
    os.mkfifo(root / ".git/config")
    (root / ".git/config.worktree").mkdir()

    assert find_git_paths(str(root)) == GitPaths()
    assert find_git_paths(str(tmp_path / "none")) == GitPaths()

    shutil.rmtree(root / ".git")
    (root / ".git").write_text("gitdir: a\0b\n", encoding="utf-8")
    assert find_git_paths(str(root)) == GitPaths()


def test_includes_are_bounded(root: Path) -> None:
    lines = "".join(f"path = ../{number}.cfg\n" for number in range(1_000))
    (root / ".git/config").write_text(f"[include]\n{lines}", encoding="utf-8")

    assert len(find_git_paths(str(root)).settings) == 20


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    ["[a]" * 300_000, "[a" + " " * 900_000, "\\" * 900_000, '[core]hooksPath="' + "\\" * 900_000],
)
def test_no_text_makes_it_slow(root: Path, text: str) -> None:
    (root / ".git/config").write_text(text, encoding="utf-8")

    assert find_git_paths(str(root)).settings == ()
