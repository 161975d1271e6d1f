"""The chain of a run: whatever is changed, the check names the first entry that is wrong."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from handrail.runs import (
    ChainBreak,
    JournalEntry,
    JournalLine,
    RunHead,
    RunStore,
    open_runs,
    verify,
)
from handrail.runs._sealing.compression import decompress
from handrail.runs.chain import find_break
from handrail.runs.journal import chain_digest, extend

LINES = [
    JournalLine.of("status", status="running"),
    JournalLine.of("requested", tool="pay", args={"amount": 5}),
    JournalLine.of("finished", text="paid"),
    JournalLine.of("status", status="done", reason="answer"),
    JournalLine.of("note"),
]
HEAD, ENTRIES = extend(RunHead("r"), LINES, 1.0)
PLACES = st.integers(0, len(LINES) - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=9)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[RunStore]:
    journal = open_runs(tmp_path / "journal.db")
    for line in LINES:
        journal.append("r", [line])
    yield journal
    journal.close()


def number_of(entries: list[JournalEntry], head: RunHead | None = HEAD) -> int | None:
    found = find_break("r", head, entries)
    return found.number if found else None


def changed(entry: JournalEntry, **fields: Any) -> JournalEntry:
    values = {name: getattr(entry, name) for name in ("run", "number", "kind", "body", "digest")}
    return JournalEntry(**{**values, **fields})


def test_a_whole_chain_has_no_break() -> None:
    assert find_break("r", HEAD, ENTRIES) is None
    assert find_break("empty", RunHead("empty"), []) is None


@given(PLACES, st.sampled_from(["kind", "body", "digest"]), st.data())
def test_a_changed_byte_is_found_where_it_is(place: int, field: str, data: st.DataObject) -> None:
    text = getattr(ENTRIES[place], field)
    at = data.draw(st.integers(0, len(text)))
    new = text[:at] + data.draw(TEXTS) + text[at + data.draw(st.integers(0, 2)) :]
    assume(new != text)
    entries = [*ENTRIES]
    entries[place] = changed(entries[place], **{field: new})

    assert number_of(entries) == place + 1


@given(PLACES)
def test_a_dropped_entry_is_missing(place: int) -> None:
    assert number_of(ENTRIES[:place] + ENTRIES[place + 1 :]) == place + 1


@given(st.sets(PLACES, min_size=2, max_size=2).map(sorted))
def test_swapped_entries_are_found_at_the_first(places: list[int]) -> None:
    one, two = places
    entries = [*ENTRIES]
    entries[one], entries[two] = entries[two], entries[one]
    renumbered = [changed(entry, number=at) for at, entry in enumerate(entries, 1)]

    assert (number_of(entries), number_of(renumbered)) == (one + 1, one + 1)


@given(st.integers(0, len(LINES)), TEXTS)
def test_an_inserted_entry_is_found(place: int, text: str) -> None:
    before = ENTRIES[place - 1].digest if place else ""
    line = JournalLine.of("note", text=text)
    entry = JournalEntry(
        "r", place + 1, line.kind, line.body, chain_digest(before, "r", place + 1, line)
    )
    after = [changed(one, number=one.number + 1) for one in ENTRIES[place:]]
    found = number_of([*ENTRIES[:place], entry, *after])

    # Its own digest is right. The digest of the next one, or the end, is not.
    assert found == place + (2 if place < len(LINES) else 1)


def test_control_a_chain_without_the_previous_digest_is_caught() -> None:
    """With digests of single entries, two equal lines could be swapped with their digests."""
    unchained = [
        changed(entry, digest=hashlib.sha256(entry.body.encode()).hexdigest()) for entry in ENTRIES
    ]

    assert find_break("r", HEAD, unchained) == ChainBreak(
        "r", 1, "the digest does not match the entry and the one before it"
    )


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (None, ChainBreak("r", 1, "the run is not in the list of runs")),
        (RunHead("r", 6, HEAD.digest), ChainBreak("r", 6, "the run ends here instead of at 6")),
        (RunHead("r", 4, HEAD.digest), ChainBreak("r", 5, "the run should end at 4")),
        (
            RunHead("r", 5, "x"),
            ChainBreak("r", 5, "the run ends with another digest than recorded"),
        ),
        (
            RunHead("r", 5, HEAD.digest, summary={"status": "failed"}),
            ChainBreak("r", 5, "the summary differs from the entries"),
        ),
    ],
)
def test_the_end_of_a_chain_is_recorded_too(head: RunHead | None, expected: ChainBreak) -> None:
    assert find_break("r", head, ENTRIES) == expected


def test_a_digest_that_was_noted_shows_a_chain_that_was_computed_again(
    journal: RunStore,
) -> None:
    noted = [(entry.number, entry.digest) for entry in journal.read("r")]
    forged = [*LINES[:2], JournalLine.of("finished", text="not paid"), *LINES[3:]]
    journal.remove("r")
    journal.append("r", forged)

    now = [entry.digest for entry in journal.read("r")]
    assert verify(journal, "r") is None
    assert verify(journal, "r", known=noted[1]) is None
    assert verify(journal, "r", known=noted[3]) == ChainBreak(
        "r", 4, f"the digest is {now[3]}, and the expected one is {noted[3][1]}"
    )
    assert verify(journal, "r", known=(9, "x")) == ChainBreak(
        "r", 6, "the run ends here, and entry 9 is expected"
    )


CHANGES = {
    "UPDATE handrail_journal SET lines = x'7b7d' WHERE first = 2": 2,
    "UPDATE handrail_journal SET lines = CAST(x'ff' AS TEXT) WHERE first = 2": 2,
    "UPDATE handrail_journal SET digest = '5' WHERE first = 4": 4,
    "UPDATE handrail_journal SET lines = replace(lines, 'running', 'walking') WHERE first = 1": 1,
    "UPDATE handrail_journal SET first = 'x' WHERE first = 3": 3,
    "UPDATE handrail_journal SET run = 's' WHERE first = 3": 3,
    "DELETE FROM handrail_journal": 1,
    "DELETE FROM handrail_run": 1,
    "UPDATE handrail_run SET entries = 9": 6,
    "UPDATE handrail_run SET digest = x'05'": 5,
    "UPDATE handrail_summary SET about = '5'": 5,
}


@pytest.mark.parametrize("statement", CHANGES)
def test_a_changed_file_is_read_and_the_change_is_found(journal: RunStore, statement: str) -> None:
    journal.close()
    with closing(sqlite3.connect(journal.path)) as connection:
        connection.execute(statement)
        connection.commit()

    found = verify(journal, "r")

    assert found is not None
    assert (found.run, found.number) == ("r", CHANGES[statement])


@pytest.mark.parametrize(
    ("edits", "number"),
    [
        *((((place, 1, '{"text":"forged"}'),), place) for place in range(1, 6)),
        *((((place, 2, "0123456789"),), place) for place in range(1, 5)),
        (((0, None, "0" * 64),), 1),
        (((5, 2, ""),), None),  # the row has this digest in full
        (((2, 1, "{}"), (2, 2, "")), 3),
        (((2, 1, "{}"), (2, 2, ""), (3, 2, ""), (4, 2, ""), (5, 2, "")), 5),
    ],
)
def test_a_changed_entry_among_others_that_were_written_with_it_is_found(
    journal: RunStore, edits: tuple[tuple[int, int | None, str], ...], number: int | None
) -> None:
    """Without marks, a change is found at the end of the row."""
    journal.append("s", LINES)
    journal.close()
    with closing(sqlite3.connect(journal.path)) as connection:
        [(text,)] = connection.execute("SELECT lines FROM handrail_journal WHERE run = 's'")
        row: list[Any] = json.loads(decompress(text))
        for place, part, new in edits:
            if part is None:
                row[place] = new
            else:
                row[place][part] = new
        put = "UPDATE handrail_journal SET lines = ? WHERE run = 's'"
        connection.execute(put, (json.dumps(row),))
        connection.commit()

    found = verify(journal, "s")
    assert (found and found.number) == number


def test_every_run_is_verified(journal: RunStore) -> None:
    journal.append("s", LINES)
    journal.close()
    with closing(sqlite3.connect(journal.path)) as connection:
        connection.execute(
            "INSERT INTO handrail_journal (run, first, last, place, at, digest, lines) "
            "VALUES ('t', 1, 1, 1, 1.0, 'x', '[]')"
        )
        connection.execute("UPDATE handrail_run SET began = 'x' WHERE id = 's'")
        connection.commit()

    assert {run: verify(journal, run) for run in journal.names()} == {
        "r": None,
        "s": None,
        "t": ChainBreak("t", 1, "the run is not in the list of runs"),
    }
    assert [head.began for head in journal.runs(prefix="s")] == [0.0]
