"""The journal in SQLite: appended whole, by any number of processes, for its owner only."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crash_points import WRITE_POINTS, crash_env
from handrail.runs import (
    AppendConflict,
    JournalError,
    JournalLine,
    RunBusy,
    RunHead,
    RunStore,
    open_runs,
    verify,
)
from runs.durable.statements import counting, watching
from runs.parked import writing

APPENDS = """
import sys
from handrail.runs import JournalLine, open_runs

journal = open_runs(sys.argv[1])
for number in range(int(sys.argv[3])):
    journal.append("r", [JournalLine.of("a", by=sys.argv[2], number=number), JournalLine.of("b")])
    sys.stdout.write(f"{number}\\n"); sys.stdout.flush()
"""
HOLDS = """
import sys
from handrail.runs import open_runs

with open_runs(sys.argv[1]).hold("r"):
    sys.stdout.write("held\\n"); sys.stdout.flush()
    sys.stdin.readline()
"""


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journal(tmp_path: Path, clock: Clock) -> Iterator[RunStore]:
    journal = open_runs(tmp_path / "state" / "journal.db", clock=clock)
    yield journal
    journal.close()


def start(script: str, *arguments: object, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603  our own interpreter
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | variables,
    )


def contents(journal: RunStore, run: str = "r") -> list[tuple[int, str, dict[str, object]]]:
    return [(entry.number, entry.kind, entry.content) for entry in journal.read(run)]


def test_lines_are_read_as_they_were_appended(journal: RunStore, clock: Clock) -> None:
    first = journal.append(
        "r", [JournalLine.of("a", text="é\ud800\0"), JournalLine.of("b", odd={1})]
    )
    clock.now = 101.5
    second = journal.append("r", [JournalLine("c", "[]"), JournalLine("d", "{")])

    assert contents(journal) == [
        (1, "a", {"text": "é\ud800\0"}),
        (2, "b", {"odd": "{1}"}),
        (3, "c", {}),
        (4, "d", {}),
    ]
    assert (first.entries, first.began, first.changed) == (2, 100.0, 100.0)
    assert (second.entries, second.began, second.changed) == (4, 100.0, 101.5)
    assert journal.head("r") == second
    assert verify(journal, "r") is None


def test_a_part_of_a_run_is_read(journal: RunStore) -> None:
    journal.append("r", [JournalLine.of("even" if number % 2 else "odd") for number in range(600)])
    journal.append("other", [JournalLine.of("odd")])

    assert [entry.number for entry in journal.read("r")] == list(range(1, 601))
    assert [entry.number for entry in journal.read("r", after=598)] == [599, 600]
    assert [entry.number for entry in journal.read("r", after=1, kinds=["odd"])] == list(
        range(3, 600, 2)
    )


def test_status_lines_are_the_summary(journal: RunStore) -> None:
    journal.append(
        "r", [JournalLine.of("status", status="running", prompt="Go"), JournalLine.of("other", x=1)]
    )
    head = journal.append("r", [JournalLine.of("status", status="done", reason="answer")])

    assert (head.status, head.reason) == ("done", "answer")
    assert head.summary == {"status": "done", "reason": "answer", "prompt": "Go"}
    assert journal.head("r") == head
    assert RunHead("r", summary={"status": 5}).status == ""
    assert RunHead("r", summary={"reason": 5}).reason == ""


def test_runs_are_listed_newest_first(journal: RunStore, clock: Clock) -> None:
    for name, status in [("a1", "x"), ("b1", "y"), ("a%", "x")]:
        clock.now += 1
        journal.append(name, [JournalLine.of("status", status=status, reason=name)])
    clock.now += 1
    journal.append("a1", [JournalLine.of("more")])

    def names(prefix: str = "", status: str = "", limit: int | None = None) -> list[str]:
        return [head.run for head in journal.runs(prefix=prefix, status=status, limit=limit)]

    assert names() == ["a%", "b1", "a1"]
    assert names("a") == ["a%", "a1"]
    assert names("a%") == ["a%"]
    assert names(status="x", limit=1) == ["a%"]
    assert names(status="z") == []
    assert [head.run for head in journal.runs(status="x", reason="a1")] == ["a1"]
    assert journal.runs(status="y", reason="a1") == []


def test_a_journal_that_does_not_exist_is_empty_and_stays_so(
    journal: RunStore,
) -> None:
    assert (journal.runs(), journal.head("r"), contents(journal)) == ([], None, [])
    assert (list(journal.names()), journal.is_held("r")) == ([], False)
    assert not journal.path.parent.exists()


def test_appending_behind_another_number_is_a_conflict(journal: RunStore) -> None:
    journal.append("r", [JournalLine.of("a")], after=0)
    message = "Run r has 1 entries, not 0: another process has appended some."
    with pytest.raises(AppendConflict, match=message):
        journal.append("r", [JournalLine.of("b")], after=0)

    assert journal.append("r", [], after=1) == journal.head("r")
    assert contents(journal) == [(1, "a", {})]
    assert journal.append("none", []) == RunHead("none")
    assert journal.head("none") is None


@pytest.mark.parametrize("run", ["", "x" * 201, "a\0b", "a\nb", "\ud800"])
def test_an_id_that_a_database_cannot_store_is_refused(journal: RunStore, run: str) -> None:
    with pytest.raises(JournalError, match="Invalid id of a run"):
        journal.append(run, [JournalLine.of("a")])


def test_a_removed_run_leaves_nothing(journal: RunStore) -> None:
    with journal.hold("r"):
        journal.append("r", [JournalLine.of("a", text="SECRET-TEXT")])
    journal.append("kept", [JournalLine.of("a")])
    journal.remove("r")
    journal.remove("never")
    journal.close()

    assert (journal.head("r"), contents(journal), list(journal.names())) == (None, [], ["kept"])
    journal.close()
    files = [path for path in journal.path.parent.rglob("*") if path.is_file()]
    assert [path for path in files if b"SECRET-TEXT" in path.read_bytes()] == []
    assert not list(journal.path.with_name("journal.db.workers").iterdir())


def test_only_its_owner_reads_and_writes_it(journal: RunStore) -> None:
    umask = os.umask(0)
    try:
        with journal.hold("r"):
            journal.append("r", [JournalLine.of("a")])
    finally:
        os.umask(umask)

    paths = [journal.path.parent, *journal.path.parent.rglob("*")]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()}
    folders = {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()}
    assert (modes, folders) == ({0o600}, {0o700})


@pytest.mark.parametrize("kind", ["link", "folder", "shared", "pipe"])
def test_a_file_of_others_is_refused(journal: RunStore, tmp_path: Path, kind: str) -> None:
    journal.path.parent.mkdir()
    match kind:
        case "link":
            journal.path.symlink_to(tmp_path / "elsewhere")
        case "folder":
            journal.path.mkdir()
        case "shared":
            journal.path.touch()
            journal.path.chmod(0o666)
        case _:
            os.mkfifo(journal.path)
    with pytest.raises(JournalError, match=r"Cannot (open|use) .*journal\.db: "):
        journal.append("r", [JournalLine.of("a")])
    with pytest.raises(JournalError, match=r"Cannot (open|use) .*journal\.db: "):
        journal.runs()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("content", [b"not a database, but a long enough text" * 99, b"\0" * 9000])
def test_a_file_that_is_not_a_journal_is_reported(journal: RunStore, content: bytes) -> None:
    journal.path.parent.mkdir()
    journal.path.touch(0o600)
    journal.path.write_bytes(content)

    with pytest.raises(JournalError, match=r"Cannot use the runs in .*: file is not a database"):
        journal.append("r", [JournalLine.of("a")])


def test_waiting_for_a_writer_ends(journal: RunStore) -> None:
    journal.append("r", [JournalLine.of("a")])
    impatient = open_runs(journal.path, busy_seconds=0.01)
    with writing(journal.path), pytest.raises(JournalError, match="database is locked"):
        impatient.append("r", [JournalLine.of("b")])

    assert impatient.append("r", [JournalLine.of("b")]).entries == 2
    impatient.close()


def test_readers_do_not_wait_for_a_writer(journal: RunStore) -> None:
    journal.append("r", [JournalLine.of("a")])
    reader = open_runs(journal.path, busy_seconds=0.01)
    with writing(journal.path) as connection:
        connection.execute("DELETE FROM handrail_journal")
        assert contents(reader) == [(1, "a", {})]
    reader.close()


def test_one_process_holds_a_run_until_it_dies(journal: RunStore) -> None:
    with start(HOLDS, journal.path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        held = journal.is_held("r")
        with (
            pytest.raises(RunBusy, match="Another process is working on run r"),
            journal.hold("r"),
        ):
            pass
        other.kill()
    assert (held, journal.is_held("r"), journal.is_held("s")) == (True, False, False)
    with journal.hold("r"), journal.hold("s"):
        assert (journal.is_held("r"), journal.is_held("s")) == (True, True)


def test_processes_append_at_once(journal: RunStore) -> None:
    """They also create the file at once."""
    workers = [start(APPENDS, journal.path, name, 40) for name in "xyz"]
    for worker in workers:
        worker.communicate()

    assert [worker.returncode for worker in workers] == [0, 0, 0]
    entries = list(journal.read("r"))
    pairs = [(one.kind, other.kind) for one, other in zip(entries[::2], entries[1::2], strict=True)]
    assert pairs == [("a", "b")] * 120
    for name in "xyz":
        own = [entry.content for entry in entries if entry.content.get("by") == name]
        assert [content["number"] for content in own] == list(range(40))
    assert {run: verify(journal, run) for run in journal.names()} == {"r": None}


@pytest.mark.parametrize("point", WRITE_POINTS)
def test_a_killed_append_happened_or_did_not(journal: RunStore, point: str) -> None:
    with start(APPENDS, journal.path, "x", 9, **crash_env(f"{point}:3")) as worker:
        assert worker.stdout is not None
        told = worker.stdout.read().split()

    assert (worker.returncode, told) == (-signal.SIGKILL, ["0", "1"])
    whole = 3 if point == "write.committed" else 2
    assert [entry.kind for entry in journal.read("r")] == ["a", "b"] * whole
    assert verify(journal, "r") is None
    assert journal.append("r", [JournalLine.of("c")]).entries == whole * 2 + 1
    assert verify(journal, "r") is None


async def test_an_approval_is_used_once(journal: RunStore) -> None:
    other = open_runs(journal.path)
    one, two = journal.ledger, other.ledger
    claims = [await one.claim("p", "a"), await two.claim("p", "a"), await two.claim("p", "b")]
    before = await two.ended("p")
    await one.end("p")
    await one.end("p")

    assert (claims, before, await two.ended("p")) == ([True, True, False], False, True)
    assert await two.claim("\ud800", "b")
    other.close()


def test_text_that_no_database_stores_is_kept_as_it_was(tmp_path: Path) -> None:
    journal = open_runs(tmp_path / "journal.db")
    journal.append("r", [JournalLine("x\0", '{"text":"\ud800"}')])

    assert contents(journal) == [(1, "x\0", {"text": "\ud800"})]
    assert verify(journal, "r") is None


def test_four_writers_of_one_run_make_one_chain(tmp_path: Path) -> None:
    def write(number: int) -> None:
        journal = open_runs(tmp_path / "journal.db", busy_seconds=60)
        for count in range(10):
            journal.append("r", [JournalLine.of("x", number=number, count=count)] * 3)
        journal.close()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    journal = open_runs(tmp_path / "journal.db")
    head = journal.head("r")
    assert (head and head.entries, verify(journal, "r")) == (120, None)


def test_a_run_is_read_again_only_after_someone_else_has_changed_it(tmp_path: Path) -> None:
    line = JournalLine.of("status", status="done")
    with watching(), counting("s.unfinished") as read:
        journal, other = (open_runs(tmp_path / "journal.db") for _ in range(2))
        for _ in range(5):
            journal.append("r", [line])
        alone = len(read)
        other.append("r", [line, line])
        beside = journal.append("r", [line])
        after = len(read)
        other.remove("r")
        anew = journal.append("r", [line])
    entries = [(entry.number, entry.digest) for entry in other.read("r")]

    assert (alone, after, len(read)) == (1, 3, 4)
    assert (beside.entries, anew.entries, entries) == (8, 1, [(1, anew.digest)])
    assert (verify(other, "r"), other.head("r")) == (None, anew)


def test_a_page_that_is_not_full_is_the_last_one(journal: RunStore) -> None:
    for _ in range(4):
        journal.append("r", [JournalLine.of("x")])
    with watching(), counting("SELECT first, digest, lines") as pages:
        entries = list(open_runs(journal.path).read("r"))

    assert ([entry.number for entry in entries], len(pages)) == ([1, 2, 3, 4], 2)


def test_a_file_of_an_earlier_version_is_refused(journal: RunStore) -> None:
    journal.path.parent.mkdir()
    with closing(sqlite3.connect(journal.path)) as connection:
        connection.execute("CREATE TABLE handrail_summary (run TEXT)")

    with pytest.raises(JournalError, match="An earlier version of handrail has written these runs"):
        journal.append("r", [JournalLine.of("a")])


def count_locks(path: Path) -> int:
    """How many locks this process has on a file."""
    mine = (str(os.getpid()), f":{path.stat().st_ino}")
    lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    return sum(mine[0] in line.split() and f"{mine[1]} " in line for line in lines)


def test_a_second_store_of_a_process_leaves_the_locks_of_the_first(journal: RunStore) -> None:
    """Else, another process that closes the file would take the log away from this one."""
    journal.append("r", [JournalLine.of("a")])
    before = count_locks(journal.path)
    second = open_runs(journal.path)
    second.append("r", [JournalLine.of("b")])

    assert (before, count_locks(journal.path)) == (1, 1)
    second.close()


def test_a_damaged_run_takes_no_lines_and_no_process_waits_for_ever(journal: RunStore) -> None:
    journal.append("r", [JournalLine.of("a")])
    journal.append("r", [JournalLine.of("b")])
    with closing(sqlite3.connect(journal.path)) as connection:
        connection.execute("UPDATE handrail_run SET entries = 1")
        connection.commit()

    damaged = open_runs(journal.path)
    with pytest.raises(JournalError, match=r"Run r is damaged\. Find the damage with"):
        damaged.append("r", [JournalLine.of("c")])
