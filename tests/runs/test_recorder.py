"""Events go to the journal while a run is in progress, in order, and without holding up the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from handrail import READ, Call, Executor, Toolset, tool
from handrail.events import Event, Finished
from handrail.runs import RunRecord, RunStore, open_runs, read_history, record_events
from runs.parked import writing


@tool(effect=READ)
def look(path: str) -> str:
    """Look at a file."""
    return f"text of {path}"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[RunStore]:
    journal = open_runs(tmp_path / "journal.db", busy_seconds=0.01)
    yield journal
    journal.close()


async def run(
    record: RunRecord, seen: Callable[[Event], None] | None, *, cancelled: bool = False
) -> None:
    async with anyio.create_task_group() as group:
        executor = Executor(Toolset(look))
        group.start_soon(record_events, record, executor.events(), seen)
        async with executor:
            for number in range(3):
                await executor.run(Call("look", {"path": str(number)}, f"c{number}"))
        if cancelled:
            group.cancel_scope.cancel()


@pytest.mark.parametrize("cancelled", [False, True])
async def test_every_event_is_written_in_order(journal: RunStore, cancelled: bool) -> None:  # noqa: FBT001
    record, seen = RunRecord(journal, "r"), list[Event]()
    await run(record, seen.append, cancelled=cancelled)

    lines = record.lines()
    assert [line["event"] for line in lines] == [type(event).__name__.lower() for event in seen]
    [turn] = read_history(lines)
    assert [(call.tool, call.outcome, call.text) for call in turn.calls] == [
        ("look", "ok", f"text of {number}") for number in range(3)
    ]
    assert isinstance(seen[-1], Finished)


async def test_events_that_cannot_be_written_wait(journal: RunStore) -> None:
    journal.append("other", [])
    record = RunRecord(journal, "r")
    with writing(journal.path):
        await run(record, None)
        assert record.lines() == []
    record.set_status(status="done", reason="answer")

    assert [line["event"] for line in record.lines()] == [
        *["requested", "decided", "started", "finished"] * 3,
        "status",
    ]
    assert record.head.reason == "answer"
