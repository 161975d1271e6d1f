"""Events of all runs: searched in pages, and followed as they are written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from handrail.runs import JournalLine, Records, RunStore, open_runs
from handrail.runs._reading import events
from handrail.runs.records import EventQuery, EventRow


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with open_runs(tmp_path / "journal.db") as store:
        yield store


def note(number: int, who: str = "") -> JournalLine:
    return JournalLine.of("note", at=float(number), by=who)


def read_all(records: Records, query: EventQuery, limit: int) -> list[tuple[int, ...]]:
    """The times of the events of each page."""
    page = records.events(query, limit=limit)
    found = [tuple(int(one.row.at) for one in page.rows)]
    while page.next:
        page = records.events(query, before=page.next, limit=limit)
        found.append(tuple(int(one.row.at) for one in page.rows))
    return found


async def follow(store: RunStore, after: int, count: int) -> list[EventRow]:
    found: list[EventRow] = []
    with anyio.fail_after(30):
        async for event in store.follow(after):
            found.append(event)
            if len(found) == count:
                break
    return found


def test_a_page_can_end_inside_of_what_was_written_at_once(store: RunStore) -> None:
    store.append("a", [note(number) for number in range(1, 6)])
    store.append("b", [note(6)])
    store.append("a", [note(number) for number in range(7, 12)])
    records = store.records()

    assert read_all(records, EventQuery(), 4) == [(11, 10, 9, 8), (7, 6, 5, 4), (3, 2, 1)]
    assert read_all(records, EventQuery(run="a"), 4) == [(11, 10, 9, 8), (7, 5, 4, 3), (2, 1)]
    assert read_all(records, EventQuery(since=3, until=9), 9) == [(9, 8, 7, 6, 5, 4, 3)]
    records.close()


def test_a_page_searches_a_bounded_number_of_rows(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 31):
        store.append("a", [note(number, "ann" if number in {2, 9, 28} else "")])
    records = store.records()
    monkeypatch.setattr(events, "MAX_BLOCKS", 10)
    bounded = read_all(records, EventQuery(who="ann"), 2)
    monkeypatch.undo()

    assert bounded == [(28,), (), (9, 2), ()]
    assert read_all(records, EventQuery(who="ann"), 2) == [(28, 9), (2,)]
    assert read_all(records, EventQuery(who="ben"), 2) == [()]
    records.close()


def test_an_event_has_the_tool_of_its_call_though_another_row_names_it(store: RunStore) -> None:
    def step(kind: str, call: str, turn: int, **more: str) -> JournalLine:
        return JournalLine.of(kind, at=1.0, call_id=call, turn=turn, **more)

    store.append("a", [step("requested", "c1", 1, tool="pay"), step("started", "c1", 1)])
    store.append("a", [step("finished", "c1", 1)])
    store.append("a", [step("requested", "c1", 2, tool="look")])
    store.append("a", [step("finished", "c1", 2), step("started", "c9", 2)])
    records = store.records()
    rows = records.events(limit=9).rows

    assert [(one.row.kind, one.row.tool) for one in reversed(rows)] == [
        ("requested", "pay"),
        ("started", "pay"),
        ("finished", "pay"),
        ("requested", "look"),
        ("finished", "look"),
        ("started", ""),
    ]
    assert [one.row.number for one in records.events(EventQuery(tool="pay")).rows] == [3, 2, 1]
    records.close()


async def test_who_follows_continues_after_any_event(store: RunStore) -> None:
    store.append("a", [note(1), note(2), note(3)])
    store.append("b", [note(4)])
    everything = await follow(store, 0, 4)

    for number in range(1, 4):
        rest = await follow(store, everything[number - 1].place, 4 - number)
        assert rest == everything[number:]


def test_a_damaged_row_is_shown_and_hides_no_other(store: RunStore) -> None:
    store.append("a", [note(1)])
    store.append("a", [note(2), note(3)])
    store.close()
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("UPDATE handrail_journal SET first = 'x' WHERE first = 2")
        connection.commit()
    rows = store.records().events().rows

    assert [one.row.at for one in rows] == [3.0, 2.0, 1.0]


def test_a_place_never_comes_a_second_time(store: RunStore) -> None:
    store.append("a", [note(1), note(2)])
    [last] = store.records().events(limit=1).rows
    store.remove("a")
    store.append("b", [note(3)])
    [first] = store.records().events(limit=1).rows

    assert first.row.place > last.row.place
