"""A database of runs in a workspace: no command changes it, and tools need approval to."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from handrail import Access, Call, CheckedCall, Executor, Spec, Toolset
from handrail.policy import Rulebook
from handrail.runs import open_runs
from handrail.runs.durable import DurableRuns
from handrail.sandbox import Sandbox
from handrail.tools import Workspace, bash, undo
from runs.parked import writing
from sandbox.commands import run

pytestmark = pytest.mark.anyio

POISON = """
import sqlite3
connection = sqlite3.connect("runs.db")
connection.execute("CREATE TABLE poison (x)")
connection.commit()
"""
BESIDE = ("", "-wal", "-shm", "-journal")


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[None]:
    async with DurableRuns(str(path), {}):
        yield


def tables(path: Path) -> set[str]:
    with sqlite3.connect(path) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    return names


async def told(root: Path, command: str) -> str:
    return (await run(Sandbox(root, tier="bubblewrap"), command)).text


def asks(root: Path, path: str) -> bool:
    policy = Rulebook(mode="edits", sandboxed=True, workspace=root)
    spec = Spec(name="save", description="", input_schema={})
    call = CheckedCall.recorded(Call("save", {}, "1"), spec, (Access("write", f"file:{path}"),))
    return "handrail keeps runs in it" in policy.explain(call)[0].why


def keep_journal(away: Path, root: Path, kind: str) -> None:
    """Copy a journal, as it is when nobody has it open, or while someone does."""
    journal = open_runs(away)
    journal.create()
    with writing(away):
        beside = Path(f"{away}-wal").read_bytes()
        shutil.copy(away, root / "runs.db")
    journal.close()
    if kind == "journal":
        shutil.copy(away, root / "runs.db")
    else:
        (root / "runs.db-wal").write_bytes(beside)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a script that changes the database, and with others."""
    (tmp_path / "poison.py").write_text(POISON, encoding="utf-8")
    (tmp_path / "other.db").write_bytes(b"SQLite format 3\0 of someone else")
    (tmp_path / "folder.db").mkdir()
    return tmp_path


async def test_a_database_that_this_process_uses_is_held(root: Path) -> None:
    """The control is the script without a sandbox."""
    async with opened(root / "runs.db"):
        said = await told(root, "python3 poison.py; rm runs.db; mv runs.db x; echo x > other.db")
        names = [f"runs.db{end}" for end in BESIDE]
        written = await told(root, "; ".join(f"echo x > {name}" for name in names))
        still = tables(root / "runs.db")

    assert "readonly database" in said
    assert written.count("Read-only file system") == len(BESIDE)
    assert "poison" not in still
    assert (root / "other.db").read_bytes() == b"x\n"
    before = sqlite3.connect(root / "runs.db")
    before.execute("CREATE TABLE poison (x)")
    before.close()
    assert "poison" in tables(root / "runs.db")


@pytest.mark.parametrize("kind", ["durable", "journal", "in the file beside it"])
async def test_one_of_another_process_is_recognized_by_its_tables(
    root: Path, tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    away = tmp_path_factory.mktemp("away") / "runs.db"
    if kind == "durable":
        async with opened(away):
            pass
        shutil.copy(away, root / "runs.db")
    else:
        keep_journal(away, root, kind)
    said = await told(root, "echo x > runs.db; echo x > runs.db-wal; echo x > runs.db-journal")

    assert said.count("Read-only file system") == 3
    assert [asks(root, f"runs.db{end}") for end in BESIDE] == [True] * 4
    assert [asks(root, name) for name in ("other.db", "folder.db", "a.py")] == [False] * 3


async def test_a_run_goes_on_beside_commands_and_is_not_undone_with_them(root: Path) -> None:
    workspace = Workspace(root)
    tools = Toolset(bash(Sandbox(root), workspace=workspace))
    async with DurableRuns(str(root / "runs.db"), {}) as runs, Executor(tools) as executor:
        await executor.run(Call("bash", {"command": "echo x > made"}, "c1"))
        found = await runs.list()
        report = undo(workspace, "c1")

    assert (list(found), report.restored, report.deleted) == ([], (), ("made",))
    assert "handrail_schema" in tables(root / "runs.db")


async def test_landlock_says_that_it_cannot_hold_one(root: Path) -> None:
    before = Sandbox(root, tier="landlock").report().not_enforced
    async with opened(root / "runs.db"):
        after = Sandbox(root, tier="landlock").report().not_enforced

    assert after == ("the database of runs in the workspace can be changed", *before)
