"""The journal of durable runs: crashes, and workers that come late, neither double nor break it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail import READ, Call, Text, tool
from handrail.agent import Agent
from handrail.messages import Reply, Request
from handrail.runs import JournalEntry, verify
from handrail.runs._durable.rows import cancel_row, head_row, take_row
from handrail.runs._store.port import DatabaseError
from handrail.runs._store.writes import StepRecord
from handrail.runs.durable import DurableRuns
from handrail.runs.statuses import FAILED
from handrail.testing import ScriptedModel
from runs.durable.shop import TURNS
from runs.durable.statements import counting
from runs.durable.workers import Forks, judge


def sealed(entries: list[JournalEntry]) -> list[tuple[int, str, str]]:
    """Return each end of a segment that a journal has, and how it ended."""
    found = [entry.content for entry in entries if entry.kind == "status"]
    return [(one["sealed"], one["status"], one["reason"]) for one in found if "sealed" in one]


@pytest.mark.parametrize(
    ("database", "ends"),
    [("sqlite", 1), ("sqlite", 2), ("postgres", 1), ("postgres", 2)],
    indirect=["database"],
)
async def test_the_end_of_a_segment_is_written_once_whatever_crashes_after_it(
    forks: Forks, tmp_path: Path, database: str, ends: int
) -> None:
    where = tmp_path / "ledger", database, "r"
    runs = DurableRuns(database, {})
    journal = runs.store

    assert forks.run(*where, crash=f"run.sealed:{ends}")  # the run waits, or has ended
    before = list(journal.read("r"))
    async with runs:
        crashed = await runs.get("r")
        [beside] = await runs._database.read("SELECT entries, digest FROM handrail_run")  # noqa: SLF001
    assert not forks.run(*where)
    after = list(journal.read("r"))

    assert sealed(before) == [(0, "waiting", ""), (1, "done", "answer")][:ends]
    assert sealed(after) == [(0, "waiting", ""), (1, "done", "answer")]
    assert after[: len(before)] == before
    assert beside == (len(before), before[-1].digest)  # written with the last line
    assert crashed.status == ("running" if ends == 1 else "done")
    assert ends == 1 or after == before
    assert [entry.kind for entry in after].count("reply") == len(TURNS) + 1
    assert verify(journal, "r") is None
    assert (await judge(*where)).wrong == ()


class Waiting:
    """A model that answers when it may."""

    def __init__(self) -> None:
        self.asked, self.may = anyio.Event(), anyio.Event()

    async def __call__(self, _request: Request) -> Reply:
        self.asked.set()
        await self.may.wait()
        return Reply((Text("done"),))


@pytest.mark.parametrize("cancels", [False, True])
async def test_a_worker_that_comes_late_writes_no_other_end(sqlite: str, *, cancels: bool) -> None:
    model = Waiting()
    runs = DurableRuns(sqlite, {"a": Agent(model)}, poll=0.05)
    late: Any = runs._rows.journal("r")  # noqa: SLF001  a second worker at the same segment
    later: Any = runs._rows.journal("r")  # noqa: SLF001
    with anyio.fail_after(60):
        async with runs.work(interval=0.1, drain_seconds=5):
            await runs.start("a", "Go.", run_id="r")
            await model.asked.wait()
            await late.open(0, 0, 0, take_row("r"))
            late.on_event(Reply((Call("look", {}, "1"),)))
            if cancels:
                await runs.cancel("r")
            model.may.set()
            await runs.wait("r")
    before = list(runs.store.read("r"))
    await late.seal(0, FAILED, head_row, why="late")
    await later.open(0, 0, 0, take_row("r"))
    await later.flush()
    await later.seal(0, FAILED, head_row, why="later")

    head = runs.store.head("r")
    assert list(runs.store.read("r")) == before
    assert head is not None
    assert head.status == ("cancelled" if cancels else "done")
    assert verify(runs.store, "r") is None
    await later.open(0, 0, 1, take_row("r"))
    await later.seal(1, FAILED, head_row)
    assert (len(list(runs.store.read("r"))) > len(before)) is not cancels
    assert verify(runs.store, "r") is None


@pytest.mark.parametrize("ends", [False, True])
async def test_the_end_of_the_chain_is_recorded_beside_a_run_that_has_ended_or_not(
    sqlite: str, *, ends: bool
) -> None:
    runs = DurableRuns(sqlite, {"a": Agent(ScriptedModel("Done."))})
    async with runs:
        await runs.start("a", "Go.", run_id="r")
        if ends:
            await runs.cancel("r")
        head = runs.store.head("r")
        assert head is not None
        outcome = '["error", "late", null]'
        await runs._rows.end_run(head, "failed", 0, outcome)  # noqa: SLF001  a worker that comes late
        run = await runs.get("r")
        [beside] = await runs._database.read("SELECT entries, digest FROM handrail_run")  # noqa: SLF001

    assert (run.status, run.why) == (("cancelled", "") if ends else ("failed", "late"))
    assert beside == (head.entries, head.digest)


async def test_a_journal_is_read_in_parts_and_its_runs_by_their_status(sqlite: str) -> None:
    runs = DurableRuns(sqlite, {"a": Agent(ScriptedModel("Done."))}, poll=0.05)
    with anyio.fail_after(60):
        async with runs.work(interval=0.1, drain_seconds=5):
            await runs.start("a", "Go.", run_id="r")
            await runs.wait("r")
    whole = list(runs.store.read("r"))
    replies = [entry for entry in whole if entry.kind == "reply"]

    assert list(runs.store.read("r", after=2)) == whole[2:]
    assert list(runs.store.read("r", after=len(whole))) == []
    assert list(runs.store.read("r", kinds=["reply"])) == replies
    assert [head.run for head in runs.store.runs(status="done", reason="answer")] == ["r"]
    assert runs.store.runs(status="done", reason="limit") == []
    assert runs.store.runs(status="failed") == []


async def test_a_turn_that_fails_is_reported_as_it_failed(sqlite: str) -> None:
    journal: Any = DurableRuns(sqlite, {})._rows.journal("r")  # noqa: SLF001  no turn fails by itself

    async def fail() -> str:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        await journal.record(fail, 0, 1)


@pytest.mark.parametrize("by", ["mine", None])
async def test_the_record_of_a_turn_is_written_with_its_events_and_the_first_one_counts(
    database: str, by: str | None
) -> None:
    """Also of a turn whose events were all written before its end."""
    runs = DurableRuns(database, {"a": Agent(ScriptedModel("Done."))})

    async def give(text: str) -> str:
        return text

    async with runs:
        await runs.start("a", "Go.", run_id="r")
        journals: list[Any] = [runs._rows.journal("r") for _ in range(2)]  # noqa: SLF001  two workers
        recorded = []
        for text, said, journal in zip(["mine", "late"], [by, "late"], journals, strict=True):
            journal.put_status(by=said) if said else ()
            recorded.append(await journal.record(partial(give, text), 0, 1))
        steps = await runs._rows.steps_of("r", 0)  # noqa: SLF001
        kinds = [entry.content.get("by") for entry in runs.store.read("r", after=2)]

    assert recorded == [("mine", True), ("late", False)]
    assert (steps, kinds) == (["mine"], [by, "late"])
    assert verify(runs.store, "r") is None


async def test_the_first_request_of_a_run_waits_for_no_write(database: str) -> None:
    before: list[int] = []

    async def model(_request: Request) -> Reply:
        before.append(len(written))
        return Reply((Text("Done."),))

    runs = DurableRuns(database, {"a": Agent(model)}, poll=0.05)
    with counting("INSERT INTO handrail_journal") as written:
        async with runs.work(interval=0.1, drain_seconds=5):
            await runs.wait(await runs.start("a", "Go.", run_id="r"))

    said = [entry.content.get("status") for entry in runs.store.read("r")]
    assert (before, len(written)) == ([1], 2)
    assert [one for one in said if one] == ["queued", "running", "done"]


async def test_the_last_reply_is_recorded_with_the_end_of_its_run(database: str) -> None:
    @tool(effect=READ)
    async def look() -> str:
        """Look."""
        return "rain"

    async def model(request: Request) -> Reply:
        written.clear()
        if len(request.messages) > 1:
            return Reply((Text("Done."),))
        return Reply((Call("look", {}, "1"),))

    runs = DurableRuns(database, {"a": Agent(model, [look])}, poll=0.05)
    with counting("INSERT INTO handrail_step") as written:
        async with runs.work(interval=0.1, drain_seconds=5):
            await runs.wait(await runs.start("a", "Go.", run_id="r"))
            text = (await runs.get("r")).text
        steps = await runs._rows.steps_of("r", 0)  # noqa: SLF001  what a restart reads

    [last] = written
    assert (text, len(steps)) == ("Done.", 3)
    assert "EXISTS" not in last  # as if it were written alone
    assert ("handrail_journal" in last) is database.startswith("postgresql:")  # one statement there


@pytest.mark.parametrize("other", ["mine", "theirs"])
async def test_a_run_does_not_end_with_a_reply_that_another_worker_has_not_recorded(
    database: str, other: str
) -> None:
    runs = DurableRuns(database, {"a": Agent(ScriptedModel("Done."))})
    async with runs:
        await runs.start("a", "Go.", run_id="r")
        before = list(runs.store.read("r"))
        journal: Any = runs._rows.journal("r")  # noqa: SLF001
        await runs._rows.add_step("r", StepRecord(0, 1 if other == "mine" else 0, other))  # noqa: SLF001
        journal.held = StepRecord(0, 0, "mine")
        if other == "theirs":
            with pytest.raises(DatabaseError, match="has recorded another reply in the run r"):
                await journal.seal(0, FAILED, head_row)
        else:
            await journal.seal(0, FAILED, head_row)
        steps = await runs._rows.steps_of("r", 0)  # noqa: SLF001
        after = list(runs.store.read("r"))

    assert (steps, len(after) - len(before)) == (
        (["theirs"], 0) if other == "theirs" else (["mine", "mine"], 1)
    )


async def test_the_last_reply_of_a_run_that_is_cancelled_meanwhile_is_kept(database: str) -> None:
    model = Waiting()
    runs = DurableRuns(database, {"a": Agent(model)}, poll=0.05)
    with anyio.fail_after(60):
        async with runs.work(interval=60, drain_seconds=5):
            await runs.start("a", "Go.", run_id="r")
            await model.asked.wait()
            other: Any = runs._rows.journal("r")  # noqa: SLF001  of another process, which then dies
            await other.cancel(cancel_row("r"))
            model.may.set()
            while (run := await runs.get("r")).text != "done":  # noqa: ASYNC110  its worker writes it
                await anyio.sleep(0.02)

    assert run.status == "cancelled"
    assert verify(runs.store, "r") is None
