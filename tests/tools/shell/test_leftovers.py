"""The look at a workspace after a command: what is found, what is not, and how far it goes."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from handrail import Call, Executor, Toolset
from handrail.sandbox import Sandbox
from handrail.tools import Scan, ScanReport, SuspiciousFile, bash

pytestmark = pytest.mark.anyio


def shell(root: Path, line: str) -> None:
    """A command outside of any sandbox: what is found is the scan's alone."""
    subprocess.run(["bash", "-c", line], cwd=root, check=True, capture_output=True)  # noqa: S603, S607


def tick() -> None:
    """Wait for the clock of files, which is behind others: what comes next is later."""
    now = time.time_ns()
    while time.clock_gettime_ns(5) <= now:
        pass


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with repositories, made once and copied."""
    root = tmp_path_factory.mktemp("template")
    shell(root, BEFORE)
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    copied = shutil.copytree(template, tmp_path / "ws", symlinks=True)
    tick()
    return copied


def looked(root: Path, line: str, scan: Scan | None = None) -> list[str]:
    scan = scan or Scan(str(root))
    scan.begin()
    shell(root, line)
    scan.end()
    look = scan.look()
    assert look.whole
    return sorted(map(str, look.planted))


BEFORE = """
git init -q . && git config user.email a@b.c && git config user.name n
mkdir -p sub .github/workflows node_modules/x docs && git init -q sub
git init -q --bare evil && cp -r evil docs/template
echo '#!/bin/sh' > .git/hooks/pre-push && chmod +x .git/hooks/pre-push
echo x > AGENTS.md && echo x > file && ln -s file link && ln -s /etc away && git add file && git commit -qm one
mkdir -p .vscode && echo '{}' > .vscode/tasks.json && echo x > plain.txt
"""

FOUND = {
    "mkdir -p n/.git/hooks && echo x > n/.git/hooks/pre-commit": [
        "git hook n/.git/hooks/pre-commit",
        "git repository n/.git",
    ],
    "mv sub s2 && mkdir -p sub/.git/hooks && echo x > sub/.git/hooks/pre-commit": [
        "git hook sub/.git/hooks/pre-commit",
        "git repository s2/.git",
        "git repository sub/.git",
        "git settings s2/.git/config",
    ],
    "mv sub moved": ["git repository moved/.git", "git settings moved/.git/config"],
    "mv .vscode docs/.idea": ["protected file docs/.idea/tasks.json"],
    "git init -q new": ["git repository new/.git", "git settings new/.git/config"],
    "echo x >> .git/hooks/pre-push": ["git hook .git/hooks/pre-push"],
    "mv plain.txt .git/hooks/post-merge": ["git hook .git/hooks/post-merge"],
    "ln -s ../../plain.txt .git/hooks/post-merge": ["git hook .git/hooks/post-merge"],
    "git config core.fsmonitor ./x": ["git settings .git/config"],
    "echo ../evil > .git/commondir": ["git settings .git/commondir"],
    "echo . > .git/commondir": [],  # the placeholder of a sandbox
    "printf ' .\\n' > .git/commondir": ["git settings .git/commondir"],
    "ln -s config .git/commondir": ["git settings .git/commondir"],
    "echo '* filter=x' > .git/info/attributes": ["git settings .git/info/attributes"],
    "echo 'gitdir: ../evil' > docs/.git": ["git repository docs/.git"],
    "ln -s ../evil docs/.git": ["git repository docs/.git"],
    "mv evil sub/.git2 && mv sub/.git sub/.git3 && mv sub/.git2 sub/.git": [
        "git repository sub/.git",
        "git repository sub/.git3",
        "git settings sub/.git/config",
        "git settings sub/.git3/config",
    ],
    "mkdir objects refs; echo 'ref: x' > HEAD; printf '[core]\\nfsmonitor=canary\\n' > config": [
        "git repository .",
        "git settings config",
    ],
    "git init -q --bare b": ["git repository b", "git settings b/config"],
    "mkdir -p .git/modules && git init -q --bare .git/modules/m": [
        "git repository .git/modules/m",
        "git settings .git/modules/m/config",
    ],
    "ln -s /var plant": ["link out of the workspace plant"],
    "ln -s ../.. docs/up": ["link out of the workspace docs/up"],
    "ln -s away/passwd docs/chain; mkdir d; ln -s ../away d/deep": [
        "link out of the workspace d/deep",
    ],
    "ln -s /nowhere/at/all gone; ln -s away/new new; ln -s new newer": [
        "link out of the workspace gone",
        "link out of the workspace new",
        "link out of the workspace newer",
    ],
    "ln -s / top": ["link out of the workspace top"],
    "mkdir -p own/bin; ln -s /opt/x/bin/tool own/bin/python; ln -s /opt/x/bin/python3 own/notes": [
        "link out of the workspace own/bin/python",
        "link out of the workspace own/notes",
    ],
    "ln -s itself itself; ln -s $(printf 'a/%.0s' {1..50}) deep": [
        "unresolvable link deep",
        "unresolvable link itself",
    ],
    "ln -s file $'AGENTS\\x1b\\n.md'; mkdir .husky; echo x > $'.husky/\\xff\\n[x]'": [
        'protected file ".husky/\\xff\\n[x]"',
    ],
    "ln -s plain.txt CLAUDE.md": ["protected file CLAUDE.md"],
    "echo y >> AGENTS.md; touch -d 2001-01-01 AGENTS.md": ["protected file AGENTS.md"],
    "echo x > sub/conftest.py; echo x > .npmrc; echo x > .gitattributes": [
        "protected file .gitattributes",
        "protected file .npmrc",
        "protected file sub/conftest.py",
    ],
    "echo x > conftest.py; mkdir tests; echo x > tests/conftest.py; mkdir .github/actions; echo x > .github/actions/a": [
        "protected file .github/actions/a",
        "protected file conftest.py",
    ],
    "echo x > .github/workflows/x.yml": ["protected file .github/workflows/x.yml"],
    "echo x > .vscode/tasks.json; mkdir -p .husky/_; echo x > .husky/_/h": [
        "protected file .husky/_/h",
        "protected file .vscode/tasks.json",
    ],
    "mkdir -p A/.GIT/hooks; echo x > A/.GIT/hooks/update; echo x > agents.MD": [
        "git hook A/.GIT/hooks/update",
        "git repository A/.GIT",
        "protected file agents.MD",
    ],
    "mkdir .hg; echo x > .hg/hgrc; echo x > .zed; echo x > docs/.cursorrules": [
        "protected file .hg/hgrc",
        "protected file .zed",
        "protected file docs/.cursorrules",
    ],
    "mkdir .git/rebase-merge; echo 'exec x' > .git/rebase-merge/git-rebase-todo": [
        "git settings .git/rebase-merge/git-rebase-todo",
    ],
    "git config core.hooksPath hk; mkdir hk; echo x > hk/pre-commit; echo x > hk/y.sample": [
        "git hook hk/pre-commit",
        "git settings .git/config",
    ],
    "git init -q node_modules/x": [
        "git repository node_modules/x/.git",
        "git settings node_modules/x/.git/config",
    ],
}


@pytest.mark.parametrize("line", FOUND)
def test_what_is_planted_is_found(root: Path, line: str) -> None:
    assert looked(root, line) == FOUND[line]


QUIET = [
    "true",
    "echo more >> file && git commit -qam two && git checkout -qb other && git gc -q",
    "echo x > a.py; mkdir -p deep/er; echo y > deep/er/b.py; rm plain.txt",
    "ln -s file another; ln -s ../file docs/in; ln -s /usr/bin/env env",
    "echo x > node_modules/x/conftest.py; mkdir -p venv/lib; echo x > venv/lib/sitecustomize.py",
    "mkdir workflows && echo x > workflows/x.yml",
    "cat AGENTS.md .git/config; touch empty.npmrc; : > .envrc",
    "git -C sub commit -q --allow-empty -m x",
    "mv .vscode x && mv x .vscode && mv sub x && mv x sub",
    "ln -s nothing dangling; ln -s no/../such/place too; ln -s $PWD/file absolute",
    "touch .git/hooks/x.sample; echo x > .git/hooks/y.sample",
    "mkdir -p own/bin; ln -s /opt/x/bin/python3.12 own/bin/python3; ln -s python3 own/bin/python",
]


@pytest.mark.parametrize("line", QUIET)
def test_ordinary_work_is_not_reported(root: Path, line: str) -> None:
    assert looked(root, line) == []


NAMED = {
    "echo x > docs/hk/pre-commit": ["git hook docs/hk/pre-commit"],
    "mkdir -p docs/hk/_; echo x > docs/hk/_/run": ["git hook docs/hk/_/run"],
    "rm -r docs/hk; ln -s ../sub docs/hk": ["git hook docs/hk"],
    "echo x > docs/team.cfg": ["git settings docs/team.cfg"],
    "echo x > docs/plain; echo x > hk; echo x > team.cfg": [],
}


@pytest.mark.parametrize("line", NAMED)
def test_what_the_settings_of_git_name_is_found(root: Path, line: str) -> None:
    shell(root, "mkdir docs/hk; git config core.hooksPath docs/hk")
    shell(root, "git config include.path ../docs/team.cfg")
    tick()

    assert looked(root, line) == NAMED[line]


def test_a_thing_is_told_once(tmp_path: Path) -> None:
    scan = Scan(str(tmp_path))

    first = looked(tmp_path, "echo x > AGENTS.md; git init -q n", scan)
    second = looked(tmp_path, "true", scan)
    third = looked(tmp_path, "echo y > AGENTS.md", scan)

    assert [len(first), second, third] == [3, [], ["protected file AGENTS.md"]]


def test_what_nobody_looked_for_is_found_by_the_next_look(tmp_path: Path) -> None:
    """A command was cancelled, or a job goes on beside others."""
    scan = Scan(str(tmp_path))
    scan.begin()
    shell(tmp_path, "echo x > AGENTS.md")
    scan.end()

    assert looked(tmp_path, "true", scan) == ["protected file AGENTS.md"]

    scan.begin()  # a job
    assert looked(tmp_path, "true", scan) == []
    shell(tmp_path, "echo x > CLAUDE.md")  # by the job, while no command runs
    assert looked(tmp_path, "true", scan) == ["protected file CLAUDE.md"]
    scan.end()


PREPARED = [
    (
        "mkdir x && echo '{}' > x/tasks.json",
        "mv x docs/.vscode",
        "protected file docs/.vscode/tasks.json",
    ),
    (
        "mkdir h && echo evil > h/pre-commit",
        "rm -r sub/.git/hooks && mv h sub/.git/hooks",
        "git hook sub/.git/hooks/pre-commit",
    ),
    (
        "mkdir -p gh/workflows && echo 'on: push' > gh/workflows/x.yml && rm -r .github",
        "mv gh .github",
        "protected file .github/workflows/x.yml",
    ),
    (
        "mkdir -p node_modules/x/y/z && echo x > node_modules/x/y/z/conftest.py",
        "mv node_modules/x/y .",
        "protected file y/z/conftest.py",
    ),
    (
        "mkdir -p .git/objects/x/.cursor && echo x > .git/objects/x/.cursor/mcp",
        "mv .git/objects/x .",
        "protected file x/.cursor/mcp",
    ),
    (
        "mkdir -p a/b/c && ln -s ../../../file a/b/c/l",
        "mv a/b/c .",
        "link out of the workspace c/l",
    ),
    (
        "cp -r .vscode y && echo more > y/tasks.json && rm -r .vscode",
        "mv y .vscode",
        "protected file .vscode/tasks.json",
    ),
]


@pytest.mark.parametrize(("first", "second", "found"), PREPARED)
def test_what_was_prepared_and_is_then_moved_into_place_is_found(
    root: Path, first: str, second: str, found: str
) -> None:
    """No file is touched by the second command: its folder came to where it counts."""
    scan = Scan(str(root))

    assert looked(root, first, scan) == []
    tick()
    assert looked(root, second, scan) == [found]
    assert looked(root, "true", scan) == []


def test_what_the_user_moves_between_commands_is_not_told(root: Path) -> None:
    scan = Scan(str(root))
    looked(root, "mkdir x && echo '{}' > x/tasks.json", scan)
    shell(root, "mv x sub/.vscode; echo x > docs/conftest.py")
    tick()

    assert looked(root, "touch docs/new sub/.vscode/more", scan) == []


def test_a_link_that_leads_each_program_elsewhere_leads_out(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)

    assert looked(root, "ln -s /proc/self/cwd here; ln -s here/file file2") == [
        "link out of the workspace here"
    ]


@contextmanager
def unprivileged() -> Generator[Path]:
    """A folder in which this process has no more rights than others, whoever runs it."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65_534)
        try:
            yield Path(folder)
        finally:
            if root:
                os.seteuid(0)
            shell(Path(folder), "chmod -R u+rwx .")


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_folder_that_could_not_be_looked_into_is_new_when_it_can(mode: int) -> None:
    with unprivileged() as root:
        folder = root / "x"
        as_owner = partial(_as_owner, root)
        scan = Scan(str(root))
        scan.begin()
        as_owner("mkdir x && echo x > x/AGENTS.md && mkdir x/y && echo x > x/y/AGENTS.md")
        as_owner(f"chmod {mode:o} x")
        scan.end()
        assert scan.look().planted == ()

        tick()
        scan.begin()
        as_owner("chmod 755 x")
        scan.end()
        assert folder.is_dir()
        assert sorted(map(str, scan.look().planted)) == [
            "protected file x/AGENTS.md",
            "protected file x/y/AGENTS.md",
        ]


def _as_owner(root: Path, line: str) -> None:
    """A command by whoever the folder belongs to."""
    was = os.geteuid()
    os.seteuid(os.getuid())
    try:
        shell(root, line)
    finally:
        os.seteuid(was)


def test_a_chain_of_links_ends_no_look(tmp_path: Path) -> None:
    """Followed one within the other, they would be too many."""
    scan = Scan(str(tmp_path), seconds=30.0)
    scan.begin()
    for number in range(1_500):
        (tmp_path / f"l{number}").symlink_to(f"l{number + 1}")
    scan.end()
    look = scan.look()

    assert look.whole
    assert {one.what for one in look.planted} == {"unresolvable link"}
    assert SuspiciousFile("unresolvable link", "l0") in look.planted


def test_links_behind_a_path_that_is_too_long_are_told(tmp_path: Path) -> None:
    folder = "/".join(["d" * 250] * 12)
    shell(tmp_path, f"mkdir -p {folder}")
    target = "/".join(["e" * 250] * 6)

    assert looked(tmp_path, f"ln -s {target} {folder}/l") == [f"unresolvable link {folder}/l"]


def test_what_is_told_of_one_command_is_bounded(tmp_path: Path) -> None:
    scan = Scan(str(tmp_path), seconds=30.0)
    scan.begin()
    (tmp_path / ".husky").mkdir()
    for number in range(10_010):
        (tmp_path / ".husky" / str(number)).write_bytes(b"x")
    scan.end()
    look = scan.look()

    assert [len(look.planted), look.whole] == [10_000, False]


def test_a_look_without_a_command_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("x", encoding="utf-8")

    assert Scan(str(tmp_path)).look().whole


@pytest.mark.parametrize("options", [{"entries": 50}, {"seconds": 0.0}, {"entries": 3}])
def test_a_look_that_is_cut_short_says_so(tmp_path: Path, options: dict[str, float]) -> None:
    shell(tmp_path, "for i in 1 2 3 4; do mkdir d$i; touch d$i/f{1..20}; ln -s /etc d$i/l; done")
    scan = Scan(str(tmp_path), **options)  # type: ignore[arg-type]
    scan.begin()
    scan.end()

    look = scan.look()
    assert not look.whole
    assert look.entries <= options.get("entries", 5)


def test_repositories_that_a_cut_look_missed_are_remembered(tmp_path: Path) -> None:
    shell(tmp_path, "git init -q a")
    scan = Scan(str(tmp_path), entries=60)
    scan.begin()
    shell(tmp_path, "touch {1..100}")
    assert not scan.look().whole

    assert looked(tmp_path, "rm {1..100}; touch a/.git/x", scan) == []


def test_what_is_remembered_of_cut_looks_is_bounded(tmp_path: Path) -> None:
    scan = Scan(str(tmp_path), entries=10)
    for number in range(30):
        scan.begin()
        shell(tmp_path, f"rm -rf *; mkdir -p d{number}/{{1..8}}; touch d{number}/1/{{1..9}}")
        scan.end()
        assert not scan.look().whole

    assert len(scan._known.folders) <= 20  # type: ignore[union-attr]  # noqa: SLF001


@pytest.mark.parametrize("deep", ["d/" * 100, ("d" * 250 + "/") * 20])
def test_folders_that_are_too_deep_are_left_out_and_the_rest_is_looked_at(
    tmp_path: Path, deep: str
) -> None:
    scan = Scan(str(tmp_path))
    scan.begin()
    shell(tmp_path, f"for i in {{1..9}}; do mkdir d$i; echo > d$i/AGENTS.md; done; mkdir -p {deep}")
    look = scan.look()

    assert [len(look.planted), look.whole] == [9, False]


def test_a_workspace_that_is_gone_is_not_looked_at(tmp_path: Path) -> None:
    assert Scan(str(tmp_path / "none")).look() == ScanReport((), 0, whole=False)


def test_no_link_is_followed_and_nothing_is_opened_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    inside = tmp_path / "inside"
    shell(tmp_path, "mkdir -p outside/.git/hooks inside && echo x > outside/.git/hooks/pre-commit")

    assert looked(inside, f"echo y >> {outside}/.git/hooks/pre-commit; ln -s {outside} out") == [
        "link out of the workspace out"
    ]


def test_a_file_that_is_gone_by_then_has_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control is a file that stays."""
    scandir = os.scandir

    def list_and_remove(fd: int) -> object:
        entries = list(scandir(fd))
        (tmp_path / "AGENTS.md").unlink(missing_ok=True)
        return nullcontext(iter(entries))

    monkeypatch.setattr(os, "scandir", list_and_remove)

    assert looked(tmp_path, "echo x > AGENTS.md; echo x > CLAUDE.md") == [
        "protected file CLAUDE.md"
    ]


async def test_the_host_and_the_model_are_told(tmp_path: Path) -> None:
    looks: list[ScanReport] = []
    tell: Callable[[ScanReport], None] = looks.append
    line = "for i in {1..12}; do ln -s /etc l$i; done; ls > /dev/null"
    async with Executor(Toolset(bash(Sandbox(tmp_path), found=tell))) as executor:
        text = (await executor.run(Call("bash", {"command": line}, "c1"))).text

    assert len(looks[0].planted) == 12
    assert SuspiciousFile("link out of the workspace", "l1") in looks[0].planted
    assert text.splitlines()[1].endswith("; and 2 more]")


async def test_the_host_is_told_where_not_all_was_looked_at(tmp_path: Path) -> None:
    looks: list[ScanReport] = []
    tool = bash(Sandbox(tmp_path), scan=Scan(str(tmp_path), entries=1), found=looks.append)
    async with Executor(Toolset(tool)) as executor:
        text = (await executor.run(Call("bash", {"command": "touch a b c"}, "c1"))).text

    assert [one.whole for one in looks] == [False]
    assert text.startswith("(no output)\n[exit code 0")
