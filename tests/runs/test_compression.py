"""Long texts at rest: shorter than they are, the same when they are read, and damage is found."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.runs import JournalLine, open_runs, verify
from handrail.runs._sealing.compression import compress, decompress

ANY = st.text(st.characters() | st.characters(categories=["Cs"]) | st.just("\x01"))
OLD = (
    b"\x01\x83\x94\xf3X\xed\xd43E\xb35\xd9\x90l{\x8b\x13\xcb\x15\x0c1,70426153\xb7\xb0\x04\x869\x00"
)
OLD_TEXT = (
    '["",["finished","{\\"at\\":17.5,\\"call_id\\":\\"c1\\",\\"kind\\":\\"\\",\\"pending\\":\\"\\",'
    '\\"chars\\":5,\\"text\\":\\"saw 1\\",\\"turn\\":1}","0123456789"]]'
)


@given(ANY | ANY.map(lambda text: 40 * text))
def test_every_text_is_read_as_it_was(text: str) -> None:
    stored = compress(text)
    assert decompress(stored) == text
    assert len(stored) <= len(text.encode("utf-8", "surrogatepass")) or text.startswith("\x01")


def test_a_text_that_was_stored_long_ago_is_read() -> None:
    """The dictionary is part of the format: it must not change."""
    assert decompress(OLD) == OLD_TEXT
    assert compress(OLD_TEXT) == OLD


def test_a_journal_is_stored_in_fewer_bytes_than_it_has(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    lines = [JournalLine.of("prompt", at=1.0, text=f"Refund order {n}. " * 5) for n in range(40)]
    with open_runs(path) as store:
        store.append("r", lines)
        assert [entry.body for entry in store.read("r")] == [line.body for line in lines]
        [(stored,)] = read(path, "SELECT lines FROM handrail_journal")

    assert len(stored) < sum(len(line.body) for line in lines) / 3


@pytest.mark.parametrize(
    "damage",
    ["x'01'", "x'01ffff'", "x'ff'", "x''", "substr(lines, 1, 20)", "'[]'"],
)
def test_damaged_bytes_are_found(tmp_path: Path, damage: str) -> None:
    path = str(tmp_path / "runs.db")
    with open_runs(path) as store:
        store.append("r", [JournalLine.of("prompt", at=1.0, text="Refund it. " * 20)])
        assert verify(store, "r") is None
        read(path, f"UPDATE handrail_journal SET lines = {damage}")  # noqa: S608
        found = verify(store, "r")

    assert found is not None
    assert found.number == 1


def read(path: str, sql: str) -> list[tuple[bytes]]:
    with closing(sqlite3.connect(path)) as file:
        rows = file.execute(sql).fetchall()
        file.commit()
    return rows
