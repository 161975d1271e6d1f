"""Auditors verify chains on the page, and take a whole chain to another machine."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli_harness import Handrail, made
from console.visits import BEHIND_A_PROXY, Visitor, make_pending, park, read_page, visit
from handrail.console import Console
from handrail.console._store import Store
from handrail.runs import JournalLine, RunRecord, open_runs
from handrail.runs._reading import events
from handrail.runs.chain import dump_chain, verify_on
from handrail.runs.records import list_runs, read_past_calls
from journal_changes import edit_entries


def verify(person: Visitor, **fields: str) -> str:
    found = person.post("/audit/verify", {**person.form("/audit"), **fields})
    assert (found.status_code, found.headers["location"]) == (303, "/audit")
    return read_page(person.get("/audit").text).text.replace("\u00a0", " ")


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)


def test_a_check_goes_on_from_the_last_one_and_sees_only_its_runs(file: Path) -> None:
    console = Console(BEHIND_A_PROXY, Store(str(file)))
    person = visit(file, "auditors", console=console)
    before = read_page(person.get("/audit").text).text
    first = verify(person)
    with closing(open_runs(file)) as journal:
        RunRecord(journal, "r1").note([{"event": "prompt", "text": "More."}])
        entries = journal.head("r1").entries  # type: ignore[union-attr]
    edit_entries(file, lambda number, _, body: "{}" if number == 1 else body, "r1")
    second = verify(person)
    whole = verify(person, all="1")
    others = read_page(visit(file, "others", console=console).get("/audit").text).text
    elsewhere = verify(visit(file, "others", console=console))

    assert "Not verified yet." in before
    assert f"The chains are intact. 1 run, {entries - 1} entries, each checked" in first
    assert f"1 run, {entries} entries" in second  # what was checked before is not read again
    assert "! 1 chain is broken. Run r1, entry 1: the digest does not match" in whole
    assert "Not verified yet." in others
    assert "The chains are intact. 1 run, " in elsewhere


def test_a_page_with_one_run_has_its_anchor_and_its_chain(file: Path) -> None:
    person = visit(file, "auditors")
    verify(person)
    with closing(open_runs(file)) as journal:
        head: Any = journal.head("r1")
    page = read_page(person.get("/audit?run=r1").text)

    assert f"Verified up to {head.entries}:{head.digest}: keep this elsewhere" in page.text
    assert "/audit/chain/r1" in page.addresses
    assert person.get("/audit/chain/r2").text == person.get("/audit/chain/none").text


@pytest.fixture
def handrail(tmp_path: Path) -> Handrail:
    (tmp_path / "elsewhere").mkdir()
    return made(tmp_path / "elsewhere")


def test_a_chain_is_verified_on_another_machine(file: Path, handrail: Handrail) -> None:
    found = visit(file, "auditors").get("/audit/chain/r1")
    handrail.write("chain.jsonl", found.text)
    good = handrail("runs", "verify", "--from", "chain.jsonl", "--json")
    [run] = good.json["runs"]
    expect = f"{run['entries']}:{run['digest']}"
    lines = found.text.splitlines(keepends=True)

    assert (good.exit, run["id"], run["broken"]) == (0, "r1", None)
    assert handrail("runs", "verify", "r1", "--from", "chain.jsonl", "--expect", expect).exit == 0
    for changed in (
        [*lines[:2], lines[2].replace('"number": 2', '"number": 3'), *lines[3:]],
        [*lines[:2], lines[2].replace("Refund", "Refuse"), *lines[3:]],
        lines[:-1],
        [lines[0], *lines[2:]],
    ):
        handrail.write("chain.jsonl", "".join(changed))
        assert handrail("runs", "verify", "--from", "chain.jsonl").exit == 1
    for text in ("{}\n", lines[1], lines[0] + lines[1].replace('"number": 1', '"number": "1"')):
        handrail.write("chain.jsonl", text)
        ran = handrail("runs", "verify", "--from", "chain.jsonl")
        assert (ran.exit, "is not an entry of a chain" in ran.err) == (2, True)
    assert "cannot read" in handrail("runs", "verify", "--from", "none.jsonl").err
    handrail.write("chain.jsonl", found.text)
    assert "has no run r9" in handrail("runs", "verify", "r9", "--from", "chain.jsonl").err


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DELETE FROM handrail_journal WHERE last = 7", "the run ends here instead of at 7"),
        ("DELETE FROM handrail_journal WHERE first = 3", "the entry is missing; the next one is 4"),
        ("UPDATE handrail_run SET entries = 6", "the run should end at 6"),
        ("UPDATE handrail_run SET digest = 'x'", "the run ends with another digest than recorded"),
        ("DELETE FROM handrail_run", "the run is not in the list of runs"),
    ],
)
def test_every_kind_of_damage_is_found(tmp_path: Path, statement: str, reason: str) -> None:
    file = tmp_path / "journal.db"
    with closing(open_runs(file)) as journal:
        park(journal, make_pending("r1"))
        control = verify_on(journal, ["r1"], clock=lambda: 1.0)
        entries = journal.head("r1").entries  # type: ignore[union-attr]
        change(file, statement.replace("7", str(entries)).replace("6", str(entries - 1)))
        found = verify_on(journal, ["r1"])
        kept = verify_on(journal, ["r1"], found)

    expected = reason.replace("7", str(entries)).replace("6", str(entries - 1))
    assert (control.runs, control.entries, control.breaks) == (1, entries, ())
    assert [one.reason for one in found.breaks] == [expected]
    assert kept.breaks == found.breaks


def test_a_long_check_goes_on_in_parts(tmp_path: Path) -> None:
    with closing(open_runs(tmp_path / "journal.db")) as journal:
        for run in ("a", "b"):
            RunRecord(journal, run).note([{"event": "prompt", "text": str(n)} for n in range(5)])
        first = verify_on(journal, ["a", "b"], limit=7)
        second = verify_on(journal, ["a", "b"], first, limit=7)

    assert [(one.runs, one.entries, one.rest) for one in (first, second)] == [(1, 7, 1), (2, 10, 0)]


def test_runs_are_listed_a_page_at_a_time_and_an_unknown_one_has_no_chain(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.runs._reading.past_calls._PAGE", 1)
    with closing(open_runs(file).records()) as records:
        assert sorted(list_runs(records)) == ["r1", "r2"]
    assert list(dump_chain(open_runs(file), "unknown")) == []


def test_a_call_whose_request_is_not_recorded_is_no_past_call(tmp_path: Path) -> None:
    with closing(open_runs(tmp_path / "journal.db")) as journal:
        record = RunRecord(journal, "r1")
        about = {"call_id": "c1", "at": 1.7e9}
        record.note([{**about, "event": "decided", "decision": "allow"}])
    with closing(open_runs(tmp_path / "journal.db").records()) as records:
        assert read_past_calls(records) == ()


def test_a_search_that_finds_nothing_new_leads_to_older_events(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_runs(file)) as journal:
        for who in ("ann", "ben", "ben", "ben"):
            journal.append("r1", [JournalLine.of("note", by=who)])
    console = Console(replace(BEHIND_A_PROXY, page_size=2), Store(str(file)))
    person = visit(file, "auditors", console=console)
    monkeypatch.setattr(events, "MAX_BLOCKS", 2)
    page = read_page(person.get("/audit?who=ann").text)
    [older] = [one for one in page.addresses if "before=" in one]
    found = read_page(person.get(older).text)

    assert "No new event matches" in page.text
    assert "Search older events" in page.text
    assert "ann" in found.text.partition("Digest")[2]
