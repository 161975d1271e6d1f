"""undo: a command is undone to the byte, in a later process too, within limits that are named."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import FrameType

import anyio
import pytest
from inline_snapshot import snapshot

from handrail import Allow, Approvals, Ask, Call, Executor, HandrailError, ToolFailed, Toolset
from handrail.permissions import Pending, Undoable
from handrail.sandbox import Sandbox
from handrail.tools import (
    Jobs,
    UndoReport,
    Workspace,
    bash,
    coding_tools,
    list_changes,
    undo,
    write,
)
from tools.stage import results
from tools.trees.stage import commands, project, tree, without_override

MEGABYTE = 1024 * 1024


def test_every_kind_of_change_is_undone(tmp_path: Path) -> None:
    workspace = Workspace(project(tmp_path / "w"))
    before = tree(tmp_path / "w")
    line = (
        "rm tracked.txt untracked.txt; rm -r build; echo more >> a.log; chmod 600 run.sh; "
        "mkdir -p new/deep; echo x > new/deep/f; ln -s /etc link; mkfifo pipe; git add -A; "
        "git -c user.name=A -c user.email=a@example.com commit -qm y"
    )
    commands(workspace, line)
    report = undo(workspace)

    assert tree(tmp_path / "w") == before
    shown = [path for path in report.deleted if not path.startswith(".git/")]
    assert shown == ["link", "new", "new/deep", "new/deep/f", "pipe"]
    shown = [path for path in report.restored if not path.startswith(".git/")]
    assert shown == ["a.log", "build", "build/out.bin", "run.sh", "tracked.txt", "untracked.txt"]
    assert (report.entry.call_id, report.entry.command) == ("c1", line)
    assert (report.left, report.entry.not_kept) == ({}, ())


def test_a_later_process_undoes_a_command(tmp_path: Path) -> None:
    root = project(tmp_path / "w")
    before = tree(root)
    commands(Workspace(root, undo_folder=tmp_path / "undo"), "rm tracked.txt untracked.txt")
    later = Workspace(root, undo_folder=tmp_path / "undo")
    named = [(entry.number, entry.command) for entry in list_changes(later)]
    undo(later)

    assert (named, tree(root), list_changes(later)) == (
        [(1, "rm tracked.txt untracked.txt")],
        before,
        (),
    )
    assert (tmp_path / "undo").stat().st_mode & 0o777 == 0o700


def test_commands_and_edits_are_undone_in_one_order(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "f").write_text("1", encoding="utf-8")
    commands(workspace, "echo 2 > f")
    results(Toolset(write(workspace)), ("write", {"file_path": "g", "content": "3"}))
    commands(workspace, "mv g h")
    seen = list[list[str]]()
    for _ in range(3):
        undo(workspace)
        seen.append(
            [
                f"{path.name} {path.read_text(encoding='utf-8')}"
                for path in sorted(tmp_path.iterdir())
            ]
        )

    assert seen == [["f 2\n", "g 3"], ["f 2\n"], ["f 1"]]


def test_a_command_that_changes_nothing_leaves_nothing_to_undo(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "f").write_text("1", encoding="utf-8")
    commands(workspace, "cat f; touch f", "printf 1 > f")

    assert list_changes(workspace) == ()


def test_a_command_that_only_reads_is_not_kept(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    commands(workspace, "touch a", "touch b", only_reads=lambda command: command == "touch a")

    assert [entry.command for entry in list_changes(workspace)] == ["touch b"]


def test_a_path_that_changed_since_stays_and_is_named(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    for name in "abc":
        (tmp_path / name).write_text("old", encoding="utf-8")
    commands(workspace, "echo new | tee a b; rm c; mkdir d; echo x > d/x; mkdir e")
    (tmp_path / "b").write_text("mine", encoding="utf-8")
    (tmp_path / "c").mkdir()
    (tmp_path / "d/mine").write_text("mine", encoding="utf-8")
    (tmp_path / "e").chmod(0o500)
    report = undo(workspace, "c1")

    assert (report.restored, report.deleted, report.left) == snapshot(
        (
            ("a",),
            ("d/x",),
            {
                "b": "has changed since",
                "c": "has changed since",
                "d": "directory not empty",
                "e": "has changed since",
            },
        )
    )
    assert (tmp_path / "b").read_text(encoding="utf-8") == "mine"
    assert list_changes(workspace) == ()


def test_an_undo_that_restores_nothing_fails_and_can_be_tried_again(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "a").write_text("old", encoding="utf-8")
    (tmp_path / "b").write_text("old", encoding="utf-8")
    commands(workspace, "echo new | tee a b")
    for name in "ab":
        (tmp_path / name).write_text("mine", encoding="utf-8")

    with pytest.raises(ToolFailed, match=r"^Not undone: 'a' has changed since 'c1', and 1 more.$"):
        undo(workspace)
    for name in "ab":
        (tmp_path / name).write_text("new\n", encoding="utf-8")
    assert undo(workspace).restored == ("a", "b")


def test_a_file_that_changes_during_the_undo_stays(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "a").write_text("old", encoding="utf-8")
    commands(workspace, "echo x | tee a b c")

    def save(frame: FrameType, event: str, _: object) -> None:
        """Save two files as an editor does, just before the first one is restored."""
        if event == "call" and frame.f_code.co_name == "lock_folder":
            for name in "ab":
                (tmp_path / name).write_text("mine", encoding="utf-8")

    sys.setprofile(save)
    try:
        report = undo(workspace)
    finally:
        sys.setprofile(None)

    assert (report.deleted, report.left) == (
        ("c",),
        {"a": "has changed since", "b": "has changed since"},
    )
    assert [(tmp_path / name).read_text(encoding="utf-8") for name in "ab"] == ["mine", "mine"]


def test_what_is_as_before_already_is_not_restored(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "a").write_text("old", encoding="utf-8")
    commands(workspace, "rm a")
    (tmp_path / "a").write_text("old", encoding="utf-8")

    report = undo(workspace)

    assert (report.entry.paths, report.restored, report.left) == (("a",), (), {})


def test_commands_that_only_change_caches_are_undone_with_the_change_before(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "f").write_text("1", encoding="utf-8")
    before = tree(tmp_path)
    commands(workspace, "echo 2 > f", "mkdir __pycache__; touch __pycache__/f.pyc")
    report = undo(workspace)
    commands(workspace, "mkdir __pycache__")
    alone = undo(workspace)

    assert tree(tmp_path) == before
    assert (report.entry.command, report.restored, report.deleted) == (
        "echo 2 > f",
        ("f",),
        ("__pycache__", "__pycache__/f.pyc"),
    )
    assert (alone.entry.command, alone.deleted) == ("mkdir __pycache__", ("__pycache__",))


def test_a_folder_that_became_a_link_is_restored_and_its_target_is_not_touched(
    tmp_path: Path,
) -> None:
    outside, root = tmp_path / "outside", tmp_path / "w"
    for folder in (outside, root / "d"):
        folder.mkdir(parents=True)
        (folder / "f").write_text(folder.name, encoding="utf-8")
    before = tree(tmp_path)
    workspace = Workspace(root)
    commands(workspace, f"rm -r d; ln -s {outside} d")
    report = undo(workspace)

    assert (tree(tmp_path), report.restored) == (before, ("d", "d/f"))


def test_a_folder_that_becomes_a_link_after_the_command_is_not_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "w"
    for folder in (outside, root / "d"):
        folder.mkdir(parents=True)
        (folder / "f").write_text("same", encoding="utf-8")
    workspace = Workspace(root)
    commands(workspace, "echo new > d/f; echo x > d/new")
    shutil.rmtree(root / "d")
    (root / "d").symlink_to(outside)
    (outside / "f").write_text("new\n", encoding="utf-8")
    (outside / "new").write_text("x\n", encoding="utf-8")
    before = tree(tmp_path)

    with pytest.raises(ToolFailed, match=r"^Not undone: 'd/f' has changed since 'c1'"):
        undo(workspace)
    assert tree(tmp_path) == before


def test_pipes_sockets_and_huge_files_neither_block_nor_fill_the_disk(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(root / "socket"))
    with (root / "huge").open("wb") as huge:
        huge.truncate(1 << 40)
    workspace = Workspace(root, undo_folder=tmp_path / "undo")
    commands(workspace, "rm pipe socket huge; truncate -s 1T created; echo x > f")
    report = undo(workspace)

    assert (report.restored, report.deleted, report.left, report.entry.not_kept) == snapshot(
        (
            (),
            ("created", "f"),
            {
                "pipe": "pipes, sockets and devices are not kept",
                "socket": "pipes, sockets and devices are not kept",
            },
            ("huge (1.0 TB)",),
        )
    )
    kept = sum(file.stat().st_size for file in (tmp_path / "undo").rglob("*") if file.is_file())
    assert kept < MEGABYTE


def test_names_of_any_bytes_and_hard_links_are_restored(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path)
    for name in (b"new\nline", b"\xff\xfe", b" blank ", b"-rf", b"~", "\u202e".encode()):
        Path(os.fsdecode(root + b"/" + name)).write_bytes(name)
    (tmp_path / "one").write_text("same", encoding="utf-8")
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    before = tree(tmp_path)
    workspace = Workspace(tmp_path)
    commands(workspace, 'for f in ./*; do echo x >> "$f"; done', "rm -f ./*")
    undo(workspace)
    undo(workspace)

    assert tree(tmp_path) == before


def test_what_is_too_large_is_left_out_whole_and_named(tmp_path: Path) -> None:
    root = project(tmp_path / "w")
    for folder, count in (("data/many", 20_001), ("data/few", 3)):
        (root / folder).mkdir(parents=True)
        for number in range(count):
            os.mknod(root / folder / str(number))
    (root / "pkg").mkdir()
    (root / "pkg/.gitignore").write_text("gen\n", encoding="utf-8")
    large = ("build/large", "node_modules", "assets", "pkg/gen")
    for folder, size in (*((name, 60) for name in large), ("src", 1)):
        (root / folder).mkdir()
        for number in range(6):
            with (root / folder / f"{number}.bin").open("wb") as file:
                file.truncate(size * MEGABYTE)
    workspace = Workspace(root)
    asked = list[Pending]()

    async def approve(pending: Pending) -> Allow:
        asked.append(pending)
        return Allow()

    async def run() -> None:
        approvals = Approvals(approver=approve)
        tools = coding_tools(workspace, without=["web_fetch"])
        async with Executor(
            tools, policy=lambda _: Ask("Run it?"), approvals=approvals
        ) as executor:
            for call_id in ("c1", "c2"):
                line = "rm -rf src data/few node_modules build assets; echo 1 > tracked.txt"
                await executor.run(Call("bash", {"command": line}, call_id))

    anyio.run(run)
    report = undo(workspace)

    assert [
        [change.description for change in pending.changes if isinstance(change, Undoable)]
        for pending in asked
    ] == snapshot(
        [
            [
                "Undo cannot restore: build (over the limit of 320 MB), data/many (over the limit of 20,000 files), node_modules (over the limit of 320 MB), pkg/gen (over the limit of 320 MB), 6 entries of assets.",
            ],
            [
                "Undo cannot restore: build (over the limit of 320 MB), data/many (over the limit of 20,000 files), node_modules (over the limit of 320 MB), pkg/gen (over the limit of 320 MB), 6 entries of assets.",
            ],
        ]
    )
    assert report.entry.not_kept == snapshot(
        (
            "build (over the limit of 320 MB)",
            "data/many (over the limit of 20,000 files)",
            "node_modules (over the limit of 320 MB)",
            "pkg/gen (over the limit of 320 MB)",
            "6 entries of assets",
        )
    )
    assert sorted(path.name for path in root.iterdir()) == [
        ".git", ".gitignore", "a.log", "assets", "data", "pkg", "run.sh", "src", "tracked.txt", "untracked.txt",
    ]  # fmt: skip
    assert (root / "tracked.txt").read_text(encoding="utf-8") == "one\n"


def test_a_workspace_with_too_many_files_at_its_top_is_not_kept(tmp_path: Path) -> None:
    for number in range(20_002):
        os.mknod(tmp_path / str(number))
    workspace = Workspace(tmp_path)
    commands(workspace, "rm 1")

    assert list_changes(workspace) == ()
    assert bash(Sandbox(tmp_path), workspace=workspace).preview(command="rm 1") == [  # type: ignore[misc]
        Undoable((".",), "Undo cannot restore: . (over the limit of 20,000 files).")
    ]


def test_a_question_names_a_few_of_many(tmp_path: Path) -> None:
    for number in range(7):
        with (tmp_path / f"{number}.iso").open("wb") as file:
            file.truncate(65 * MEGABYTE)
    preview = bash(Sandbox(tmp_path), workspace=Workspace(tmp_path)).preview

    [kept] = preview(command="ls")  # type: ignore[misc]
    assert kept.left_out == tuple(f"{number}.iso" for number in range(7))
    assert [kept.description] == snapshot(
        [
            "Undo cannot restore: 0.iso (65 MB), 1.iso (65 MB), 2.iso (65 MB), 3.iso (65 MB), 4.iso (65 MB), and 2 more."
        ]
    )
    assert bash(Sandbox(tmp_path)).preview(command="ls") == []  # type: ignore[misc]


def test_folders_that_are_too_deep_are_left_out(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 103)
    deep.mkdir(parents=True)
    workspace = Workspace(tmp_path)
    commands(workspace, "echo x > f")

    assert undo(workspace).entry.not_kept == (f"{'/'.join('d' * 101)} (too deep)",)


def test_unreadable_files_are_left_out_and_modes_are_restored(tmp_path: Path) -> None:
    root = tmp_path / "w"
    for folder in ("open", "closed", "node_modules"):
        (root / folder).mkdir(parents=True)
        (root / folder / "f").write_text("x", encoding="utf-8")
    (root / "secret").write_text("x", encoding="utf-8")
    before = tree(root)
    for path in ("closed", "node_modules", "secret"):
        (root / path).chmod(0)
    workspace = Workspace(root)
    reports = list[UndoReport]()

    def run() -> None:
        commands(workspace, "echo z > new; chmod 0 new open")
        reports.append(undo(workspace))
        commands(workspace, "echo y > open/f")
        (root / "open").chmod(0)
        with pytest.raises(ToolFailed, match=r"'open/f' cannot be restored: permission denied.$"):
            undo(workspace)
        (root / "open").chmod(0o755)
        undo(workspace)

    without_override(run)
    for path, mode in (("closed", 0o755), ("node_modules", 0o755), ("secret", 0o644)):
        (root / path).chmod(mode)

    assert [(one.restored, one.deleted, one.left, one.entry.not_kept) for one in reports] == [
        (
            ("open",),
            ("new",),
            {},
            (
                "closed (permission denied)",
                "node_modules (permission denied)",
                "open (permission denied)",
                "secret (permission denied)",
            ),
        )
    ]
    assert tree(root) == before


def test_a_job_is_undone_without_the_changes_of_others(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    workspace = Workspace(root)

    async def run() -> None:
        jobs = Jobs()
        tools = Toolset(bash(Sandbox(root), jobs=jobs, workspace=workspace), write(workspace))
        async with Executor(tools) as executor:
            wait = "touch begun; until [ -e go ]; do sleep 0.01; done; echo job > job"
            await executor.run(Call("bash", {"command": wait, "background": True}, "c1"))
            while not (root / "begun").exists():  # noqa: ASYNC110  only the file says so
                await anyio.sleep(0.01)
            await executor.run(Call("write", {"file_path": "w", "content": "w"}, "c2"))
            await executor.run(Call("bash", {"command": "echo c > c"}, "c3"))
            (root / "go").touch()
            while not (root / "job").exists():  # noqa: ASYNC110
                await anyio.sleep(0.01)

    anyio.run(run)
    changed = {
        entry.call_id: [change.path for change in entry.changes]
        for entry in list_changes(workspace)
    }
    undo(workspace, "c1")

    assert changed == {"c2": ["w"], "c3": ["c"], "c1": ["begun", "go", "job"]}
    assert sorted(path.name for path in root.iterdir()) == ["c", "w"]


@pytest.mark.parametrize(
    ("writable", "changed"),
    [
        ((), {"c1": ["begun", "two"]}),
        ((".git/commondir",), {"c1": [".git/commondir", "begun", "two"]}),
    ],
)
def test_what_the_sandbox_reserves_is_no_change(
    tmp_path: Path, writable: tuple[str, ...], changed: dict[str, list[str]]
) -> None:
    """The control may write the file, so it is a change."""
    root = tmp_path / "w"
    subprocess.run(["git", "init", "-q", root], check=True)  # noqa: S603, S607
    workspace = Workspace(root)

    async def run() -> dict[str, list[str]]:
        tools = bash(Sandbox(root, writable=writable), jobs=Jobs(), workspace=workspace)
        spoil = "echo ./ > .git/commondir; touch begun; until [ -e two ]; do sleep 0.01; done"
        async with Executor(Toolset(tools)) as executor:
            await executor.run(Call("bash", {"command": spoil, "background": True}, "c1"))
            while not (root / "begun").exists():  # noqa: ASYNC110  only the file says so
                await anyio.sleep(0.01)
            later = {"command": "touch two; exec sleep 60", "background": True}
            await executor.run(Call("bash", later, "c2"))
            while not (entries := list_changes(workspace)):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        return {one.call_id: [change.path for change in one.changes] for one in entries}

    assert anyio.run(run) == changed


KILLED = """
import sys, anyio
from handrail import Call, Executor, Toolset
from handrail.sandbox import Sandbox
from handrail.tools import Workspace, bash

root, folder = sys.argv[1:]
tools = Toolset(bash(Sandbox(root), workspace=Workspace(root, undo_folder=folder)))

async def run():
    async with Executor(tools) as executor:
        await executor.run(Call("bash", {"command": "rm -r d; touch gone; exec sleep 60"}, "c1"))

anyio.run(run)
"""


def test_a_command_is_undone_although_its_process_was_killed(tmp_path: Path) -> None:
    root = tmp_path / "w"
    (root / "d").mkdir(parents=True)
    (root / "d/f").write_text("x", encoding="utf-8")
    before = tree(root)
    program = [sys.executable, "-c", KILLED, str(root), str(tmp_path / "u")]
    with subprocess.Popen(program) as running:  # noqa: S603  our own interpreter
        while not (root / "gone").exists() and running.poll() is None:
            pass
        running.send_signal(signal.SIGKILL)
    workspace = Workspace(root, undo_folder=tmp_path / "u")
    report = undo(workspace)

    now = {path: state for path, state in tree(root).items() if not path.startswith(".")}

    assert (now, report.entry.not_kept) == (  # the next command removes the folders of the sandbox
        before,
        ("the command was interrupted: later changes by others are included",),
    )
    assert [*(tmp_path / "u/open").iterdir()] == []


def test_a_command_runs_although_it_cannot_be_undone(tmp_path: Path) -> None:
    root, folder = tmp_path / "w", tmp_path / "file"
    root.mkdir()
    folder.write_text("", encoding="utf-8")
    workspace = Workspace(root, undo_folder=folder / "undo")
    [text] = commands(workspace, "touch a")
    results(Toolset(write(workspace)), ("write", {"file_path": "b", "content": ""}))

    assert re.sub(r"\d\.\d s", "N s", text) == snapshot(
        """\
(no output)
[The user cannot undo this command: File exists.]
[exit code 0, N s]\
"""
    )
    assert sorted(path.name for path in root.iterdir()) == ["a", "b"]
    assert bash(Sandbox(root), workspace=workspace).preview(command="ls") == [  # type: ignore[misc]
        Undoable((".",), "Undo cannot restore: . (file exists).")
    ]


@pytest.mark.anyio
async def test_a_command_whose_changes_cannot_be_recorded_says_so(tmp_path: Path) -> None:
    root, folder = tmp_path / "w", tmp_path / "undo"
    root.mkdir()
    workspace = Workspace(root, undo_folder=folder)
    texts = list[str]()

    async def run(executor: Executor) -> None:
        line = "touch begun; until [ -e go ]; do sleep 0.01; done"
        texts.append((await executor.run(Call("bash", {"command": line}, "c1"))).text)

    tools = Toolset(bash(Sandbox(root), workspace=workspace))
    async with Executor(tools) as executor, anyio.create_task_group() as group:
        group.start_soon(run, executor)
        while not (root / "begun").exists():  # noqa: ASYNC110
            await anyio.sleep(0.01)
        shutil.rmtree(folder)
        folder.write_text("", encoding="utf-8")
        (root / "go").touch()

    assert "[The user cannot undo this command: File exists.]" in texts[0]


@pytest.mark.anyio
async def test_a_cancelled_command_can_be_undone(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    tools = Toolset(bash(Sandbox(tmp_path), workspace=workspace))
    async with Executor(tools) as executor, anyio.create_task_group() as group:
        group.start_soon(executor.run, Call("bash", {"command": "touch begun; sleep 60"}, "c1"))
        while not (tmp_path / "begun").exists():  # noqa: ASYNC110
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()

    assert undo(workspace).deleted == ("begun",)


def test_a_workspace_and_a_sandbox_must_have_one_root(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()

    with pytest.raises(ValueError, match=r"^the sandbox is for "):
        bash(Sandbox(tmp_path), workspace=Workspace(tmp_path / "w"))
    with pytest.raises(HandrailError, match="must not be in the workspace"):
        Workspace(tmp_path, undo_folder=tmp_path / "undo")


def test_commands_cannot_reach_what_undo_restores(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "f").write_text("secret", encoding="utf-8")
    folder = workspace.changes.folder
    [_, text] = commands(
        workspace, "echo x > f", f"ls -d {folder} || ls {folder}/..; echo > {folder}/x"
    )
    undo(workspace, "c1")

    assert "handrail-undo" not in text.replace(str(folder), "")
    assert not (folder / "x").exists()
    assert (tmp_path / "f").read_text(encoding="utf-8") == "secret"


def test_damaged_contents_and_entries_are_not_restored(tmp_path: Path) -> None:
    root, folder = tmp_path / "w", tmp_path / "undo"
    root.mkdir()
    for name in "abc":
        (root / name).write_text(name, encoding="utf-8")
    workspace = Workspace(root, undo_folder=folder)
    commands(workspace, "rm a b", "rm c")
    for file in (folder / "objects").rglob("*"):
        if file.is_file() and file.read_bytes() == b"a":
            file.write_bytes(b"forged")
        elif file.is_file() and file.read_bytes() == b"b":
            file.unlink()
    (folder / "entries/000002.json").write_text("{", encoding="utf-8")
    (folder / "index.json").write_text("{", encoding="utf-8")
    later = Workspace(root, undo_folder=folder)

    with pytest.raises(ToolFailed) as error:
        undo(later)
    assert str(error.value) == snapshot(
        "Not undone: 'a' cannot be restored: its content is no longer kept, and 1 more."
    )
    commands(later, "touch d")
    assert undo(later).deleted == ("d",)


def test_two_processes_share_one_log(tmp_path: Path) -> None:
    root, folder = tmp_path / "w", tmp_path / "undo"
    root.mkdir()
    first, second = (Workspace(root, undo_folder=folder) for _ in range(2))
    for number, workspace in enumerate([first, second, first, second]):
        commands(workspace, f"echo {number} > f{number}")
    for workspace in (first, second, first, second):
        undo(workspace)

    assert [*root.iterdir()] == []


@pytest.mark.soak
def test_a_folder_with_200_000_files_is_left_out_and_the_rest_is_restored(tmp_path: Path) -> None:
    root = project(tmp_path / "w")
    for number in range(200_000):
        if number % 1_000 == 0:
            folder = root / "many" / str(number)
            folder.mkdir(parents=True)
        os.mknod(folder / str(number))
    workspace = Workspace(root)
    commands(workspace, "rm -rf many tracked.txt; for i in $(seq 30000); do :> f$i; done")
    report = undo(workspace)

    assert (root / "tracked.txt").read_text(encoding="utf-8") == "one\n"
    assert len(report.deleted) == 30_000
    assert [re.sub(r"^\d+ ", "N ", name) for name in report.entry.not_kept] == ["N entries of many"]
