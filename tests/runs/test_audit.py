"""Every call in a journal: who asked, what was decided, how it ended."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from handrail import READ, Call, Deny, Executor, Toolset, tool
from handrail.runs import JournalError, RunStore, open_runs
from handrail.runs._store.database import Database
from handrail.runs.audit import CallAudit
from handrail.runs.record import RunRecord

pytestmark = pytest.mark.anyio


@tool(effect=READ)
def look(text: str) -> str:
    """Look at a text."""
    return text


def deny_bad(call: Any) -> Any:
    from handrail import Allow

    return Deny("never") if call.args["text"] == "bad" else Allow()


async def test_who_asked_what_and_how_it_ended(tmp_path: Path) -> None:
    record = RunRecord(open_runs(tmp_path / "journal.db"), "served")
    audit = CallAudit(record, clock=lambda: 5.0)
    made = Executor(Toolset(look), policy=deny_bad, hooks=[audit.hook])
    async with made as executor, audit.writing():
        turn = executor.turn(principal="alice")
        await executor.run(Call("look", {"text": "good"}, id="1"), turn=turn)
        await executor.run(Call("look", {"text": "bad"}, id="2"), turn=turn)
        await executor.run(Call("lock", {}, id="3"))

    lines = [
        {name: line[name] for name in ("event", "call_id", "principal", "kind") if name in line}
        for line in record.lines()
    ]
    assert lines == [
        {"event": "requested", "call_id": "1", "principal": "alice"},
        {"event": "decided", "call_id": "1"},
        {"event": "finished", "call_id": "1", "principal": "alice", "kind": ""},
        {"event": "requested", "call_id": "2", "principal": "alice"},
        {"event": "decided", "call_id": "2"},
        {"event": "finished", "call_id": "2", "principal": "alice", "kind": "denied"},
        {"event": "requested", "call_id": "3"},
        {"event": "finished", "call_id": "3", "kind": "unknown_tool"},
    ]
    assert record.lines()[0] == {
        "at": 5.0,
        "event": "requested",
        "call_id": "1",
        "tool": "look",
        "args": '{"text":"good"}',
        "principal": "alice",
    }


class Full(RunStore):
    """A journal whose disk is full, for a while."""

    is_full = True

    def append(self, run: str, lines: Iterable[Any], **options: Any) -> Any:
        if self.is_full:
            raise JournalError("the disk is full")
        return super().append(run, lines, **options)


async def test_a_call_that_cannot_be_recorded_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.runs.audit.WRITE_SECONDS", 0.01)
    journal = Full(Database(str(tmp_path / "journal.db")))
    audit = CallAudit(RunRecord(journal, "served"))

    async def until(holds: Any) -> None:
        with anyio.fail_after(30):
            while not holds():  # noqa: ASYNC110  no event tells of it
                await anyio.sleep(0.005)

    async with Executor(Toolset(look), hooks=[audit.hook]) as executor, audit.writing():
        first = await executor.run(Call("look", {"text": "a"}))
        await until(lambda: audit.problem)
        refused = await executor.run(Call("look", {"text": "b"}))
        journal.is_full = False
        await until(lambda: not audit.problem)
        again = await executor.run(Call("look", {"text": "c"}))
        await until(lambda: written(journal) == ["a", "N", "c"])
        monkeypatch.setattr("handrail.runs.audit.MAX_UNWRITTEN", -1)
        flooded = await executor.run(Call("look", {"text": "d"}))

    assert (first.text, again.text) == ("a", "c")
    assert refused.text.startswith("Not run: this call cannot be recorded")
    assert flooded.text == refused.text
    assert written(journal) == ["a", "N", "c"]


async def test_refused_calls_are_noted_up_to_a_limit_while_the_journal_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.runs.audit.WRITE_SECONDS", 0.01)
    monkeypatch.setattr("handrail.runs.audit.MAX_UNWRITTEN", 5)
    journal = Full(Database(str(tmp_path / "journal.db")))
    audit = CallAudit(RunRecord(journal, "served"))

    async with Executor(Toolset(look), hooks=[audit.hook]) as executor, audit.writing():
        await executor.run(Call("look", {"text": "a"}))
        with anyio.fail_after(30):
            while not audit.problem:  # noqa: ASYNC110  no event tells of it
                await anyio.sleep(0.005)
        for name in ["look", "lost"] * 20:
            await executor.run(Call(name, {"text": "b"}))
        journal.is_full = False

    assert audit.problem == ""
    assert written(journal) == ["a", "N", "T", "N"]


class Slow(RunRecord):
    """A record that takes the first lines when the next ones come, or after a while."""

    def __init__(self, journal: RunStore) -> None:
        super().__init__(journal, "served")
        self.began = threading.Event()
        self.overtaken = threading.Event()

    def put(self, lines: Iterable[Any]) -> None:
        if self.began.is_set():
            self.overtaken.set()
        else:
            self.began.set()
            self.overtaken.wait(0.3)
        super().put(lines)


async def test_the_last_write_waits_for_the_one_under_way(tmp_path: Path) -> None:
    journal = open_runs(tmp_path / "journal.db")
    record = Slow(journal)
    audit = CallAudit(record)
    async with Executor(Toolset(look), hooks=[audit.hook]) as executor, audit.writing():
        await executor.run(Call("look", {"text": "a"}))
        await anyio.to_thread.run_sync(record.began.wait)
        await executor.run(Call("look", {"text": "b"}))

    events = [line["event"] for line in record.lines()]
    assert events == ["requested", "decided", "finished"] * 2


async def test_what_comes_just_before_the_end_is_written(tmp_path: Path) -> None:
    record = RunRecord(open_runs(tmp_path / "journal.db"), "served")
    audit = CallAudit(record)
    async with Executor(Toolset(look), hooks=[audit.hook]) as executor, audit.writing():
        await anyio.wait_all_tasks_blocked()  # it waits for the first fact
        await executor.run(Call("lock", {}))  # never waits: it ends in the same step as the block

    assert [line["event"] for line in record.lines()] == ["requested", "finished"]


def written(journal: RunStore) -> list[str]:
    return [line["text"][:1] for line in RunRecord(journal, "served").lines() if "text" in line]
