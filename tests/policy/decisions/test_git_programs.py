"""A git command that only reads needs approval if the repository's settings name a program."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from handrail import DESTROY, Access, Allow, Ask, Call, CheckedCall, Decision, Spec
from handrail.policy import Rulebook, builtin_rules

BASH = Spec(name="bash", description="", input_schema={}, effect=DESTROY)
READS = "git status", "git diff", "git log -p", "git show", "git blame a", "git stash list", "cat a && git diff"  # fmt: skip
RUN_NOTHING = "git branch", "git rev-parse HEAD", "git remote -v", "git --version", "cat a"
PROGRAMS = {
    "diff.external": "./x",
    "diff.d.textconv": "x",
    "diff.d.command": "x",
    "filter.f.clean": "x %f",
    "filter.f.process": "x",
    "filter.f.smudge": "x",
    "merge.m.driver": "x",
    "core.fsmonitor": "x",
}
HARMLESS = {
    "core.fsmonitor": "true",
    "filter.lfs.clean": "git-lfs clean -- %f",
    "filter.lfs.process": "git-lfs filter-process",
    "filter.lfs.required": "true",
    "diff.algorithm": "patience",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, and a user whose own settings name a program."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / ".gitconfig").write_text("[diff]\n\texternal = mine\n", encoding="utf-8")
    (tmp_path / "ws/sub").mkdir(parents=True)
    git(tmp_path / "ws", "init", "-q")
    return tmp_path / "ws"


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)  # noqa: S603, S607


def judge(root: Path, command: str, mode: str = "plan", *, sandboxed: bool = True) -> Decision:
    rules = builtin_rules("read_only")
    policy = Rulebook(rules, mode=mode, sandboxed=sandboxed, workspace=root, root=False)
    call = Call("bash", {"command": command}, "1")
    return policy(CheckedCall.recorded(call, BASH, (Access(DESTROY, "*"),)))


@pytest.mark.parametrize("key", PROGRAMS)
def test_a_program_makes_a_read_ask_in_plan_mode(root: Path, key: str) -> None:
    """The control is the same repository without the setting."""
    before = [type(judge(root, command)) for command in READS]
    git(root, "config", key, PROGRAMS[key])

    assert before == [Allow] * len(READS)
    assert [type(judge(root, command)) for command in READS] == [Ask] * len(READS)
    assert [type(judge(root, command)) for command in RUN_NOTHING] == [Allow] * len(RUN_NOTHING)


def in_module(root: Path) -> None:
    module = root / ".git/modules/a/b"
    module.mkdir(parents=True)
    (module / "objects").mkdir()
    (module / "config").write_text('[filter "x"]\nclean = x\n', encoding="utf-8")


def included(root: Path) -> None:
    (root / "i29").write_text("[diff]\nexternal = x\n", encoding="utf-8")
    by_text(root, "[include]\n" + "".join(f"path = ../i{n}\n" for n in range(30)))


def by_text(root: Path, after: str, *, before: str = "") -> None:
    config = root / ".git/config"
    text = before + config.read_text(encoding="utf-8") + after
    config.write_text(text, encoding="utf-8")


FAR = {
    "in a submodule": (in_module, "filter.clean"),
    "in the last of many files": (included, "include.path"),
    "after a mark": (partial(by_text, after="", before="\ufeff[diff]\nexternal = x\n"), "diff.external"),
    "after much else": (partial(by_text, after="#" * (1 << 20) + "\n[diff]\nexternal = x\n"), "include.path"),
}  # fmt: skip


@pytest.mark.parametrize("where", FAR)
def test_a_program_is_found_wherever_it_is_named(root: Path, where: str) -> None:
    change, setting = FAR[where]
    change(root)
    decision = judge(root, "git status")

    assert isinstance(decision, Ask)
    assert f"git may run a program that {setting} names" in decision.question


def test_the_many_submodules_of_a_repository_are_read_up_to_a_limit(root: Path) -> None:
    for number in range(120):
        (root / f".git/modules/m{number}").mkdir(parents=True)

    assert isinstance(judge(root, "git status"), Allow)
    for number in range(120):
        (root / f".git/modules/m{number}/config").touch()
    decision = judge(root, "git status")
    assert isinstance(decision, Ask)
    assert "git may run a program that include.path names" in decision.question


def test_the_question_names_the_setting(root: Path) -> None:
    git(root, "config", "diff.d.textconv", "x")

    assert str(judge(root, "git diff")) == snapshot(
        "Ask(question='Allow this command? `git diff` (git may run a program that diff.textconv names in the settings of the repository)', origin=Origin(rule='programs of git', file='', line=0), once=False)"
    )


def test_settings_that_run_no_program_of_the_workspace_do_not_ask(root: Path) -> None:
    for key, value in HARMLESS.items():
        git(root, "config", key, value)

    assert [type(judge(root, command)) for command in READS] == [Allow] * len(READS)


def test_included_settings_and_those_of_a_repository_above_count(root: Path) -> None:
    (root / "team.cfg").write_text("[diff]\n\texternal = x\n", encoding="utf-8")
    outside = judge(root.parent, "git diff")
    git(root, "config", "include.path", "../team.cfg")

    assert [type(outside), type(judge(root / "sub", "git diff"))] == [Allow, Ask]


def test_where_programs_may_run_it_does_not_ask(root: Path) -> None:
    git(root, "config", "diff.external", "x")
    modes = "plan", "ask", "edits", "open"

    assert {
        sandboxed: [type(judge(root, "git diff", mode, sandboxed=sandboxed)) for mode in modes]
        for sandboxed in (True, False)
    } == {True: [Ask, Allow, Allow, Allow], False: [Ask, Ask, Ask, Allow]}
