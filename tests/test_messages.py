"""The page of texts for models is what really happens, and the texts keep to a few rules."""

from __future__ import annotations

import re
import sys
from itertools import groupby

import anyio
import pytest

from english import Prose, check
from handrail import FailureKind
from messages.__main__ import PAGE, TEXTS, all_texts, cost, page, rows
from messages.row import Row
from messages.stage import silent_logs

NOT_RUN = {FailureKind.BAD_ARGS, FailureKind.STALE, FailureKind.PENDING}
"""Kinds whose texts begin by saying that the call was not run."""


@pytest.fixture(scope="module")
def found() -> list[Row]:
    with silent_logs():
        return anyio.run(rows)


def test_the_pages_have_what_a_model_reads(found: list[Row]) -> None:
    sys.stdout.write(f"{cost(found)}\n")
    assert PAGE.read_text(encoding="utf-8") == page(found)
    assert TEXTS.read_text(encoding="utf-8") == all_texts(found)


def test_every_kind_of_failure_has_a_text(found: list[Row]) -> None:
    assert {row.kind for row in found} == {*FailureKind, "note"}


def test_every_row_has_its_own_name(found: list[Row]) -> None:
    names = sorted((row.kind, row.when) for row in found)

    assert [name for name, group in groupby(names) if len([*group]) > 1] == []


def test_a_call_that_was_not_run_says_so_first(found: list[Row]) -> None:
    texts = [row.text for row in found if row.kind in NOT_RUN]

    assert [text for text in texts if not text.startswith(("Not run: ", "Not run yet: "))] == []


def test_no_text_has_words_that_readers_do_not_know(found: list[Row]) -> None:
    findings = [
        (row.when, finding.match)
        for row in found
        for finding in check(Prose(1, row.text, has_sentences=False))
    ]

    assert findings == []


def test_no_denial_suggests_a_way_around(found: list[Row]) -> None:
    around = re.compile("another (approach|way)", re.IGNORECASE)

    assert [row.when for row in found if row.kind == "denied" and around.search(row.text)] == []
