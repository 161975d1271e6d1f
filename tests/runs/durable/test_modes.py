"""Who can read the file of durable runs."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from pathlib import Path

import pytest

from handrail.agent import Agent
from handrail.runs.durable import DurableRuns
from runs.durable.shop import make_model


@pytest.fixture(params=[0o000, 0o022])
def lax(request: pytest.FixtureRequest) -> Generator[None]:
    """A umask that lets others read new files."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {one.name: oct(one.stat().st_mode & 0o777) for one in folder.iterdir() if one.is_file()}


@pytest.mark.usefixtures("lax")
async def test_only_the_owner_can_read_the_file_and_its_log(tmp_path: Path) -> None:
    runs = DurableRuns(str(tmp_path / "runs.db"), {"a": Agent(make_model(()))}, poll=0.02)
    async with runs.work():
        await runs.wait(await runs.start("a", "Hello?"), seconds=60)
        seen = modes(tmp_path)
    file = sqlite3.connect(tmp_path / "plain.db")  # the control
    file.execute("CREATE TABLE a (b)")
    file.close()

    assert seen == dict.fromkeys(
        (".runs.db.lock", "runs.db", "runs.db-shm", "runs.db-wal"), "0o600"
    )
    assert (tmp_path / "plain.db").stat().st_mode & 0o044


async def test_the_mode_of_a_file_that_exists_stays(tmp_path: Path) -> None:
    (tmp_path / "runs.db").touch(0o660)
    (tmp_path / "runs.db").chmod(0o660)
    async with DurableRuns(str(tmp_path / "runs.db"), {}):
        seen = modes(tmp_path)

    assert {seen[f"runs.db{end}"] for end in ("", "-shm", "-wal")} == {"0o660"}
