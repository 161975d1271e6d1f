"""A rule about reading a file holds for commands that read it without naming it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from handrail import DESTROY, Access, Allow, Ask, Call, CheckedCall, Decision, Spec
from handrail.policy import Level, Rulebook, RulePaths, builtin_rules, load, parse
from handrail.policy._decisions import workspace_files

BASH = Spec(name="bash", description="", input_schema={}, effect=DESTROY)
SHIPPED = builtin_rules("read_only", "development")
DENY = (
    '[[rule]]\nid = "keys"\ndecide = "deny"\nreason = "keys stay here"\naccess = "* file:**/*.pem"'
)


def judge(policy: Rulebook, command: str) -> Decision:
    call = Call("bash", {"command": command}, "1")
    return policy(CheckedCall.recorded(call, BASH, (Access(DESTROY, "*"),)))


def asks(root: Path, *commands: str, rules: str = "") -> list[str]:
    """Return those commands that need approval."""
    mine = parse(rules, file="rules.toml", level=Level.USER).rules
    book = Rulebook((*SHIPPED, *mine), sandboxed=True, workspace=root)
    return [command for command in commands if isinstance(judge(book, command), Ask)]


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.test")
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)  # noqa: S603, S607


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository in which nothing is secret."""
    made = tmp_path / "work"
    (made / "src" / "deep").mkdir(parents=True)
    (made / "src" / "a.py").write_text("KEY = 1\n", encoding="utf-8")
    (made / "src" / ".env.example").write_text("KEY=\n", encoding="utf-8")
    git(made, "init", "-q")
    git(made, "add", ".")
    git(made, "commit", "-qm", "a")
    return made


BELOW = [
    "grep -rn KEY .", "grep -rn KEY", "grep -R KEY src .", "grep --recursive KEY .", "egrep -r K .", "rg -uu KEY", "rg --hidden KEY .", "rg --no-ignore KEY",
    "rg -g '*' KEY", "rg -t sh KEY", "git grep --untracked KEY", "diff -r . src", "diff --recursive src .", "grep -r KEY . | head -5", "grep -d recurse KEY .",
    "bash -c 'grep -r KEY .'", "env grep -r KEY .", "ag KEY", "rgrep KEY", "grep -rn KEY --exclude-from src/a.py", "for f in a; do grep -r $f .; done", "grep --recur KEY .", "xargs grep -r KEY",
]  # fmt: skip
"""Commands that read all files below the workspace."""
HISTORY = [
    "git log -p", "git log -u", "git log -U1", "git log --patch", "git log -1 -p --stat", "git show", "git show HEAD", "git show --stat -p", "git diff", "git diff HEAD",
    "git diff --cached", "git diff main", "git diff --word-diff", "git stash show -p", "git cat-file -p 0123abc", "git cat-file blob 0123abc", "git diff-tree -p HEAD",
    "git whatchanged -p", "git status -v", "git status --verbose", "git grep KEY", "git --no-pager show", "git log --cc", "git log -c", "git diff --check", "git log -p -- ':(top)'",
    "git diff -- . src", "git show HEAD HEAD:src/a.py",
]  # fmt: skip
"""Commands that show the files that git tracks, or tracked."""
NAMES = [
    "ls -R", "find . -name '*.py'", "tree", "du -a", "rg --files", "git log", "git log --stat", "git log --oneline -10", "git show --stat", "git show --name-only HEAD",
    "git diff --name-status", "git diff --stat=80", "git stash list", "git status -u", "git cat-file -t HEAD", "git show HEAD:src/a.py", "git cat-file -p HEAD:src/a.py",
    "git ls-files", "grep KEY src/a.py", "diff src/a.py src/b.py", "git rev-parse HEAD", "git --version", "git log -p -1 -- src/a.py", "git diff main -- src",
    "git log --color=always",
]  # fmt: skip
"""Commands that show names, or one file that they name."""


def test_where_no_file_needs_approval_nothing_is_asked(root: Path) -> None:
    (root / ".venv" / "lib" / "site-packages" / "certifi").mkdir(parents=True)
    (root / ".venv" / "lib" / "site-packages" / "certifi" / "cacert.pem").touch()
    allowed = [
        command
        for command in (*BELOW, *HISTORY, *NAMES)
        if asks(root.parent / "nowhere", command) == []
    ]

    assert {"grep -rn KEY .", "git diff", "git log -p", "rg -uu KEY"} <= set(allowed)
    assert asks(root, *allowed) == []


def test_a_search_below_a_folder_with_a_secret_needs_approval(root: Path) -> None:
    (root / ".env").write_text("KEY=secret\n", encoding="utf-8")

    assert asks(root, *BELOW) == BELOW
    assert asks(root, *NAMES, "grep -rn KEY src", "rg KEY", "rg -n KEY .", "git grep KEY") == []


RESTRICTED = [
    'grep -rnE "(a|b)\\(" src -A 3', "grep -rn KEY --include=*.py .", "grep -rn --include '*.py' KEY .", "grep -rn KEY ./src/*.py",
    "grep -rne KEY src", "grep -rn -A3 KEY -- src", "rg KEY -t py", "rg --type=rust KEY .", "rg -g '*.go' KEY .", "rg -uu -g'!x' KEY src",
    'cd src && grep -rn "a|b" deep', "grep -rn KEY src/{a,b}", "echo x | grep -r KEY src && ls *",
]  # fmt: skip
UNRESTRICTED = [
    "grep -rn KEY src $OTHER", "grep -r --max-c 3 KEY", "grep -rn KEY --include=.env* .", "grep -rn KEY */", "rg -t sh KEY", "rg -g '.e*' KEY",
    "grep -rf patterns .", "grep -rm", 'cd .. && grep -rn "a|b" work src', "grep -rn KEY - . *", "ls | xargs grep -r KEY src",
]  # fmt: skip


def test_a_search_that_is_restricted_to_other_files_is_allowed(root: Path) -> None:
    (root / ".env").write_text("KEY=1\n", encoding="utf-8")
    policy = Rulebook(SHIPPED, mode="edits", sandboxed=True, workspace=root)

    assert [line for line in RESTRICTED if isinstance(judge(policy, line), Ask)] == []
    assert [line for line in UNRESTRICTED if not isinstance(judge(policy, line), Ask)] == []


def test_a_secret_is_found_in_every_folder_that_is_searched(root: Path) -> None:
    (root / "src" / "deep" / "server.key").touch()
    (root / "keys").mkdir()

    assert asks(
        root, "rg KEY", "rg KEY src", "grep -r KEY src", "cd src && grep -r KEY deep", "rg KEY keys"
    ) == ["rg KEY", "rg KEY src", "grep -r KEY src", "cd src && grep -r KEY deep"]


def test_a_secret_in_a_folder_that_rules_name_is_found(root: Path) -> None:
    (root / "home" / ".aws").mkdir(parents=True)
    (root / "home" / ".aws" / "config").touch()
    git(root, "add", "home")

    assert asks(root, "grep -r KEY home", "grep -r KEY home/.aws", "git diff", "rg KEY home") == [
        "grep -r KEY home",
        "grep -r KEY home/.aws",
        "git diff",
    ]


def test_a_search_that_names_a_secret_beside_a_pattern_needs_approval(root: Path) -> None:
    (root / "a.pem").touch()

    assert asks(root, "grep -r KEY a.pem", "grep -r KEY src a.pem", "grep -r a.pem src") == [
        "grep -r KEY a.pem",
        "grep -r KEY src a.pem",
    ]


@pytest.mark.parametrize("name", [".gitignore", ".ignore", ".rgignore"])
def test_rg_reads_a_dotted_file_that_an_ignore_file_makes_an_exception_for(
    root: Path, name: str
) -> None:
    (root / ".env").write_text("KEY=secret\n", encoding="utf-8")
    (root / name).write_text("*.log\n!.env.example\n", encoding="utf-8")
    before = asks(root, "rg KEY")
    (root / name).write_text("!/.en?\n", encoding="utf-8")

    assert (before, asks(root, "rg KEY")) == ([], ["rg KEY"])


def test_an_ignore_file_above_the_folder_makes_exceptions_too(root: Path) -> None:
    (root / "src" / ".env").write_text("KEY=secret\n", encoding="utf-8")
    before = asks(root, "rg KEY src", "rg KEY src/deep")
    (root / ".ignore").write_text("!.env\n", encoding="utf-8")

    assert (before, asks(root, "rg KEY src", "rg KEY src/deep")) == ([], ["rg KEY src"])


def test_an_ignore_file_that_cannot_be_read_may_make_any_exception(root: Path) -> None:
    (root / ".env").write_text("KEY=secret\n", encoding="utf-8")
    os.mkfifo(root / ".ignore")

    assert asks(root, "rg KEY") == ["rg KEY"]


def test_history_needs_approval_if_git_tracks_a_secret(root: Path) -> None:
    (root / ".env").write_text("KEY=secret\n", encoding="utf-8")
    before = asks(root, *HISTORY)
    git(root, "add", "-f", ".env")

    assert (before, asks(root, *HISTORY)) == ([], HISTORY)
    assert asks(root, *NAMES) == []


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_every_form_of_gits_index_is_read(root: Path, version: str) -> None:
    for name in ("src/b.py", "src/deep/c.py", "src/long" + "g" * 200):
        (root / name).touch()
    git(root, "add", "-N", ".")  # with more flags
    before = asks(root, "git diff")
    (root / "src" / "server.key").touch()
    git(root, "add", ".")
    git(root, "update-index", "--index-version", version)

    assert (before, asks(root, "git diff", "git diff -- src/deep")) == ([], ["git diff"])


def test_an_index_that_is_not_understood_may_have_a_secret(root: Path) -> None:
    index = root / ".git" / "index"
    content = index.read_bytes()
    answers = []
    for changed in (b"JUNK", content[:4] + b"\0\0\0\x09" + content[8:], content[:80], content[:12]):
        index.write_bytes(changed)
        answers.append(asks(root, "git diff"))
    index.unlink()
    answers.append(asks(root, "git diff"))
    git(root, "add", ".")
    git(root, "update-index", "--split-index")
    answers.append(asks(root, "git diff"))
    index.unlink()
    index.mkdir()
    answers.append(asks(root, "git diff"))

    assert answers == [["git diff"]] * 4 + [[], ["git diff"], ["git diff"]]


@pytest.mark.parametrize(
    "entries",
    [b"\xff" * 100_000, b"\x01" + b"x" * 5_000 + b"\0"],
    ids=["a number without end", "a long path"],
)
def test_a_hostile_index_takes_no_time_and_may_have_a_secret(root: Path, entries: bytes) -> None:
    entry = b"\0" * 62 + entries
    (root / ".git" / "index").write_bytes(b"DIRC\0\0\0\x04\0\0\0\x02" + entry)

    assert asks(root, "git diff") == ["git diff"]


def test_a_repository_with_an_invalid_name_may_have_a_secret(root: Path) -> None:
    shutil.rmtree(root / ".git")
    (root / ".git").write_bytes(b"gitdir: a\0b")

    assert asks(root, "git diff") == ["git diff"]


def test_folders_are_searched_once_and_many_or_odd_ones_need_approval(root: Path) -> None:
    many = " ".join(f"src{number}" for number in range(30))
    odd = f"grep -r KEY {'x' * 300}"

    assert asks(root, f"grep -r KEY {'. ' * 200}", "grep -r KEY src src/deep ./src") == []
    assert asks(root, f"grep -r KEY {many}", odd) == [f"grep -r KEY {many}", odd]


def test_the_repository_may_begin_above_or_elsewhere(root: Path, tmp_path: Path) -> None:
    (root / "src" / "id_rsa").touch()
    git(root, "add", ".")
    git(root, "commit", "-qm", "b")
    git(root, "worktree", "add", "-q", str(tmp_path / "other"))

    assert asks(root / "src", "git show") == ["git show"]
    assert asks(tmp_path / "other", "git show") == ["git show"]
    assert asks(tmp_path, "git show") == []


def test_too_many_files_may_include_a_secret(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_files, "MAX_ENTRIES", 3)

    assert asks(root, "grep -r KEY .", "grep -r KEY src") == ["grep -r KEY ."]


def test_what_a_rule_denies_may_be_in_history(root: Path) -> None:
    (root / "a.pem").touch()
    (root / "src" / "b.py").touch()
    git(root, "add", ".")

    assert asks(root, *HISTORY, rules=DENY) == HISTORY
    git(root, "rm", "-q", "--cached", "a.pem")
    gone = asks(root, *HISTORY, rules=DENY)
    assert {"git log -p", "git show HEAD", "git diff main", "git stash show -p"} <= set(gone)
    assert {"git diff", "git diff HEAD", "git diff --cached", "git status -v"} & set(gone) == set()
    assert asks(root, "git log --stat", "git show HEAD:src/a.py", rules=DENY) == []


def test_what_a_rule_denies_elsewhere_is_not_in_history(root: Path) -> None:
    elsewhere = (
        '[[rule]]\ndecide = "deny"\naccess = ["* file:/etc/**", "* net:**", "* file:src/keys/**"]'
    )

    assert asks(
        root, "git log -p -- src/a.py", "git log -p -- src", "git log -p", rules=elsewhere
    ) == ["git log -p -- src", "git log -p"]


def test_a_rule_of_a_person_that_asks_holds_for_searches_too(root: Path) -> None:
    mine = '[[rule]]\nid = "mine"\ndecide = "ask"\naccess = "read file:src/**"'

    assert asks(root, "grep -r KEY .", "grep -r KEY src", "rg KEY", "git diff", rules=mine) == [
        "grep -r KEY .",
        "grep -r KEY src",
        "rg KEY",
        "git diff",
    ]


def test_installed_packages_and_examples_are_skipped_for_built_in_rules_only(root: Path) -> None:
    (root / "node_modules" / "a").mkdir(parents=True)
    (root / "node_modules" / "a" / "x.pem").touch()
    (root / "node_modules" / "a" / "b.special.example").touch()
    mine = '[[rule]]\ndecide = "ask"\naccess = "read file:**/*.special.example"'
    command = "grep -r KEY ."

    assert (asks(root, command), asks(root, command, rules=mine)) == ([], [command])


def test_the_question_names_the_file_or_the_doubt(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".env").write_text("KEY=secret\n", encoding="utf-8")
    git(root, "add", "-f", ".env")
    mine = parse(
        f'{DENY}\n[[rule]]\nid = "mine"\ndecide = "ask"\naccess = "read file:src/a.*"',
        file="rules.toml",
        level=Level.USER,
    ).rules
    texts = []
    for rules in (SHIPPED, (*SHIPPED, *mine)):
        book = Rulebook(rules, sandboxed=True, workspace=root)
        for command in ("grep -r KEY .", "git diff", "git log -p"):
            decision = judge(book, command)
            assert isinstance(decision, Ask)
            texts.append(decision.question)
    monkeypatch.setattr(workspace_files, "MAX_ENTRIES", 0)
    doubt = judge(Rulebook(SHIPPED, sandboxed=True, workspace=root), "grep -r KEY src")
    assert isinstance(doubt, Ask)
    texts.append(doubt.question)

    assert texts == snapshot(
        [
            "Allow this command? `grep -r KEY .` (reading everything below . includes .env: it may hold secrets)",
            "Allow this command? `git diff` (reading what git tracks includes .env: it may hold secrets)",
            "Allow this command? `git log -p` (reading what git tracks includes .env: it may hold secrets)",
            "Allow this command? `grep -r KEY .` (reading everything below . includes .env: it may hold secrets)",
            "Allow this command? `git diff` (reading what git tracks includes .env: it may hold secrets)",
            "Allow this command? `git log -p` (reading what git tracks includes .env: it may hold secrets)",
            "Allow this command? `grep -r KEY src` (reading everything below src may include what rule 'ask: secrets' asks about: it may hold secrets)",
        ]
    )


def test_the_loaded_rules_know_their_workspace(root: Path, tmp_path: Path) -> None:
    (root / ".env").write_text("KEY=secret\n", encoding="utf-8")
    paths = RulePaths.of(root, config=tmp_path / "config")
    books = [load(paths, sandboxed=True, hides_files=hides) for hides in (False, True)]

    assert [type(judge(book, "grep -r KEY .")) for book in books] == [Ask, Allow]
