"""Rules about files reach the sandbox: which files a command may not read, and not change."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from handrail import DESTROY, Access, Allow, Ask, Call, CheckedCall, Spec
from handrail.policy import Level, Rulebook, builtin_rules, parse

DECISIONS = "handrail.policy._decisions"
"""Where the limits are."""
SHIPPED = builtin_rules("read_only", "development")
BASH = Spec(name="bash", description="", input_schema={}, effect=DESTROY)
SECRETS = ".env", "certs/a.pem", "app/.env.production"
RULES = {
    "deny": 'decide = "deny"\naccess = ["* file:**/.env", "write file:tests/**"]',
    "ask": 'decide = "ask"\naccess = ["read file:vault/**", "write file:*.lock"]',
    "all": 'decide = "ask"\naccess = ["read file:**", "read *", "write file:**/*"]',
    "other tool": 'decide = "deny"\ntools = "read"\naccess = "read file:*.lock"',
    "some arguments": 'decide = "deny"\naccess = "read file:*.lock"\nargs.command = "x"',
    "expired": 'decide = "deny"\naccess = "read file:*.lock"\nexpires = 2020-01-01T00:00:00Z',
    "absolute": 'decide = "deny"\naccess = "read file:/etc/**"',
    "in git": 'decide = "deny"\naccess = "read file:.git/**"',
}


def made(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n", encoding="utf-8")
    return root


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.test")
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)  # noqa: S603, S607


def book(root: Path, *named: str, shipped: bool = False) -> Rulebook:
    text = "\n".join(f'[[rule]]\nid = "{name}"\n{RULES[name]}' for name in named)
    mine = parse(text, file="rules.toml", level=Level.USER).rules
    return Rulebook(
        (*(SHIPPED if shipped else ()), *mine), sandboxed=True, mode="edits", workspace=root
    )


def judge(policy: Rulebook, command: str) -> type:
    call = Call("bash", {"command": command}, "1")
    return type(policy(CheckedCall.recorded(call, BASH, (Access(DESTROY, "*"),))))


def test_what_built_in_rules_ask_about_is_hidden(tmp_path: Path) -> None:
    root = made(
        tmp_path, *SECRETS, "src/a.py", ".env.example", "node_modules/x/test.pem", "b.pem/a.py"
    )

    assert book(root, shipped=True).find_restricted("python3 peek.py") == dict.fromkeys(
        SECRETS, "hidden"
    )
    assert book(root).find_restricted("python3 peek.py") == {}


def test_rules_of_people_hide_or_hold_whole_folders_and_files(tmp_path: Path) -> None:
    names = ".env", "tests/a.py", "tests/deep/b.py", "vault/k/v", "vault/w", "a.lock", "sub/b.lock"
    root = made(tmp_path, *names)
    git(root, "init", "-q")

    assert {name: book(root, name).find_restricted("make") for name in RULES} == snapshot(
        {
            "deny": {"tests": "read-only", ".env": "hidden"},
            "ask": {"a.lock": "read-only", "vault": "hidden"},
            "all": {},
            "other tool": {},
            "some arguments": {},
            "expired": {},
            "absolute": {},
            "in git": {".git": "hidden"},
        }
    )


NAMING = [
    "cat .env", "cat ./.env", "cat {root}/.env", "python3 app.py --env-file=.env", "cd src; cat ../.env",
    ". ./.env && make", "grep -r KEY .", "echo $(cat .env)", "cat < .env", "sed -i s/a/b/ .env", "git add .env", "cat *.env",
    "cat .e*", "cat .[e]nv", "cat < .en?", "for f in .*; do cat $f; done", "cp -r . /tmp/x", "tar cf x.tar .", "find . -exec cat {{}} +",
    "find . -type f | xargs cat", "zip -r x.zip .",
]  # fmt: skip
"""Commands that need approval because of a file, which they then see."""
NOT_NAMING = ["python3 peek.py", "rg KEY; python3 peek.py", "make", "ls -a", "git diff; make", "tree", "ls .e*; make", "ls .env; python3 peek.py",
    "test -f .env && python3 peek.py", "cat *.py",
    "grep -n '.e*' a", "cp -r src/a /tmp/x", "tar xf x.tar", "find . -name '*.py' -exec cat {} +", "find . -exec ls {} +",
]  # fmt: skip


@pytest.mark.parametrize("command", NAMING)
def test_a_file_that_a_command_names_is_visible_to_it_and_the_command_asks(
    tmp_path: Path, command: str
) -> None:
    policy = book(made(tmp_path, ".env", "src/.env"), shipped=True)
    command = command.format(root=tmp_path)

    assert policy.find_restricted(command).get(".env") != "hidden"
    assert judge(policy, command) is Ask
    assert book(tmp_path, "deny", shipped=True).find_restricted(command)[".env"] == "hidden"


@pytest.mark.parametrize("command", NOT_NAMING)
def test_a_command_that_does_not_ask_sees_no_such_file(tmp_path: Path, command: str) -> None:
    policy = book(made(tmp_path, ".env", "src/.env"), shipped=True)

    assert policy.find_restricted(command) == {".env": "hidden", "src/.env": "hidden"}
    assert judge(policy, command) is Allow


def test_patterns_in_too_many_folders_to_look_at_need_approval(tmp_path: Path) -> None:
    policy = book(made(tmp_path, ".env"), shipped=True)
    folders = [f"d{number}/*" for number in range(21)]

    assert judge(policy, f"cat {' '.join(folders)}") is Ask
    assert judge(policy, f"cat {' '.join(folders[:20])}") is Allow


def test_a_pattern_shows_only_the_files_that_it_can_be(tmp_path: Path) -> None:
    policy = book(made(tmp_path, ".env", "src/.env", "a.key"), shipped=True)

    assert policy.find_restricted("cat .e*") == {
        ".env": "read-only",
        "a.key": "hidden",
        "src/.env": "hidden",
    }
    assert policy.find_restricted("cat a*") == {
        ".env": "hidden",
        "a.key": "read-only",
        "src/.env": "hidden",
    }


def test_an_approval_covers_what_the_command_names_and_no_more(tmp_path: Path) -> None:
    policy = book(made(tmp_path, "vault/a", "vault/sub/b", "x.lock"), "ask", shipped=True)

    assert {
        command: policy.find_restricted(command)
        for command in (
            "cat vault/a",
            "ls vault",
            "cat x.lock",
            "rm x.lock",
            "grep -r x vault/sub",
            "rg x vault",
            "rg x .",
        )
    } == snapshot(
        {
            "cat vault/a": {"x.lock": "read-only", "vault/sub": "hidden"},
            "ls vault": {"x.lock": "read-only"},
            "cat x.lock": {"x.lock": "read-only", "vault": "hidden"},
            "rm x.lock": {"vault": "hidden"},
            "grep -r x vault/sub": {"x.lock": "read-only", "vault/a": "hidden"},
            "rg x vault": {"x.lock": "read-only"},
            "rg x .": {"x.lock": "read-only"},
        }
    )


def test_history_shows_what_git_tracks_and_nothing_else(tmp_path: Path) -> None:
    root = made(tmp_path, "deploy/.env", ".env")
    git(root, "init", "-q")
    git(root, "add", "deploy")
    git(root, "commit", "-qm", "a")
    (root / "deploy/.env").write_text("changed\n", encoding="utf-8")
    policy = book(root, shipped=True)

    assert [policy.find_restricted(command) for command in ("make", "git diff")] == [
        {".env": "hidden", "deploy/.env": "hidden"},
        {".env": "hidden", "deploy/.env": "read-only"},
    ]


def test_what_git_has_is_not_hidden_by_a_built_in_rule(tmp_path: Path) -> None:
    """Programs could read it from git, and tests need their certificates; builds copy them."""
    root = made(tmp_path, "tests/a.pem", "tests/b.pem", "c.pem")
    git(root, "init", "-q")
    git(root, "add", "tests")
    (root / "build").mkdir()
    shutil.copy(root / "tests/a.pem", root / "build/x.pem")
    (root / "tests/b.pem").write_text("changed\n", encoding="utf-8")
    policy, inner = book(root, shipped=True), book(root / "tests", shipped=True)
    before = policy.find_restricted(), inner.find_restricted()
    git(root, "add", "c.pem")

    assert before == ({"c.pem": "hidden", "tests/b.pem": "hidden"}, {"b.pem": "hidden"})
    assert policy.find_restricted() == {"tests/b.pem": "hidden"}
    shutil.rmtree(root / ".git")
    (root / ".git").write_text("gitdir: \0", encoding="utf-8")
    assert len(policy.find_restricted()) == 4


def test_files_that_appear_and_disappear_are_noticed(tmp_path: Path) -> None:
    policy, found = book(made(tmp_path, "src/deep/a.py"), shipped=True), list[list[str]]()

    def look() -> None:
        found.append(sorted(policy.find_restricted("make")))

    look()
    for folder in ("", "src", "src/deep"):  # as if nothing had changed for long
        os.utime(tmp_path / folder, (1, 1))
    made(tmp_path, "src/deep/.env")
    look()
    (tmp_path / "src").rename(tmp_path / "lib")
    look()
    shutil.rmtree(tmp_path / "lib")
    look()

    assert found == [[], ["src/deep/.env"], ["lib/deep/.env"], []]


def test_an_unchanged_folder_is_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{DECISIONS}.restricted_files._SETTLED_NS", -1)
    listed, scandir = list[str](), os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or scandir(path))
    policy = book(made(tmp_path, "src/.env", "lib/a.py"), shipped=True)
    counts = []
    for name in ("", "", "lib/b.py"):
        if name:
            made(tmp_path, name)
        listed.clear()
        policy.find_restricted("make")
        counts.append(len(listed))

    assert counts == [3, 0, 1]


def test_other_names_of_a_file_are_restricted_too(tmp_path: Path) -> None:
    root = made(tmp_path, ".env", "tests/t.py", "src/a.py")
    (root / "src/x").hardlink_to(root / ".env")
    (root / "src/y").hardlink_to(root / "src/a.py")
    (root / "src/link").symlink_to("../.env")
    (root / "gone.env").symlink_to("nowhere")

    assert book(root, "deny", shipped=True).find_restricted("cat src/x") == {
        "tests": "read-only",
        ".env": "hidden",
        "gone.env": "hidden",
        "src/x": "hidden",
    }


def test_a_link_with_the_name_of_a_folder_is_restricted(tmp_path: Path) -> None:
    root = made(tmp_path, "real/key")
    (root / "vault").symlink_to("real")

    assert book(root, "ask").find_restricted("make") == {"vault": "hidden"}


def test_of_too_many_files_those_near_the_top_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made(tmp_path, ".env", "a/b/c/.env", *(f"a/{number}" for number in range(9)))
    (root / "z").hardlink_to(root / ".env")
    (root / "a/b/z").hardlink_to(root / ".env")
    whole = sorted(book(root, shipped=True).find_restricted())
    monkeypatch.setattr(f"{DECISIONS}.restricted_files.MAX_ENTRIES", 5)
    monkeypatch.setattr(f"{DECISIONS}.hard_links.MAX_ENTRIES", 5)

    assert whole == [".env", "a/b/c/.env", "a/b/z", "z"]
    assert sorted(book(root, shipped=True).find_restricted()) == [".env", "z"]


def test_a_folder_that_cannot_be_listed_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, scandir = made(tmp_path, ".env", "a/.env"), os.scandir
    (root / "x").hardlink_to(root / ".env")

    def refuse(path: str) -> object:
        if path.rstrip("/").endswith("/a"):
            raise PermissionError(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)

    assert book(root, shipped=True).find_restricted() == {".env": "hidden", "x": "hidden"}


def test_rules_that_are_added_later_apply(tmp_path: Path) -> None:
    root = made(tmp_path, ".env")
    policy = Rulebook(workspace=root, shell=())
    before = policy.find_restricted()
    [rule] = book(root, "deny").rules
    policy.add(rule)

    assert (before, policy.find_restricted()) == ({}, {".env": "hidden"})


def test_asked_files_of_any_folder_are_listed(tmp_path: Path) -> None:
    root = made(tmp_path, *SECRETS, "vault/a")
    git(root, "init", "-q")
    git(root, "add", ".")

    assert book(Path("/nowhere"), "ask", "deny", shipped=True).find_asked(str(root)) == {
        *SECRETS,
        "vault/a",
    }
    assert book(root, "deny").find_asked(str(root)) == set()
