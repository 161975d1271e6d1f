"""Private files: read without surprises, replaced at once, and never made more public."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from handrail._support.private_files import hold_lock, read_file, read_private_file, replace_file


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield tmp_path
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "long", "missing"])
def test_what_is_no_file_of_a_decent_length_is_refused(folder: Path, kind: str) -> None:
    path = folder / kind
    made: dict[str, Any] = {
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "link": lambda: path.symlink_to("/etc/passwd"),
        "long": lambda: path.write_bytes(b"x" * ((1 << 20) + 1)),
        "missing": lambda: None,
    }
    made[kind]()
    with pytest.raises(OSError, match=r".") as refused:
        read_file(path)

    assert refused.value.strerror


def test_a_file_of_the_greatest_length_is_read_whole(folder: Path) -> None:
    path = folder / "file"
    path.write_bytes(b"x" * (1 << 20))

    assert read_file(path) == b"x" * (1 << 20)


def test_what_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()

    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "config.toml", b"")

    assert [one.name for one in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("before", "after"), [(0o600, 0o600), (0o644, 0o600), (0o666, 0o666), (0o660, 0o660)]
)
def test_what_is_replaced_is_private_unless_others_may_have_written_it(
    tmp_path: Path, before: int, after: int
) -> None:
    file = tmp_path / "rules.toml"
    file.write_bytes(b"old")
    file.chmod(before)
    replace_file(file, b"new")

    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", after)
    assert read_private_file(file) == (b"new", after != 0o600)


def test_a_lock_makes_all_missing_folders_private(tmp_path: Path) -> None:
    file = tmp_path / "outer" / "inner" / "file"
    umask = os.umask(0)
    try:
        with hold_lock(file):
            pass
    finally:
        os.umask(umask)

    folders = (file.parent, file.parent.parent)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700, 0o700]


def test_a_lock_that_another_program_keeps_is_not_waited_for_without_end(tmp_path: Path) -> None:
    file = tmp_path / "trust.json"
    with hold_lock(file), pytest.raises(TimeoutError) as late, hold_lock(file, seconds=0.01):
        pass

    assert str(late.value) == (
        "[Errno 110] another program holds this lock; stop it (`fuser -v` names it), or retry "
        f"later: '{tmp_path}/.trust.json.lock'"
    )


def test_a_lock_that_becomes_free_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "trust.json"
    with ThreadPoolExecutor(1) as pool:
        with hold_lock(file):
            waiting = pool.submit(_touch_locked, file)
        waiting.result()

    assert file.exists()


def _touch_locked(file: Path) -> None:
    with hold_lock(file):
        file.touch()
