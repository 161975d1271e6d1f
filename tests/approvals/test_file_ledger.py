"""The ledger on disk: each answer counts once, whoever asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from handrail import HandrailError
from handrail.approvals import FileLedger

CLAIMS = """
import sys, anyio
from handrail.approvals import FileLedger

async def main():
    ledger = FileLedger(sys.argv[1])
    sys.stdout.write("ready\\n"); sys.stdout.flush()
    sys.stdin.readline()
    won = [str(one) for one in range(50) if await ledger.claim(f"q{one}", sys.argv[2])]
    sys.stdout.write(" ".join(won))

anyio.run(main)
"""


def inside(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def test_an_answer_counts_once_but_for_who_has_used_it(tmp_path: Path) -> None:
    ledger, other = FileLedger(tmp_path / "used"), FileLedger(tmp_path / "used")
    claims = [await ledger.claim("q1", "a"), await ledger.claim("q1", "a")]

    assert (claims, await other.claim("q1", "b"), await other.claim("q1", "a")) == (
        [True, True],
        False,
        True,
    )
    assert await other.claim("q2", "b")


async def test_a_call_has_ended_once_that_was_noted(tmp_path: Path) -> None:
    ledger, other = FileLedger(tmp_path), FileLedger(tmp_path)
    before = await other.ended("k")
    await ledger.end("k")
    await ledger.end("k")

    assert (before, await other.ended("k"), await other.ended("k2")) == (False, True, False)


async def test_claims_and_ends_are_kept_apart(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path)
    await ledger.claim("one", "a")
    await ledger.end("two")

    assert (await ledger.ended("one"), await ledger.claim("two", "a")) == (False, True)


async def test_any_id_has_its_own_place(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path)
    ids = ["", "/", "..", "a\0b", "\ud800", "x" * 10_000]

    assert [await ledger.claim(one, "a") for one in ids] == [True] * 6
    assert [await ledger.claim(one, "\ud800") for one in ids] == [False] * 6
    for one in ids:
        await ledger.end(one)
    assert [await ledger.ended(one) for one in ids] == [True] * 6
    assert [len(path.name) for path in inside(tmp_path)] == [64] * 12


def test_the_directory_is_made_for_us_alone(tmp_path: Path) -> None:
    FileLedger(tmp_path / "above" / "used")

    assert (tmp_path / "above" / "used").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)

    with pytest.raises(HandrailError, match="Other users can write to"):
        FileLedger(tmp_path)


async def test_a_directory_that_was_opened_to_others_later_is_refused_then(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path)
    os.chmod(tmp_path, 0o777)  # noqa: PTH101, S103

    with pytest.raises(HandrailError, match="Other users can write to"):
        await ledger.claim("q1", "a")
    with pytest.raises(HandrailError, match="Other users can write to"):
        await ledger.end("q1")
    with pytest.raises(HandrailError, match="Other users can write to"):
        await ledger.ended("q1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 12_345, -1)

    with pytest.raises(HandrailError, match="Use a directory that you own"):
        FileLedger(tmp_path)


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")

    with pytest.raises(HandrailError, match="is a link, or not a directory"):
        FileLedger(tmp_path / "link")


async def test_a_link_in_the_place_of_an_answer_is_one_that_was_used(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path)
    await ledger.claim("q1", "a")
    [place] = inside(tmp_path)
    os.unlink(place)  # noqa: PTH108
    os.symlink(tmp_path / "nowhere", place)  # noqa: PTH211

    assert not await ledger.claim("q1", "a")
    assert [path.name for path in inside(tmp_path)] == [place.name]


def test_of_eight_processes_one_wins_each_answer(tmp_path: Path) -> None:
    racers = [
        subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", CLAIMS, str(tmp_path), str(racer)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        for racer in range(8)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    won = [number for racer in racers for number in racer.communicate()[0].split()]

    assert sorted(map(int, won)) == list(range(50))
