"""A program that may only read: what it sees, what it says, and its end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from handrail.sandbox import Reader, start_read_only

BASH = os.path.realpath("/bin/bash")


@contextmanager
def opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


async def told(reader: Reader) -> tuple[int, str, str]:
    said = b""
    try:
        while piece := await reader.read():
            said += piece
        return await reader.wait(), said.decode(), reader.errors().decode()
    finally:
        await reader.kill()


async def test_it_reads_beneath_its_folder_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_text("a\n", encoding="utf-8")
    (tmp_path / "out").write_text("secret\n", encoding="utf-8")
    line = "cat a; cat ../out; echo x > b; echo x > /dev/tcp/127.0.0.1/9; echo err >&2; env; exit 3"

    with opened(tmp_path / "in") as folder:
        code, said, errors = await told(
            start_read_only([BASH, "-c", line], root=str(tmp_path / "in"), cwd_fd=folder)
        )

    assert (code, said.splitlines()[0], "secret" in said + errors) == (3, "a", False)
    assert errors.count("Permission denied") == 2
    assert errors.count("Operation not permitted") == 2
    assert errors.endswith("err\n")
    assert not (tmp_path / "in/b").exists()


async def test_it_may_be_given_an_open_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\n", encoding="utf-8")

    with opened(tmp_path) as folder, opened(tmp_path / "a") as file:
        argv = [BASH, "-c", f"cat /proc/self/fd/{file}"]
        made = await told(start_read_only(argv, root=str(tmp_path), cwd_fd=folder, keep=[file]))

    assert made == (0, "a\n", "")


async def test_much_said_on_the_side_holds_nobody_up(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        argv = [BASH, "-c", "yes | head -c 1M >&2; echo done"]
        code, said, errors = await told(start_read_only(argv, root=str(tmp_path), cwd_fd=folder))

    assert (code, said, len(errors)) == (0, "done\n", 1 << 18)


async def test_its_memory_is_limited(tmp_path: Path) -> None:
    read, write = os.pipe()
    with opened(tmp_path) as folder:
        argv = [BASH, "-c", f"read -u {read}; ulimit -Sd; ulimit -Hd"]
        reader = start_read_only(argv, root=str(tmp_path), cwd_fd=folder, keep=[read])
        os.close(read)
    os.write(write, b"\n")
    os.close(write)

    assert await told(reader) == (0, f"{2 << 20}\n" * 2, "")


async def test_it_can_be_ended(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        reader = start_read_only(
            [BASH, "-c", "echo go; read -t 60 < <(sleep 60)"], root=str(tmp_path), cwd_fd=folder
        )
        await reader.read()
        await reader.kill()

    assert await reader.wait() == -9
    with pytest.raises(ProcessLookupError):
        os.kill(reader.pid, 0)


def test_a_program_that_is_not_there_leaves_nothing_open(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        with pytest.raises(OSError, match="missing"):
            start_read_only([str(tmp_path / "missing")], root=str(tmp_path), cwd_fd=folder)

        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
