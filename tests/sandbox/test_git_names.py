"""What git obeys in `.git`: worktrees, submodules, missing files, and a repository that is new."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from handrail import Allow, Call, Deny, Executor, Toolset
from handrail.permissions import Pending
from handrail.policy import Rulebook
from handrail.sandbox import Sandbox, SandboxUnavailable
from handrail.tools import ScanReport, bash
from sandbox.commands import ended, run

pytestmark = pytest.mark.anyio

COMMIT = "git -c user.name=n -c user.email=e commit -q --allow-empty -m x"


def shell(folder: Path, command: str) -> str:
    """Run a command without a sandbox."""
    done = subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", command], cwd=folder, check=False, capture_output=True, encoding="utf-8"
    )
    return done.stdout + done.stderr


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a repository, and a linked worktree beside it."""
    folder = tmp_path / "ws"
    folder.mkdir()
    shell(folder, f"git init -q; {COMMIT}; git worktree add -q ../linked")
    return folder


async def told(root: Path, command: str, **options: Any) -> list[str]:
    made = await run(Sandbox(root, tier="bubblewrap"), command, **options)
    return made.text.replace("bash: line 1: ", "").splitlines()


def names_in(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


READ_ONLY = ": Read-only file system"


async def test_what_leads_a_worktree_to_its_settings_is_held(root: Path) -> None:
    folder = ".git/worktrees/linked"
    (root / folder / "config.worktree").touch()
    names = [f"{folder}/{name}" for name in ("commondir", "gitdir", "config.worktree")]

    assert await told(root, "; ".join(f"echo x > {name}" for name in names)) == [
        name + READ_ONLY for name in names
    ]
    assert await told(root, f"mv {folder} .git/worktrees/away; mv .git/worktrees .git/away") == [
        f"mv: cannot move '{folder}' to '.git/worktrees/away': Device or resource busy",
        "mv: cannot move '.git/worktrees' to '.git/away': Device or resource busy",
    ]


async def test_git_works_in_all_worktrees(root: Path) -> None:
    command = f"git worktree add -q sub && cd sub && touch n && git add n && {COMMIT} && cd .. && {COMMIT}"

    assert await told(root, f"{command} && git status --short && git log --oneline | wc -l") == [
        "?? sub/",
        "2",
    ]
    assert shell(root.parent / "linked", f"git status --short && {COMMIT} && echo fine") == "fine\n"


@pytest.mark.parametrize("setting", ["worktreeConfig = true", "WorktreeConfig"])
async def test_missing_settings_of_worktrees_are_reserved_where_git_reads_them(
    root: Path, setting: str
) -> None:
    names = (".git/config.worktree", ".git/worktrees/linked/config.worktree")
    command = "; ".join(f"echo '[a]' > {name}" for name in names)
    free = await told(root, command)
    shell(root, f"rm {' '.join(names)}; printf '[extensions]\n{setting}\n' >> .git/config")
    held = await told(root, f"{command}; git status --short")

    assert free == []
    assert held == [name + READ_ONLY for name in names]
    assert not any((root / name).exists() for name in names)


async def test_the_host_may_write_what_is_reserved_meanwhile(root: Path) -> None:
    shell(root, "git config extensions.worktreeConfig true")
    process = Sandbox(root, tier="bubblewrap").start("echo started; read line", source=True)
    assert await process.read() == b"started\n"

    said = shell(root, "git status --short; git config --worktree a.b c")
    await process.send(b"\n")
    await ended(process)

    assert said == ""
    assert shell(root, "git config --worktree a.b") == "c\n"


COMMON = ".git/commondir"
EVERYDAY = f"""
    touch {{0}} && git add {{0}} && {COMMIT} && git branch {{0}} && git checkout -q {{0}} &&
    git worktree add -q ../ws/in-{{0}} && git -C in-{{0}} status --short &&
    git worktree remove in-{{0}} && git stash list && git gc -q && git status --short &&
    git rev-parse --show-toplevel --abbrev-ref HEAD
"""


async def test_a_commondir_that_leads_nowhere_is_there_while_a_command_runs(root: Path) -> None:
    inside = f"echo started; read line; {EVERYDAY.format('inner')}"
    process = Sandbox(root, tier="bubblewrap").start(inside, source=True)
    assert await process.read() == b"started\n"

    meanwhile = (root / COMMON).read_text(encoding="utf-8")
    outside = shell(root, EVERYDAY.format("outer"))
    linked = shell(root.parent / "linked", f"{COMMIT}; git status --short --branch")
    await process.send(b"\n")
    made = await ended(process)

    assert meanwhile == ".\n"
    assert outside == f"{root}\nouter\n"
    assert linked == "## linked\n"
    assert made.text == f"{root}\ninner\n"
    assert not (root / COMMON).exists()


SPOIL = (
    f"echo ../evil > {COMMON}; rm -f {COMMON}; mv -T .git/info {COMMON}; ln -sf x {COMMON}; "
    f"mv .git away; cat {COMMON}; git config a.b"
)


async def test_a_command_can_neither_create_nor_change_commondir(root: Path) -> None:
    """The control may: git outside obeys it, even after the command."""
    shell(root, "git init -q --bare evil; git -C evil config a.b evil; git config a.b mine")
    held = await told(root, SPOIL)
    after = shell(root, "git config a.b")
    sandbox = Sandbox(root, tier="bubblewrap", writable=[COMMON])
    free = await run(sandbox, f"echo ../evil > {COMMON}; git config a.b")

    assert held == [
        f"{COMMON}{READ_ONLY}",
        f"rm: cannot remove '{COMMON}': Device or resource busy",
        f"mv: cannot overwrite non-directory '{COMMON}' with directory '.git/info'",
        f"ln: failed to create symbolic link '{COMMON}': Device or resource busy",
        "mv: cannot move '.git' to 'away': Device or resource busy",
        ".",
        "mine",
    ]
    assert after == "mine\n"
    assert (free.text, shell(root, "git config a.b")) == ("evil\n", "evil\n")


async def test_commands_side_by_side_share_one_placeholder(root: Path) -> None:
    sandbox = Sandbox(root, tier="bubblewrap")
    process = sandbox.start("echo started; read line", source=True)
    assert await process.read() == b"started\n"
    beside = await run(sandbox, f"echo ../evil > {COMMON}; cat {COMMON}")
    between = (root / COMMON).exists()
    await process.send(b"\n")
    await ended(process)

    assert beside.text.endswith(f"{COMMON}{READ_ONLY}\n.\n")
    assert (between, (root / COMMON).exists()) == (True, False)


async def test_a_commondir_that_exists_is_held_and_stays(root: Path) -> None:
    (root / COMMON).write_text(".\n", encoding="utf-8")

    assert await told(root, f"echo ../evil > {COMMON}") == [f"{COMMON}{READ_ONLY}"]
    assert (root / COMMON).read_text(encoding="utf-8") == ".\n"


async def test_the_host_may_write_commondir_meanwhile(root: Path) -> None:
    process = Sandbox(root, tier="bubblewrap").start("echo started; read line", source=True)
    assert await process.read() == b"started\n"
    (root / COMMON).write_text("./\n", encoding="utf-8")
    await process.send(b"\n")
    await ended(process)

    assert (root / COMMON).read_text(encoding="utf-8") == "./\n"


@pytest.mark.parametrize(
    ("settings", "reserved"),
    [
        ("[core]\n\tbare = true\n", False),
        ("[core]\n\tbare\n", False),
        ("[core] worktree = ../tree\n", False),
        ("[extensions]\n\tworktreeConfig = false\n[core]\n\tbare = FALSE\n", True),
    ],
)
async def test_where_git_would_ignore_settings_a_new_commondir_is_removed(
    root: Path, settings: str, *, reserved: bool
) -> None:
    """Git ignores these settings beside any `commondir`, so there can be no placeholder."""
    (root / "tree").mkdir()
    with (root / ".git/config").open("a", encoding="utf-8") as config:
        config.write(settings)
    words = "rev-parse --is-bare-repository --is-inside-work-tree"
    before = shell(root, f"git {words}")
    told_inside = await told(root, f"git {words}; echo ../evil > {COMMON} && echo done")

    last = f"{COMMON}{READ_ONLY}" if reserved else "done"
    assert told_inside == [*before.splitlines(), last]
    assert not (root / COMMON).exists()


IN_PROCESS = """
import sys, anyio
from handrail.sandbox import Sandbox

async def run():
    process = Sandbox(sys.argv[1], tier="bubblewrap").start("git status --short && echo fine")
    while piece := await process.read():
        print(piece.decode(), end="")
    await process.kill()

anyio.run(run)
"""


def test_a_repository_that_nobody_can_write_needs_no_placeholder(root: Path) -> None:
    git, program = root / ".git", root.parent / "program.py"
    program.write_text(IN_PROCESS, encoding="utf-8")
    mounted = f"mount --bind {git} {git} && mount -o remount,ro,bind {git}"
    started = f"exec {sys.executable} {program} {root}"

    assert shell(root, f"unshare -rm sh -c '{mounted} && {started}'") == "fine\n"


async def test_missing_names_of_submodules_are_reserved(root: Path) -> None:
    module = ".git/modules/m"
    shell(root, f"git init -q --bare {module}; rm -r {module}/hooks")
    shell(root, f"git -C {module} config extensions.worktreeConfig true")
    command = (
        f"cd {module}; mkdir hooks; echo x > hooks/h; echo x > config.worktree; echo x > commondir"
    )
    said = await told(root, command)

    assert [line.rpartition(": ")[2] for line in said] == [
        "File exists",
        "Read-only file system",
        "Read-only file system",
        "Read-only file system",
    ]
    assert {"hooks", "config.worktree", "commondir"}.isdisjoint(names_in(root / module))


async def test_git_works_in_a_submodule_with_a_reserved_commondir(root: Path) -> None:
    shell(root, f"git init -q ../other; cd ../other; {COMMIT}")
    shell(root, f"git -c protocol.file.allow=always submodule add -q ../other m; {COMMIT} -a")
    inside = f"cat .git/modules/m/commondir; cd m; touch n; git add n; {COMMIT}; git status --short; cd ..; "

    assert await told(
        root, f"{inside} git submodule --quiet foreach git status -s; git status -s"
    ) == [
        ".",
        " M m",
    ]
    assert "commondir" not in names_in(root / ".git/modules/m")


async def test_of_many_worktrees_the_whole_folder_is_held(root: Path) -> None:
    for number in range(51):
        (root / f".git/worktrees/w{number}").mkdir()

    assert await told(root, "echo x > .git/worktrees/w7/x") == [f".git/worktrees/w7/x{READ_ONLY}"]


@pytest.mark.parametrize("link", [".git/worktrees", ".git/worktrees/other", ".git/modules"])
async def test_links_to_such_folders_are_refused(root: Path, tmp_path: Path, link: str) -> None:
    (tmp_path / "away").mkdir()
    shell(root, f"rm -rf {link}; ln -s {tmp_path}/away {link}")

    with pytest.raises(SandboxUnavailable, match=f"{link} in the workspace is a symbolic link"):
        Sandbox(root, tier="bubblewrap").start("true")


async def test_a_strange_file_in_place_of_the_worktrees_is_held(root: Path) -> None:
    shell(root, "rm -r .git/worktrees; echo x > .git/worktrees")

    assert await told(root, "echo y > .git/worktrees") == [f".git/worktrees{READ_ONLY}"]


# ---------------------------------------------------------------- a new repository


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A workspace without a repository."""
    folder = tmp_path / "bare"
    folder.mkdir()
    return folder


async def test_a_command_makes_no_repository_by_itself(bare: Path) -> None:
    sandbox = Sandbox(bare, tier="bubblewrap")
    process = sandbox.start("echo started; read line", source=True)
    assert await process.read() == b"started\n"
    beside = await run(sandbox, "git init -q; echo x > .git/config; echo x > .git")
    await process.send(b"\n")
    await ended(process)
    alone = await run(
        sandbox, "git init -q; mkdir .git/hooks; git init -q sub && ls sub/.git | wc -l"
    )

    assert beside.text.count("Read-only file system") >= 2
    assert "Read-only file system" in alone.text
    assert int(alone.text.splitlines()[-1]) > 5
    assert names_in(bare) == {"sub"}


async def test_your_application_can_let_it_and_then_its_settings_are_held(bare: Path) -> None:
    sandbox = Sandbox(bare, tier="bubblewrap")
    made = [
        await run(sandbox, command, makes_repository=True)
        for command in ("git init -q && git config a.b c", "git config a.b d")
    ]

    assert sandbox.has_repository
    assert [one.code == 0 for one in made] == [True, False]
    assert shell(bare, "git config a.b") == "c\n"


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        ("git init", True),
        ("git init -q . && git add -A", True),
        ("git clone ../other .", True),
        ("git clone ../other", False),
        ("git init sub", False),
        ("mkdir sub && cd sub && git init", False),
        ("git status", False),
    ],
)
async def test_git_init_needs_approval_and_works_with_it(
    bare: Path, command: str, *, asks: bool
) -> None:
    (bare / "file").touch()
    asked = list[str]()

    async def approve(pending: Pending) -> Allow:
        asked.append(pending.question)
        return Allow()

    policy = Rulebook(mode="edits", sandboxed=True, workspace=bare)
    async with Executor(Toolset(bash(Sandbox(bare))), policy=policy, approvals=approve) as executor:
        await executor.run(Call("bash", {"command": command}))
        made = (bare / ".git/HEAD").exists()
        await executor.run(Call("bash", {"command": "git init"}))

    reason = "(.git is protected: git runs hooks and commands from .git)"
    assert asked[: int(asks)] == [f"Allow this command? `{command}` {reason}"] * asks
    assert made == (asks and "init" in command)


async def test_without_approval_or_without_its_words_there_is_none(bare: Path) -> None:
    (bare / "make.sh").write_text("git init -q", encoding="utf-8")
    looks = list[ScanReport]()
    tools = Toolset(bash(Sandbox(bare), found=looks.append))

    async def deny(_pending: Pending) -> Deny:
        return Deny("no")

    for approvals in (deny, lambda _pending: Allow()):
        policy = Rulebook(mode="ask", sandboxed=True, workspace=bare)
        async with Executor(tools, policy=policy, approvals=approvals) as executor:
            await executor.run(Call("bash", {"command": "sh make.sh"}))

    assert not (bare / ".git").exists()
    assert [look.planted for look in looks] == []


async def test_a_linked_worktree_is_a_repository(root: Path) -> None:
    policy = Rulebook(mode="edits", sandboxed=True, workspace=root.parent / "linked")
    sandbox = Sandbox(root.parent / "linked")
    async with Executor(Toolset(bash(sandbox)), policy=policy) as executor:
        decision = executor.explain(Call("bash", {"command": "git init"})).decision

    assert (type(decision), sandbox.has_repository) == (Allow, True)
