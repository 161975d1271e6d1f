"""Changing a file: all or nothing, one after the other, and never over what somebody just wrote."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from inline_snapshot import snapshot

import handrail
from handrail import Call, Executor, FailureKind, Refused, Result
from handrail.tools import Workspace
from handrail.tools._files.openat import open_by_kernel
from handrail.tools._files.replace import open_for_change
from tools.stage import HERE, kind, results, rounds, toolset
from tools.writer import CONTENTS

TESTS = HERE.parent
SOURCE = Path(handrail.__file__).parents[1]


def told(program: str, *args: str) -> Any:
    """What a program of ours prints."""
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, str(HERE / program), *args],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(SOURCE)])},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return json.loads(done.stdout)


@contextmanager
def running(program: str, *args: str) -> Iterator[subprocess.Popen[str]]:
    """A program of ours that goes on meanwhile."""
    with subprocess.Popen(  # noqa: S603  our own interpreter
        [sys.executable, str(HERE / program), *args],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(SOURCE)])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            yield process
        finally:
            process.kill()


# ---------------------------------------------------------------- somebody else, at a moment


def test_what_somebody_else_does_in_the_middle_of_a_change_is_never_lost(tmp_path: Path) -> None:
    assert told("moments.py", str(tmp_path)) == snapshot(
        {
            "nobody else": ["Edited 'f', line 1.", {"f": "new"}, []],
            "saved after the check": [
                "Not written: 'f' changed at this moment. Read it, then retry.",
                {"f": "theirs"},
                [],
            ],
            "saved just the same": ["Edited 'f', line 1.", {"f": "new"}, []],
            "saved and saved again": [
                "Not written: 'f' changed at this moment. Read it, then retry.",
                {"f": "newer"},
                [],
            ],
            "saved again and again": [
                "Not written: 'f' changed at this moment. Read it, then retry.",
                {"f": "newest"},
                [],
            ],
            "saved and then removed": [
                "Not written: 'f' changed at this moment. Read it, then retry.",
                {"f": "theirs"},
                [],
            ],
            "removed after the check": ["'f' does not exist. Use glob to find it.", {}, []],
            "a link took its place": [
                "Not written: 'f' changed at this moment. Read it, then retry.",
                {"f": "-> elsewhere"},
                [],
            ],
            "a folder took its place": [
                "Not written: 'f' changed at this moment. Read it, then retry.",
                {"f": "folder"},
                [],
            ],
            "made by somebody else at the last moment": [
                "'f' was created by another program in the meantime: read it, then retry.",
                {"f": "theirs"},
                [],
            ],
        }
    )


def test_file_systems_that_can_do_less_are_written_all_the_same(tmp_path: Path) -> None:
    cases = {
        "no exchange": ("renameat2", "EINVAL"),
        "no links": ("linkat", "EPERM"),
        "no openat2": ("openat2", "ENOSYS"),
        "a full disk": ("fsync", "ENOSPC"),
    }
    seen = {}
    with ExitStack() as stack:
        programs = {}
        for title, case in cases.items():
            root = tmp_path / title.replace(" ", "-")
            root.mkdir()
            programs[title] = stack.enter_context(running("plain_disk.py", str(root), *case))
        for title, program in programs.items():
            seen[title] = json.loads(program.communicate()[0])

    assert seen == snapshot(
        {
            "no exchange": [
                ["Created 'new' with 1 line.", "Edited 'f', line 1."],
                {"f": "new", "new": "new"},
            ],
            "no links": [
                ["Created 'new' with 1 line.", "Edited 'f', line 1."],
                {"f": "new", "new": "new"},
            ],
            "no openat2": [
                ["Created 'new' with 1 line.", "Edited 'f', line 1."],
                {"f": "new", "new": "new"},
            ],
            "a full disk": [
                [
                    "'new' was not written: the disk is full.",
                    "'f' was not written: the disk is full.",
                ],
                {"f": "old"},
            ],
        }
    )


def naive(root: Path, content: str, seen: str) -> bool:
    """The weak way: look whether it is as it was, then let a new file take its place."""
    path = root / "f"
    if path.read_text(encoding="utf-8") != seen:
        return False
    (root / "naive").write_text(content, encoding="utf-8")
    (root / "naive").replace(path)
    return True


def lost(root: Path, change: Any) -> list[str]:
    """The changes that said that all went well, and had replaced what nobody had looked at."""
    (root / "f").write_text("start", encoding="utf-8")
    done = set[str]()
    with running("rival.py", str(root), "f") as rival:
        assert rival.stdout is not None
        assert rival.stdin is not None
        assert rival.stdout.readline() == "ready\n"
        for number in range(rounds(quick=500, soak=50_000)):
            seen = (root / "f").read_text(encoding="utf-8")
            ours = f"ours {number} after [{seen}]"
            if change(seen, ours):
                done.add(ours)
        rival.stdin.close()
        taken, last = json.loads(rival.stdout.read())
    final = (root / "f").read_text(encoding="utf-8")
    if final in done:
        taken.append((final, last))
    assert final in done | {last}
    return [ours for ours, before in taken if ours in done and replaced(ours) != before]


def replaced(ours: str) -> str:
    """What was replaced, by a change or by the first of several."""
    return ours.rpartition("[")[2].rstrip("]")


def test_no_update_of_somebody_without_a_lock_is_lost_unreported(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)

    def change(seen: str, ours: str) -> bool:
        with open_for_change(workspace, "f") as file:
            if file.before != seen.encode():
                return False
            try:
                file.write(ours.encode())
            except Exception:  # noqa: BLE001
                return False
            return True

    assert lost(tmp_path, change) == []


def test_the_weak_way_loses_updates(tmp_path: Path) -> None:
    """The control: the rival is quick enough."""
    assert any(lost(tmp_path, lambda seen, ours: naive(tmp_path, ours, seen)) for _ in range(20))


# ---------------------------------------------------------------- all or nothing


def test_a_reader_never_sees_a_part_and_a_killed_writer_leaves_one_or_the_other(
    tmp_path: Path,
) -> None:
    chance = random.Random(5)  # noqa: S311
    path = tmp_path / "f"
    path.write_bytes(CONTENTS[0])
    seen = set[bytes]()
    with running("writer.py", str(tmp_path)) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for number in range(2_000):
            if number > rounds(quick=20, soak=1_000) and len(seen) > 1:
                break
            writer.stdin.write("go\n")
            writer.stdin.flush()
            child = int(writer.stdout.readline())
            for _ in range(chance.randrange(1, 60 + 20 * number)):  # a slow machine gets more time
                seen.add(path.read_bytes())
            os.kill(child, signal.SIGKILL)
            assert writer.stdout.readline() == "ended\n"
            seen.add(path.read_bytes())

    assert seen == set(CONTENTS)
    left = {one.name[:10] for one in tmp_path.iterdir()}
    assert left <= {"f", ".handrail-"}


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old", encoding="utf-8")
    calls = [
        ("edit", {"file_path": "f", "old_string": "old", "new_string": "new"}),
        ("edit", {"file_path": "f", "old_string": "old", "new_string": "new"}),
        ("write", {"file_path": "g", "content": "new"}),
        ("write", {"file_path": "g", "content": "newer"}),
    ]
    done = results(toolset(Workspace(tmp_path)), *calls)

    assert [kind(one) for one in done] == [None, FailureKind.FAILED, None, None]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["f", "g"]


# ---------------------------------------------------------------- one after the other


def test_a_change_waits_for_another_process_in_the_same_folder(tmp_path: Path) -> None:
    """It begins while the folder is locked, and is over only when it no longer is."""
    (tmp_path / "f").write_text("old", encoding="utf-8")
    tools = toolset(Workspace(tmp_path))
    args = {"file_path": "f", "old_string": "old", "new_string": "new"}
    seen: list[str] = []

    async def turn(folder: int) -> Result:
        async with Executor(tools) as executor, anyio.create_task_group() as tasks:
            done: list[Result] = []

            async def change() -> None:
                done.append(await executor.run(Call("edit", args, "c1")))

            tasks.start_soon(change)
            for _ in range(20):
                await anyio.sleep(0.002)
                seen.append((tmp_path / "f").read_text(encoding="utf-8"))
            fcntl.flock(folder, fcntl.LOCK_UN)
        return done[0]

    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    done = anyio.run(turn, folder)
    os.close(folder)

    assert set(seen) == {"old"}
    assert done.failure is None
    assert (tmp_path / "f").read_text(encoding="utf-8") == "new"


def test_it_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.tools._files.replace._MAX_LOCK_SECONDS", 0.05)
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)

    [done] = results(toolset(Workspace(tmp_path)), ("write", {"file_path": "f", "content": "new"}))
    os.close(folder)

    assert (kind(done), done.text) == (
        FailureKind.TRANSIENT,
        snapshot(
            "Another program is changing files in the same folder. This may be temporary: retry later, or continue with other work."
        ),
    )
    assert list(tmp_path.iterdir()) == []


def test_folders_that_several_make_at_once_are_made_once(tmp_path: Path) -> None:
    workspaces = [Workspace(tmp_path) for _ in range(8)]
    barrier = threading.Barrier(8)

    def make(number: int) -> None:
        barrier.wait()
        with open_for_change(workspaces[number], f"a/b/c/{number}", create=True) as change:
            change.write(b"new")

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(one.name for one in (tmp_path / "a/b/c").iterdir()) == list("01234567")


def test_a_folder_that_somebody_makes_in_between_is_used(tmp_path: Path) -> None:
    """It is made after it was looked for, and before it is made here."""
    opened: list[str] = []

    def late(root: int, path: str) -> int:
        opened.append(path)
        if opened == ["d/f", "d", "."]:
            (tmp_path / "d").mkdir()
        return open_by_kernel(root, path)

    with open_for_change(Workspace(tmp_path, opener=late), "d/f", create=True) as change:
        change.write(b"new")

    assert opened[:4] == ["d/f", "d", ".", "d/f"]
    assert (tmp_path / "d/f").read_bytes() == b"new"


def test_a_folder_that_becomes_a_link_in_between_is_refused(tmp_path: Path) -> None:
    """An opener at whose second use the folder above is a link to another one inside."""
    (tmp_path / "d").mkdir()
    (tmp_path / "other").mkdir()
    opened: list[str] = []

    def late(root: int, path: str) -> int:
        opened.append(path)
        if opened == ["d/f", "d", "d"]:
            (tmp_path / "d").rmdir()
            (tmp_path / "d").symlink_to("other")
        return open_by_kernel(root, path)

    workspace = Workspace(tmp_path, opener=late)
    with (
        pytest.raises(Refused, match=r"^Not written: 'd' was replaced by a link"),
        open_for_change(workspace, "d/f", create=True),
    ):
        pass


# ---------------------------------------------------------------- what is remembered


def test_what_is_remembered_of_files_is_bounded(tmp_path: Path) -> None:
    seen = Workspace(tmp_path).seen
    for number in range(21_000):
        seen.note(str(number), b"x")

    assert [seen.knows(one) for one in ("0", "999", "1000", "20999")] == [False, False, True, True]
    assert [seen.current(one, b"x") for one in ("0", "1000", "20999")] == [False, True, True]
    assert [seen.current(one, b"y") for one in ("1000", "20999")] == [False, False]


def test_large_contents_are_remembered_by_their_digest(tmp_path: Path) -> None:
    seen = Workspace(tmp_path).seen
    large = b"x" * (17 * 1024 * 1024)
    seen.note("f", large)
    seen.note("g", b"small")

    assert (seen.current("f", large), seen.current("f", large[:-1])) == (True, False)
    assert seen.current("g", b"small")
