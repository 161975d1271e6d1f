"""What a command makes is protected from the next one: paths are found again for each command."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from handrail.sandbox import Sandbox, SandboxUnavailable
from handrail.sandbox._setup import Setup
from sandbox.commands import run


class Case(NamedTuple):
    """What appears between two commands, and what the second one tries."""

    makes: str
    path: str
    """What must not change."""
    tries: str


GIT = "git init -q . && mkdir -p .git/hooks && echo before > .git/hooks/pre-commit"
CASES = {
    "a file": Case("echo before > .envrc", ".envrc", "echo after > .envrc"),
    "a repository": Case(GIT, ".git/hooks/pre-commit", "echo after > .git/hooks/pre-commit"),
    "its settings": Case(f"{GIT}; cp .git/config c", ".git/config", "git config core.pager x"),
    "hooks elsewhere": Case(
        f"mkdir h; echo before > h/pre-commit; {GIT}; git config core.hooksPath h",
        "h/pre-commit",
        "echo after > h/pre-commit",
    ),
    "a submodule": Case(
        f"{GIT}; m=.git/modules/a; mkdir -p $m/hooks $m/objects $m/refs; "
        "echo before > $m/config; echo ref: refs/heads/x > $m/HEAD",
        ".git/modules/a/config",
        "echo after > .git/modules/a/config",
    ),
}
"""What somebody makes outside of any sandbox while commands run in one."""


def make(root: Path, line: str) -> None:
    subprocess.run(["/bin/bash", "-c", line], cwd=root, check=True, capture_output=True)  # noqa: S603


async def tried(root: Path, case: Case) -> tuple[str, str]:
    """What is there before the second command, and after it."""
    sandbox = Sandbox(root, tier="bubblewrap")
    first = await run(sandbox, "echo hello")
    make(root, case.makes)
    before = (root / case.path).read_text(encoding="utf-8")
    second = await run(sandbox, f"{case.tries}; echo ended")
    assert (first.text, "ended" in second.text) == ("hello\n", True)
    return before, (root / case.path).read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_what_is_new_is_protected_from_the_next_command(tmp_path: Path, case: Case) -> None:
    before, after = await tried(tmp_path, case)

    assert before == after


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_an_answer_of_an_earlier_command_would_be_noticed(
    tmp_path: Path, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, found = Setup.find_protected, list[object]()

    def find_once(*args: Any) -> object:
        """Return the first answer, for a command that makes a repository."""
        found.extend([] if found else [find(*args[:3], [".git"])])
        return found[0]

    monkeypatch.setattr(Setup, "find_protected", find_once)
    before, after = await tried(tmp_path, case)

    assert before != after


async def test_a_masked_file_that_appears_is_hidden_from_the_next_command(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, tier="bubblewrap", masked=["secret.txt"])
    first = await run(sandbox, "cat secret.txt")
    make(tmp_path, "echo secret > secret.txt")
    second = await run(sandbox, "cat secret.txt")

    assert (first.code, second.text) == (1, "")


async def test_what_a_command_makes_is_protected_from_the_next_one(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, tier="bubblewrap")
    first = await run(sandbox, f"{GIT} && echo before > .envrc", makes_repository=True)
    second = await run(sandbox, "echo after > .envrc; echo after > .git/hooks/pre-commit")

    kept = [tmp_path / ".envrc", tmp_path / ".git/hooks/pre-commit"]
    assert (first.code, second.code) == (0, 1)
    assert [one.read_text(encoding="utf-8") for one in kept] == ["before\n", "before\n"]


async def test_a_link_that_a_command_makes_ends_the_next_one(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, tier="bubblewrap")
    made = "git init -q . && rm -rf .git/hooks && ln -s /tmp .git/hooks"
    first = await run(sandbox, made, makes_repository=True)

    with pytest.raises(
        SandboxUnavailable, match=r"\.git/hooks in the workspace is a symbolic link"
    ):
        sandbox.start("touch ran")

    assert (first.code, (tmp_path / "ran").exists()) == (0, False)
