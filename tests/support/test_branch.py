"""The branch of a folder, read from git's files: git itself could run programs of the repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

from handrail._support.git_settings import find_branch


def git(folder: Path, *words: str) -> None:
    about = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org", "-C", str(folder)]
    subprocess.run(["git", *about, *words], check=True, capture_output=True)  # noqa: S603, S607


def test_the_branch_of_a_folder_is_known_wherever_it_is(tmp_path: Path) -> None:
    (tmp_path / "repo/src").mkdir(parents=True)
    git(tmp_path / "repo", "init", "-q", "-b", "main")
    git(tmp_path / "repo", "commit", "-q", "--allow-empty", "-m", "Begin")
    git(tmp_path / "repo", "worktree", "add", "-b", "fix/cart", str(tmp_path / "tree"))
    git(tmp_path / "repo", "worktree", "add", "--detach", str(tmp_path / "bare"))

    found = {
        name: find_branch(str(tmp_path / name)) for name in ("repo", "repo/src", "tree", "bare", "")
    }

    assert found == {"repo": "main", "repo/src": "main", "tree": "fix/cart", "bare": "", "": ""}
